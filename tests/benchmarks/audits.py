"""Updates under an audit beside the same updates without one."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from typedbatch.audit import Audit
from typedbatch.rows import repeat
from typedbatch.training import Collector

from .timing import Row, row

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
BAR = 3.0
ROUNDS = 9


def measure_audits() -> Iterator[Row]:
    """The updates of the examples in the docs."""
    torch.manual_seed(0)
    for name, update, args in (("PPO", *_ppo()), ("DQN", *_dqn()), ("GRPO", *_grpo())):
        session = Audit(updates=1_000_000, on_finding="keep")

        def plain(update: Any = update, args: Any = args) -> None:
            update(*args)

        def traced(session: Audit = session, update: Any = update, args: Any = args) -> None:
            session.call(update, *args)

        yield row(name, plain, traced, BAR, ROUNDS)


def _ppo() -> tuple[Any, Any]:
    example = runpy.run_path(str(EXAMPLES / "ppo.py"))
    ppo = example["PPO"]()
    collector = Collector(gym.make_vec("CartPole-v1", 8), ppo.sample, example["record"])
    return ppo.update, (collector.rollout(256),)


def _dqn() -> tuple[Any, Any]:
    example = runpy.run_path(str(EXAMPLES / "dqn.py"))
    buffer = example["Buffer"](2_000, 8, alpha=0.6, beta=0.4, random_seed=0)
    dqn = example["DQN"](buffer, 0, True)
    Collector(gym.make_vec("CartPole-v1", 8), dqn.explore).collect(buffer, 1_000)
    return dqn.update, buffer.sample(example["BATCH"])


def _grpo() -> tuple[Any, Any]:
    example = runpy.run_path(str(EXAMPLES / "grpo.py"))
    model = example["Model"]()
    prompts = repeat(example["draw_prompts"](0), example["GROUP"])
    prompts.meta.update(step=0, temperature=1.0)
    batch = example["prepare"](model, example["score"](example["sample"](model, prompts)))
    return example["update"], (model, torch.optim.Adam(model.parameters(), 1e-3), batch)
