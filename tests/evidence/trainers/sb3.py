"""Stable-Baselines3 at e05d2dbe: ``RolloutBuffer.compute_returns_and_advantage`` and ``PPO.train``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tests.evidence.trainers.standins import stand_in
from tests.evidence.trainers.steps import flat, steps
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

LENGTH, ENVS, SIZE = 32, 2, 16


class Rows:
    """A buffer whose minibatches are of the tensors of a batch, and no copies of arrays."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.values, self.returns = (value.detach().numpy() for value in (batch.v_s, batch.returns))

    def get(self, size: int) -> Iterator[Any]:
        """Yield minibatches in a random order."""
        from stable_baselines3.common.type_aliases import RolloutBufferSamples as Samples

        for part in self.batch.split(size):
            yield Samples(part.obs, part.act, part.v_s, part.logp_old, part.adv, part.returns)


class Trainer:
    """An agent, and the parts of its learning."""

    def __init__(self) -> None:
        from stable_baselines3 import PPO

        self.ppo = PPO("MlpPolicy", "CartPole-v1", n_steps=LENGTH, batch_size=SIZE, n_epochs=2, device="cpu", seed=0)
        self.ppo._setup_learn(total_timesteps=LENGTH)

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch = steps(LENGTH, ENVS)
        policy = self.ppo.policy
        with torch.no_grad():
            act, values, logp = policy(batch.obs.flatten(0, 1))
            after = policy.predict_values(batch.obs_next.flatten(0, 1))
        made = {"act": act, "logp_old": logp, "v_s": values, "v_s_": after}
        return Batch(batch, **{name: value.view(LENGTH, ENVS) for name, value in made.items()})

    def filled(self, batch: Any) -> Any:
        """Return a buffer with these steps and their advantages; collect_rollouts adds values of truncated steps."""
        from stable_baselines3.common.buffers import RolloutBuffer

        space = self.ppo.observation_space, self.ppo.action_space
        buffer = RolloutBuffer(LENGTH, *space, "cpu", self.ppo.gae_lambda, self.ppo.gamma, n_envs=ENVS)
        rewards = batch.rew + self.ppo.gamma * batch.v_s_ * batch.truncated
        ended = (batch.terminated | batch.truncated).numpy()
        for t in range(LENGTH):
            before = ended[t - 1] if t else ended[t] * 0
            numbers = (one[t].numpy() for one in (batch.obs, batch.act, rewards))
            buffer.add(*numbers, before, batch.v_s[t], batch.logp_old[t])
        buffer.compute_returns_and_advantage(batch.v_s_[-1], ended[-1])
        return buffer

    def update(self, batch: Any) -> None:
        """Train with the rows of a batch."""
        self.ppo.rollout_buffer = Rows(batch)
        self.ppo.train()

    def grade_and_update(self, batch: Any) -> None:
        """Train with a buffer of its own."""
        self.ppo.rollout_buffer = self.filled(batch)
        self.ppo.train()


def reports(checkout: Path) -> Iterator[tuple[str, Report]]:
    """Yield the reports of advantages, of an update by a batch, and of one by the buffer."""
    stand_in("cloudpickle", "matplotlib", "pandas", "tensorboard")
    sys.path.insert(0, str(checkout))
    trainer = Trainer()
    batch = trainer.rollout()
    settings = {"gamma": trainer.ppo.gamma, "lam": trainer.ppo.gae_lambda}
    yield "advantages", audit_stage(lambda one: trainer.filled(one).advantages, batch, like="gae", settings=settings)
    buffer = trainer.filled(batch)
    graded = Batch(batch, adv=torch.as_tensor(buffer.advantages), returns=torch.as_tensor(buffer.returns))
    yield "update", audit(trainer.update, flat(graded), on_policy=True, like="ppo_clip")
    trainer = Trainer()
    yield "buffer and update", audit(trainer.grade_and_update, trainer.rollout(), on_policy=True)
