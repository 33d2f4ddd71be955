"""TD3 in numpy with linear actors; a replay memory of my own as a mixin."""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol, extend

Array = NDArray[Any]


class Targets(RolloutBatch):
    y: NDArray[np.float64]


class MemoryMixin:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: list[RolloutBatch] = []
        self.extra = Batch(added=0, dropped=0)

    def add(self, row: RolloutBatch) -> None:
        if len(self.rows) == self.capacity:
            self.rows.pop(0)
            self.extra.dropped += 1
        self.rows.append(row)
        self.extra.added += 1

    def sample(self, n: int, rng: np.random.Generator) -> RolloutBatch:
        chosen = rng.choice(len(self.rows), size=n)
        return RolloutBatch.stack([self.rows[int(i)] for i in chosen])

    def add_plain(self, batch: Batch) -> None:
        self.rows.append(batch)  # E: user-unchecked


class TD3(MemoryMixin):
    def __init__(self, dim: int) -> None:
        super().__init__(200)
        self.rng = np.random.default_rng(1)
        self.actor: Array = self.rng.normal(size=dim)
        self.critics: Array = self.rng.normal(size=(2, dim + 1))
        self.result = Batch()

    def q(self, which: int, obs: Array, act: Array) -> Array:
        features = np.concatenate([obs, act[:, None]], axis=1)
        return np.asarray(features @ self.critics[which])

    def targets(self, batch: RolloutBatchProtocol) -> Targets:
        noise = self.rng.normal(size=len(batch)).clip(-0.5, 0.5)
        act = np.tanh(batch.obs_next @ self.actor) + 0.2 * noise
        q = np.minimum(self.q(0, batch.obs_next, act), self.q(1, batch.obs_next, act))
        return extend(batch, Targets, y=batch.rew + 0.99 * q * ~batch.terminated)

    def learn(self, batch: Targets) -> Batch:
        for which in range(2):
            error = self.q(which, batch.obs, batch.act) - batch.y
            features = np.concatenate([batch.obs, batch.act[:, None]], axis=1)
            self.critics[which] -= 0.01 * (error[:, None] * features).mean(0)
            self.result[f"critic{which}"] = float(np.square(error).mean())
        self.result.delay = {"actor": 2, "critic": 1}
        return self.result.copy()

    def skip_targets(self) -> Batch:
        return self.learn(self.sample(8, self.rng))  # E: user-wrong-stage

    def clip(self, batch: Targets) -> None:
        batch.targets = batch.y.clip(-1, 1)  # E: user-misspelt


def main() -> None:
    td3 = TD3(3)
    rng = np.random.default_rng(0)
    obs = rng.normal(size=3)
    for t in range(50):
        now = obs + rng.normal(size=3) * 0.1
        act = np.tanh(obs @ td3.actor)
        flags = {"terminated": np.array(t % 10 == 9), "truncated": np.array(False)}
        td3.add(RolloutBatch(obs=obs, obs_next=now, act=np.asarray(act), rew=np.asarray(-abs(now[0])), info=Batch(), **flags))
        obs = now
    results: list[Batch] = []
    for _ in range(4):
        results.append(td3.learn(td3.targets(td3.sample(16, rng))))
    log = Batch.stack(results)
    print(log.critic0.shape, log.delay.actor, td3.extra.added, td3.result.delay.critic)


if __name__ == "__main__":
    main()
