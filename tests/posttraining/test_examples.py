"""The examples of GRPO, in one module and in several, learn their task, and strict checkers find nothing in them."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing.caches import PLUGIN, warm
from tests.typing.checkers import CHECKERS, call, command_of

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def rewards(printed: str) -> list[float]:
    return [float(reward) for reward in re.findall(r"mean reward ([\d.]+)", printed)]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.quick), 2])
def test_the_reward_rises(seed, capsys):
    runpy.run_path(str(EXAMPLES / "grpo.py"))["main"](seed)
    first, *_, last = rewards(capsys.readouterr().out)
    assert first < 0.5
    assert last > 0.9


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("main.py", ["0", "30", "packed"]),
        ("distributed.py", ["0", "30"]),  # which learns as main.py does without "packed"
        pytest.param("main.py", ["0", "60"], marks=pytest.mark.release),
    ],
)
def test_the_reward_of_several_modules_rises(program, arguments):
    run = [sys.executable, str(EXAMPLES / "grpo" / program), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *_, last = rewards(done.stdout)
    assert last > first + 0.3


@pytest.mark.parametrize("project", ["grpo", "asynchronous"])
@pytest.mark.parametrize("checker", [PLUGIN, CHECKERS["pyright"]], ids=["mypy with the plugin", "pyright"])
def test_a_strict_checker_has_nothing_to_say(checker, project, tmp_path, kept):
    ignored = shutil.ignore_patterns("__pycache__", "streamed.py")  # Ray is elsewhere.
    folder = shutil.copytree(EXAMPLES / project, tmp_path / "examples", ignore=ignored)
    if project == "grpo":
        shutil.copy(EXAMPLES / "grpo.py", folder)
    for name, text in checker.settings.items():
        (folder / name).write_text(text, encoding="utf-8")
    if checker is PLUGIN:
        warm(kept, checker, tmp_path / "cache")
    files = sorted(path.name for path in folder.glob("*.py"))
    done = call(checker, [*command_of(checker, tmp_path / "cache"), *files], folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_has_at_most_150_lines_of_code():
    assert sum(bool(line.strip()) for line in (EXAMPLES / "grpo.py").read_text().splitlines()) <= 150
