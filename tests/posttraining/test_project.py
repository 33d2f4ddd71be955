"""The example of GRPO in several modules: it learns in one process and in two, padded and packed, typed strictly."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing.caches import PLUGIN, warm
from tests.typing.checkers import CHECKERS, call, command_of

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2] / "docs" / "examples" / "grpo"


@pytest.mark.parametrize(
    ("program", "arguments"), [("main.py", ["0"]), ("main.py", ["1", "packed"]), ("distributed.py", ["0"])]
)
def test_the_reward_rises(program, arguments):
    run = [sys.executable, str(PROJECT / program), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rewards = [float(reward) for reward in re.findall(r"mean reward ([\d.]+)", done.stdout)]
    assert rewards[0] < 0.6
    assert rewards[-1] > 0.9


@pytest.mark.parametrize("checker", [PLUGIN, CHECKERS["pyright"]], ids=["mypy with the plugin", "pyright"])
def test_a_strict_checker_has_nothing_to_say(checker, tmp_path, kept):
    folder = tmp_path / "example"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__", "streamed.py"))  # Ray is elsewhere.
    for name, text in checker.settings.items():
        (folder / name).write_text(text, encoding="utf-8")
    if checker is PLUGIN:
        warm(kept, checker, tmp_path / "cache")
    files = sorted(path.name for path in folder.glob("*.py"))
    done = call(checker, [*command_of(checker, tmp_path / "cache"), *files], folder)
    assert done.returncode == 0, done.stdout + done.stderr
