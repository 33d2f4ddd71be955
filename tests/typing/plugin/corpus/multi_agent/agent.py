"""A tabular softmax learner."""

from __future__ import annotations

import numpy as np

from multi_agent.game import CELLS
from typedbatch import BatchWithReturnsProtocol


class Agent:
    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.logits = np.zeros((CELLS, 2))

    def probs(self, obs: np.ndarray) -> np.ndarray:
        z = np.exp(obs @ self.logits)
        p: np.ndarray = z / z.sum(-1, keepdims=True)
        return p

    def act(self, obs: np.ndarray) -> int:
        return int(self.rng.random() < self.probs(obs)[1])

    def learn(self, batch: BatchWithReturnsProtocol) -> float:
        error = np.eye(2)[batch.act] - self.probs(batch.obs)
        adv = batch.returns - batch.returns.mean()
        #! later-stage: adv = batch.adv - batch.adv.mean()
        self.logits += 0.2 * batch.obs.T @ (error * adv[:, None]) / len(batch)
        return float(batch.rew.sum())
