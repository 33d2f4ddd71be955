"""Stable-Baselines3 at e05d2dbe: ``RolloutBuffer.compute_returns_and_advantage`` and ``PPO.train``."""

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from tests.evidence.trainers.steps import ENVS, GAMMA, LAM, LENGTH, reports_of, steps
from typedbatch import Batch


class Ppo:
    """An agent, and the parts of its learning."""

    def __init__(self) -> None:
        options = {"gamma": GAMMA, "gae_lambda": LAM, "n_steps": LENGTH, "batch_size": 16, "n_epochs": 2, "seed": 0}
        self.ppo = PPO("MlpPolicy", "CartPole-v1", device="cpu", **options)
        self.ppo.set_logger(configure(None, []))

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch = steps()
        with torch.no_grad():
            act, values, logp = self.ppo.policy(batch.obs.flatten(0, 1))
            after = self.ppo.policy.predict_values(batch.obs_next.flatten(0, 1))
        return steps(act=act, logp_old=logp, v_s=values, v_s_=after)

    def filled(self, batch: Any) -> Any:
        """Return a buffer with steps and their advantages; collect_rollouts adds the values after truncated ones."""
        spaces = self.ppo.observation_space, self.ppo.action_space
        buffer = RolloutBuffer(LENGTH, *spaces, device="cpu", gae_lambda=LAM, gamma=GAMMA, n_envs=ENVS)
        ended = (batch.terminated | batch.truncated).numpy()
        rewards = (batch.rew + GAMMA * batch.v_s_ * batch.truncated).numpy()
        for t, (obs, act) in enumerate(zip(batch.obs.numpy(), batch.act.numpy(), strict=True)):
            buffer.add(obs, act, rewards[t], ended[t - 1] if t else ended[-1], batch.v_s[t], batch.logp_old[t])
        buffer.compute_returns_and_advantage(batch.v_s_[-1], ended[-1])
        return buffer

    def graded(self, batch: Any) -> Any:
        """Return steps with returns and advantages."""
        buffer = self.filled(batch)
        return Batch(batch, adv=torch.as_tensor(buffer.advantages), returns=torch.as_tensor(buffer.returns))

    def update(self, batch: Any) -> None:
        """Train on minibatches of the batch itself, as those of the buffer are copies of arrays."""

        def get(size: int) -> Iterator[Any]:
            for part in batch.split(size):
                yield RolloutBufferSamples(part.obs, part.act, part.v_s, part.logp_old, part.adv, part.returns)

        self.ppo.rollout_buffer = SimpleNamespace(get=get, values=batch.v_s.numpy(), returns=batch.returns.numpy())
        self.ppo.train()

    def grade_and_update(self, batch: Any) -> None:
        """Train with a buffer of the trainer's own."""
        self.ppo.rollout_buffer = self.filled(batch)
        self.ppo.train()


reports = partial(reports_of, Ppo)
