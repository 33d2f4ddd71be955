"""The measurement of latencies in Neovim, with one server and few edits."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.evidence.editor import neovim


def version_of_neovim() -> tuple[int, ...]:
    """Return the version of the Neovim on the path; of none, nothing."""
    if shutil.which("nvim") is None:
        return ()
    said = subprocess.run(["nvim", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"NVIM v(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else ()


@pytest.mark.release
@pytest.mark.skipif(version_of_neovim() < (0, 11), reason="Neovim 0.11 is not installed")
def test_a_row_has_times_and_the_fields_are_offered(tmp_path, monkeypatch):
    monkeypatch.setattr(neovim, "TIMES", 2)
    monkeypatch.setattr(neovim, "STARTS", 1)
    assert re.fullmatch(r"\| typedbatch( \| \d+, at most \d+){4} \|", neovim.row("nvim", "typedbatch"))
    (tmp_path / "train.py").write_text(neovim.PROGRAM, encoding="utf-8")
    (tmp_path / "pyproject.toml").touch()
    assert neovim.times("nvim", "typedbatch", tmp_path)["offers"][:2] == ["obs", "rew"]
