"""The example of GRPO learns its task for each seed, and strict checkers have nothing to say of it."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import pytest
import torch

from tests.typing.caches import PLUGIN, warm
from tests.typing.checkers import CHECKERS, call, command_of

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "grpo.py"


@pytest.fixture
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.quick), 2])
@pytest.mark.usefixtures("same_threads")
def test_the_reward_rises(seed, capsys):
    runpy.run_path(str(EXAMPLE))["main"](seed)
    rewards = [float(reward) for reward in re.findall(r"mean reward ([\d.]+)", capsys.readouterr().out)]
    assert rewards[0] < 0.5
    assert rewards[-1] > 0.9


@pytest.mark.parametrize("checker", [PLUGIN, CHECKERS["pyright"]], ids=["mypy with the plugin", "pyright"])
def test_a_strict_checker_has_nothing_to_say(checker, tmp_path, kept):
    folder = tmp_path / "example"
    folder.mkdir()
    shutil.copy(EXAMPLE, folder)
    for name, text in checker.settings.items():
        (folder / name).write_text(text, encoding="utf-8")
    if checker is PLUGIN:
        warm(kept, checker, tmp_path / "cache")
    done = call(checker, [*command_of(checker, tmp_path / "cache"), EXAMPLE.name], folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_has_at_most_150_lines_of_code():
    assert sum(bool(line.strip()) for line in EXAMPLE.read_text().splitlines()) <= 150
