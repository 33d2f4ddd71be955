"""The base class, and a logger of statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from typedbatch import ActBatchProtocol, Batch, BatchWithReturns, ObsBatchProtocol, RolloutBatchProtocol, extend


class BasePolicy(ABC):
    def __init__(self, gamma: float = 0.9) -> None:
        self.gamma = gamma
        self.stats = Batch(updates=0, last_loss=0.0)

    @abstractmethod
    def forward(self, batch: ObsBatchProtocol) -> ActBatchProtocol: ...

    @abstractmethod
    def learn(self, batch: BatchWithReturns) -> float: ...

    def process_fn(self, batch: RolloutBatchProtocol) -> BatchWithReturns:
        returns, running = np.zeros(len(batch)), 0.0
        for t in reversed(range(len(batch))):
            running = batch.rew[t] + self.gamma * running * (1 - batch.terminated[t])
            #! misspelt-read: running = batch.rew[t] + self.gamma * running * (1 - batch.terminate[t])
            returns[t] = running
        return extend(batch, BatchWithReturns, returns=returns)

    def update(self, batch: RolloutBatchProtocol) -> float:
        loss = self.learn(self.process_fn(batch))
        self.stats.updates += 1
        self.stats.last_loss = loss
        self.stats.total = self.stats.get("total", 0.0) + loss
        return loss

    def average_loss(self) -> float:
        return float(self.stats.total / self.stats.updates)
        #! misspelt-read: return float(self.stats.total / self.stats.n_updates)
