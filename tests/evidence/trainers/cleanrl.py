"""CleanRL at fe8d8a03: the part of ``ppo.py`` from advantages to the last optimizer step, as it is written there."""

from __future__ import annotations

import runpy
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from gymnasium import spaces

from tests.evidence.trainers.standins import stand_in
from tests.evidence.trainers.steps import flat, steps
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

LENGTH, ENVS = 32, 2


class Trainer:
    """The names that the script has at the end of a rollout."""

    def __init__(self, path: Path) -> None:
        self.path, self.names = path, runpy.run_path(str(path), run_name="ppo")
        size = LENGTH * ENVS
        self.args = self.names["Args"](num_envs=ENVS, num_steps=LENGTH, batch_size=size, minibatch_size=size // 4)
        self.envs = SimpleNamespace(
            single_observation_space=spaces.Box(-1, 1, (4,)), single_action_space=spaces.Discrete(3)
        )
        self.agent = self.names["Agent"](self.envs)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=self.args.learning_rate, eps=1e-5)

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch = steps(LENGTH, ENVS)
        with torch.no_grad():
            act, logp, _, values = self.agent.get_action_and_value(batch.obs)
            after = self.agent.get_value(batch.obs_next)
        return Batch(batch, act=act.float(), logp_old=logp, v_s=values[..., 0], v_s_=after[..., 0])

    def run(self, begin: str, end: str, **names: Any) -> dict[str, Any]:
        """Run the lines from one that begins with a text to one that begins with another, with these names."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        first, last = (next(n for n, line in enumerate(lines) if line.strip().startswith(one)) for one in (begin, end))
        code = "\n" * first + textwrap.dedent("\n".join(lines[first:last]))
        known = {"agent": self.agent, "optimizer": self.optimizer, "args": self.args, "envs": self.envs}
        space = {**self.names, **known, "device": torch.device("cpu"), **names}
        exec(compile(code, str(self.path), "exec"), space)
        return space

    def graded(self, batch: Any, **names: Any) -> dict[str, Any]:
        """Run the computation of advantages."""
        ended = (batch.terminated | batch.truncated).float()
        before = torch.cat([torch.zeros_like(ended[:1]), ended[:-1]])
        read = {"rewards": batch.rew, "values": batch.v_s, "dones": before, "next_done": ended[-1]}
        return self.run("# bootstrap value", "# flatten", next_obs=batch.obs_next[-1], **read, **names)

    def update(self, batch: Any) -> None:
        """Run the epochs on a batch with advantages."""
        read = {"obs": batch.obs, "actions": batch.act, "logprobs": batch.logp_old, "values": batch.v_s}
        self.run("# flatten", "y_pred, y_true", advantages=batch.adv, returns=batch.returns, **read)

    def grade_and_update(self, batch: Any) -> None:
        """Run both."""
        graded = self.graded(batch)
        self.update(Batch(batch, adv=graded["advantages"], returns=graded["returns"]))

    def advantages(self, batch: Any) -> Any:
        """Return the advantages for the values that a batch has."""
        return self.graded(batch, agent=SimpleNamespace(get_value=lambda _: batch.v_s_[-1]))["advantages"]


def reports(checkout: Path) -> Iterator[tuple[str, Report]]:
    """Yield the reports of advantages, of the epochs alone, and of both parts."""
    stand_in("tyro", "tensorboard")
    torch.manual_seed(0)
    path = checkout / "cleanrl" / "ppo.py"
    trainer = Trainer(path)
    batch = trainer.rollout()
    settings = {"gamma": trainer.args.gamma, "lam": trainer.args.gae_lambda}
    yield "advantages like gae", audit_stage(trainer.advantages, batch, like="gae", settings=settings)
    graded = trainer.graded(batch)
    ready = flat(Batch(batch, adv=graded["advantages"], returns=graded["returns"]))
    yield "update", audit(trainer.update, ready, on_policy=True, like="ppo_clip")
    trainer = Trainer(path)
    yield "advantages and update", audit(trainer.grade_and_update, trainer.rollout(), on_policy=True)
