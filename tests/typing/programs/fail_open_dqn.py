"""DQN with a linear Q function in numpy, in the way of Tianshou's DQNPolicy."""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchWithReturnsProtocol, RolloutBatchProtocol, validate

Array = NDArray[Any]


class Stats:
    def __init__(self) -> None:
        self.buffer_stats = Batch()
        self.losses: list[float] = []

    def record(self, batch: Batch) -> None:
        self.buffer_stats.rew_mean = float(batch.rew.mean())
        self.buffer_stats.rew_std = float(batch.rew.std())
        self.buffer_stats.n = len(batch)


class DQN:
    def __init__(self, dim: int, actions: int, gamma: float = 0.95) -> None:
        self.weights: Array = np.zeros((dim, actions))
        self.target: Array = self.weights.copy()
        self.gamma = gamma
        self.stats = Stats()

    def process_fn(self, batch: Batch) -> Batch:
        q_next = (batch.obs_next @ self.target).max(axis=1)
        done = batch.terminated | batch.truncated
        batch.returns = batch.rew + self.gamma * q_next * ~done
        batch.weight = np.ones(len(batch))
        batch.weight *= 0.5
        return batch

    def learn(self, batch: BatchWithReturnsProtocol, lr: float = 0.01) -> float:
        rows = np.arange(len(batch))
        td = batch.returns - (batch.obs @ self.weights)[rows, batch.act]
        for row in rows:  # E: list-of-any [only: zuban]
            self.weights[:, batch.act[row]] += lr * td[row] * batch.obs[row]
        return float(np.square(td).mean())

    def update(self, batch: Batch) -> float:
        done = self.process_fn(batch)
        del done.weight
        self.stats.record(done)
        loss = self.learn(done)  # E: user-unchecked
        self.stats.losses.append(loss)
        return loss

    def update_validated(self, batch: Batch) -> float:
        done = validate(self.process_fn(batch), BatchWithReturnsProtocol)
        return self.learn(done)


def mean_reward(batch: RolloutBatchProtocol) -> float:
    return float(batch.rew.mean())


def wrong_mean(batch: RolloutBatchProtocol) -> float:
    return float(batch.reward.mean())  # E: user-misspelt


def collect(rng: np.random.Generator, n: int) -> Batch:
    steps: list[Batch] = []
    obs = rng.normal(size=4)
    for t in range(n):
        act = int(rng.integers(2))
        obs_next = obs + rng.normal(size=4) * 0.1
        step = Batch(obs=obs, obs_next=obs_next, act=act, rew=float(obs[act]), info={"t": t})
        step.terminated = t % 10 == 9
        step.truncated = False
        steps.append(step)
        obs = obs_next
    return Batch.stack(steps)


def main() -> None:
    rng = np.random.default_rng(0)
    dqn = DQN(4, 2)
    for _ in range(3):
        data = collect(rng, 64)
        for mb in data.split(16):
            dqn.update_validated(mb)
        dqn.stats.record(data)
        print(dqn.stats.buffer_stats.rew_mean, data.info.t[-1], data[:5].obs.shape)
        print(mean_reward(validate(data, RolloutBatchProtocol)))


if __name__ == "__main__":
    main()
