"""The project to start from, and what CI runs in it: typed from the first commit on."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

import typedbatch

EXAMPLES = Path(typedbatch.__file__).parent.parent / "docs" / "examples"


@pytest.fixture
def project(tmp_path):
    """A copy of the template."""
    return shutil.copytree(
        EXAMPLES / "template", tmp_path / "myagent", ignore=shutil.ignore_patterns("__pycache__", ".*")
    )


def run(command: str, project: Path) -> subprocess.CompletedProcess[str]:
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
def test_every_step_of_ci_passes(project):
    for command in commands():
        done = run(command, project)
        assert done.returncode == 0, done.stdout + done.stderr


def test_tox_runs_the_same():
    settings = ConfigParser()
    settings.read(EXAMPLES / "ci" / "tox.ini")
    assert [settings["testenv:types"]["commands"], settings["testenv"]["commands"]] == commands()


@pytest.mark.slow
def test_mistakes_are_found(project):
    module = project / "myagent" / "batches.py"
    source = module.read_text(encoding="utf-8")
    module.write_text(
        source.replace("batch.rew[t]", "batch.reward[t]").replace("returns=returns[:-1]", "retruns=returns")
    )
    done = run("python -m mypy", project)
    assert done.returncode == 1
    assert 'Rollout has no field "reward"; did you mean "rew"?' in done.stdout
    assert "retruns" in done.stdout
    (project / "mypy.ini").write_text("[mypy]\nfiles = myagent\nstrict = True\n")
    module.write_text(source, encoding="utf-8")
    assert "Literal[True]" in run("python -m mypy", project).stdout  # the plugin is off
