"""Prioritised replay with a typed buffer, and TD errors written back."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, PrioBatchProtocol, RolloutBatch, RolloutBatchProtocol
from typedbatch.buffers import PrioritizedReplayBuffer

Array = NDArray[Any]


@dataclass
class Learner:
    dim: int
    weights: Array = field(init=False)
    buffer_stats: Batch = field(default_factory=Batch)

    def __post_init__(self) -> None:
        self.weights = np.zeros(self.dim)
        self.buffer_stats.seen = 0
        self.buffer_stats.errors = Batch(mean=0.0, top=0.0)

    def errors(self, batch: RolloutBatchProtocol) -> Array:
        return np.asarray(batch.rew + 0.9 * batch.obs_next @ self.weights - batch.obs @ self.weights)

    def learn(self, batch: PrioBatchProtocol) -> Array:
        errors = self.errors(batch)
        self.weights = self.weights + 0.01 * (batch.weight * errors) @ batch.obs
        self.buffer_stats.seen += len(batch)
        self.buffer_stats.errors.mean = np.abs(errors).mean()
        self.buffer_stats.errors.top = np.abs(errors).max()
        return errors

    def learn_without_weights(self, batch: RolloutBatch) -> Array:
        return self.learn(batch)  # E: user-wrong-stage

    def weights_of(self, batch: PrioBatchProtocol) -> Array:
        return np.asarray(batch.weights / batch.weight.max())  # E: user-misspelt


def step(t: int, rng: np.random.Generator) -> RolloutBatch:
    obs = rng.normal(size=3)
    return RolloutBatch(
        obs=obs, obs_next=obs * 0.9, act=np.array(0), rew=np.array(obs.sum()),
        terminated=np.array(t % 9 == 8), truncated=np.array(False), info=Batch(t=t),
    )


def report(learner: Learner) -> str:
    stats = learner.buffer_stats
    return f"{stats.seen} rows, error {stats.errors.mean:.2f}, worst {stats.errors.top:.2f}"


def main() -> None:
    rng = np.random.default_rng(0)
    buffer = PrioritizedReplayBuffer[RolloutBatch](100, alpha=0.6, beta=0.4, random_seed=0)
    finished: list[Batch] = []
    for t in range(60):
        added = buffer.add(step(t, rng))
        if added.ep_len[0] > 0:
            finished.append(Batch(ep_return=added.ep_return[0], ep_len=added.ep_len[0]))
    episodes = Batch.stack(finished)
    episodes.mean = episodes.ep_return / episodes.ep_len
    print(episodes.ep_len, episodes.mean.shape)
    learner = Learner(3)
    for _ in range(4):
        batch, slots = buffer.sample(16)
        buffer.update_weight(slots, np.abs(learner.learn(batch)) + 1e-3)
        print(report(learner))


if __name__ == "__main__":
    main()
