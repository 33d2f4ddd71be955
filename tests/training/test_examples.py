"""The examples solve CartPole: a mean return of 475 over 20 episodes, for each seed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(autouse=True)
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def scores(printed: str) -> list[float]:
    return [float(score) for score in re.findall(r"mean return +([\d.]+)", printed)]


@pytest.mark.parametrize(
    "seed", [pytest.param(0, marks=pytest.mark.quick), 1, pytest.param(2, marks=pytest.mark.release)]
)
def test_ppo(seed, capsys):
    runpy.run_path(str(EXAMPLES / "ppo.py"))["main"](seed)
    assert scores(capsys.readouterr().out)[-1] >= 475


def test_dqn(capsys):
    runpy.run_path(str(EXAMPLES / "dqn.py"))["main"](2, prioritized=True)
    assert scores(capsys.readouterr().out)[-1] >= 475


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_an_example_has_at_most_120_lines(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 120
