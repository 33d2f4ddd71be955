"""``python -m typedbatch.mypy`` tells how the plugin is switched on, and whether it is."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typing_extensions

import typedbatch
from tests.typing.caches import MYPY, PLUGIN, warm
from typedbatch.mypy.__main__ import LINES, main


def run(folder: Path, *arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "typedbatch.mypy", *arguments]
    environment = {**os.environ, **({"MYPY_CACHE_DIR": str(cache)} if cache is not None else {})}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)


def test_prints_lines_that_both_kinds_of_settings_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == LINES
    ini, toml = LINES.split("# or pyproject.toml")
    settings = configparser.ConfigParser()
    settings.read_string(ini)
    assert settings["mypy"]["plugins"] == "typedbatch.mypy"
    assert tomllib.loads(toml)["tool"]["mypy"]["plugins"] == ["typedbatch.mypy"]


def test_without_mypy_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (Path(file) for file in (typedbatch.__file__, np.__file__)):
        (tmp_path / found.parent.name).symlink_to(found.parent)
    (tmp_path / "typing_extensions.py").symlink_to(typing_extensions.__file__)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, "-S", "-m", "typedbatch.mypy", "--check"]  # -S leaves out all other packages
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "python -m typedbatch.mypy needs mypy; pip install mypy\n"


def test_on(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text(PLUGIN.settings["mypy.ini"])
    done = run(tmp_path, "--check", cache=warm(kept, PLUGIN, tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "typedbatch.mypy is on in the settings that mypy finds in this folder\n"


def test_off(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "other.ini").write_text(MYPY.settings["mypy.ini"])
    done = run(tmp_path, "--check", "--config-file", "other.ini", cache=warm(kept, MYPY, tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (1, "")
    said = "typedbatch.mypy is off in other.ini. Add the line of the file that you have:\n\n"
    assert done.stdout == said + LINES


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("[mypy]\nplugins = typedbatch.mypi\n", 'Error importing plugin "typedbatch.mypi"'),
        (None, "Cannot find config file"),
    ],
)
def test_mypy_cannot_run(settings: str | None, said: str, tmp_path: Path) -> None:
    if settings is not None:
        (tmp_path / "bad.ini").write_text(settings)
    done = run(tmp_path, "--check", "--config-file", "bad.ini")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mypy could not be run with bad.ini:\n")
    assert said in done.stderr
