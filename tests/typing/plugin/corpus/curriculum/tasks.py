"""Tasks and their data."""

from __future__ import annotations

import numpy as np

from typedbatch import Batch, BatchRecord


class TaskData(BatchRecord):
    x: np.ndarray
    y: np.ndarray
    level: np.ndarray


class TaskSource:
    """Levels add noise and dimensions."""

    def __init__(self, seed: int, max_level: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.levels = Batch(noise=np.linspace(0.0, 0.5, max_level + 1), active=np.arange(1, max_level + 2))
        self.levels.visits = np.zeros(max_level + 1, int)

    def draw(self, level: int, n: int) -> TaskData:
        self.levels.visits[level] += 1
        x = self.rng.normal(size=(n, 4))
        x[:, int(self.levels.active[level]) :] = 0.0
        #! misspelt-read: x[:, int(self.levels.dims[level]) :] = 0.0
        y = x.sum(-1) + self.levels.noise[level] * self.rng.normal(size=n)
        return TaskData(x=x, y=y, level=np.full(n, level))
        #! forgotten-field: return TaskData(x=x, y=y)
