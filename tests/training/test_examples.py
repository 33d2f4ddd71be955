"""The examples learn; PPO solves CartPole, a mean return of 475 over 20 episodes, for each seed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def scores(printed: str) -> list[float]:
    return [float(score) for score in re.findall(r"mean return +([\d.]+)", printed)]


@pytest.mark.parametrize(
    "seed", [pytest.param(0, marks=pytest.mark.quick), 1, pytest.param(2, marks=pytest.mark.release)]
)
def test_ppo(seed, capsys):
    runpy.run_path(str(EXAMPLES / "ppo.py"))["main"](seed)
    assert scores(capsys.readouterr().out)[-1] >= 475


def test_dqn(capsys):
    """It learns at once: without steps, targets or their network, some of the scores are below 100."""
    runpy.run_path(str(EXAMPLES / "dqn.py"))["main"](prioritized=True, epochs=3)
    assert min(scores(capsys.readouterr().out)) > 100


def test_recurrent_ppo_learns_what_a_policy_without_memory_cannot(capsys):
    main = runpy.run_path(str(EXAMPLES / "recurrent_ppo.py"))["main"]
    main(1, steps=20_000)
    assert scores(capsys.readouterr().out)[-1] > 100
    main(1, memory=0, steps=20_000)
    assert scores(capsys.readouterr().out)[-1] < 60


def test_hindsight_reaches_goals_that_are_never_reached_without_it(capsys):
    main = runpy.run_path(str(EXAMPLES / "hindsight.py"))["main"]
    main(0, steps=5_000)
    assert int(re.findall(r"goals reached +(\d+)%", capsys.readouterr().out)[-1]) > 80
    main(0, future_k=1, steps=5_000)
    assert int(re.findall(r"goals reached +(\d+)%", capsys.readouterr().out)[-1]) < 10


@pytest.mark.parametrize(("algorithm", "rounds"), [("mappo", 20), pytest.param("qmix", 20, marks=pytest.mark.release)])
def test_agents_meet(algorithm, rounds, capsys):
    """Agents that move at random have about -27."""
    runpy.run_path(str(EXAMPLES / "agents.py"))["main"](algorithm, rounds=rounds)
    (*_, last) = re.findall(r"mean return +(-[\d.]+)", capsys.readouterr().out)
    assert float(last) > -19


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_an_example_has_at_most_120_lines(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 120
