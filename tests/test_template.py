"""The project to start from, and what CI runs in it: typed from the first commit on."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path

import pytest

import typedbatch
from tests.typing.caches import MYPY, PLUGIN, warm

EXAMPLES = Path(typedbatch.__file__).parent.parent / "docs" / "examples"
PAGE = EXAMPLES.parent / "start" / "ci.md"
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def checked(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Done]]:
    """A copy of the template, with the cache that mypy leaves there, and what each step of CI said."""
    unwanted = shutil.ignore_patterns("__pycache__", ".*")
    project = shutil.copytree(EXAMPLES / "template", tmp_path_factory.mktemp("template") / "myagent", ignore=unwanted)
    settings = (project / "mypy.ini").read_text(encoding="utf-8")
    warm(kept, replace(PLUGIN, name="mypy-template", settings={"mypy.ini": settings}), project / ".mypy_cache")
    return project, [run(command, project) for command in commands()]


def run(command: str, project: Path) -> Done:
    """Run a command of CI with this Python."""
    program, *arguments = shlex.split(command)
    assert program == "python"
    return subprocess.run([sys.executable, *arguments], cwd=project, capture_output=True, text=True, check=False)


def commands() -> list[str]:
    """Return the commands of the workflow for GitHub, except for the installation."""
    steps = re.findall(r"- run: (.*)", (EXAMPLES / "ci" / "github.yml").read_text(encoding="utf-8"))
    assert "pip install" in steps[0]
    return steps[1:]


@pytest.mark.slow
def test_every_step_of_ci_passes(checked):
    for done in checked[1]:
        assert done.returncode == 0, done.stdout + done.stderr


def test_tox_runs_the_same():
    settings = ConfigParser()
    settings.read(EXAMPLES / "ci" / "tox.ini")
    assert [settings["testenv:types"]["commands"], settings["testenv"]["commands"]] == commands()


@pytest.mark.parametrize("name", ["template/mypy.ini", "ci/github.yml", "ci/tox.ini"])
def test_the_page_shows_the_files_as_they_are(name):
    assert f"\n{(EXAMPLES / name).read_text(encoding='utf-8')}```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_mistakes_are_found(checked, tmp_path):
    project = shutil.copytree(checked[0], tmp_path / "myagent")
    module = project / "myagent" / "batches.py"
    source = module.read_text(encoding="utf-8")
    module.write_text(
        source.replace("batch.rew[t]", "batch.reward[t]").replace("returns=returns[:-1]", "retruns=returns")
    )
    done = run("python -m mypy", project)
    assert done.returncode == 1
    assert 'Rollout has no field "reward"; did you mean "rew"?' in done.stdout
    assert "retruns" in done.stdout


@pytest.mark.slow
def test_a_plugin_that_is_off_is_found(checked, kept, tmp_path):
    project = shutil.copytree(checked[0], tmp_path / "myagent")
    (project / "mypy.ini").write_text(MYPY.settings["mypy.ini"] + "files = myagent\n", encoding="utf-8")
    cache = warm(kept, MYPY, tmp_path / "cache")
    assert "Literal[True]" in run(f"python -m mypy --cache-dir={cache}", project).stdout
