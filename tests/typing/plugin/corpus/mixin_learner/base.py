"""What all learners have in common."""

from __future__ import annotations

import numpy as np

from typedbatch import Batch


class Learner:
    """Holds the data of the current epoch in ``self.data``."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.data = Batch()
        self.weights = np.zeros(4)

    def load(self, n: int) -> None:
        self.data = Batch(obs=self.rng.normal(size=(n, 4)), act=self.rng.integers(0, 2, n))
        self.data.rew = self.data.obs[:, 0] * (2 * self.data.act - 1)
        #! misspelt-read: self.data.rew = self.data.observations[:, 0] * (2 * self.data.act - 1)
        self.data.end = np.arange(n) % 5 == 4

    def process(self) -> None:
        """Overridden by mixins, which call super()."""

    def learn(self) -> float:
        raise NotImplementedError

    def epoch(self, n: int) -> float:
        self.load(n)
        self.process()
        return self.learn()
