"""The trainer itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callbacks_trainer.hooks import Callback
from typedbatch import Batch


class Trainer:
    def __init__(self, callbacks: Sequence[Callback], seed: int = 0) -> None:
        self.callbacks = callbacks
        self.rng = np.random.default_rng(seed)
        self.weights = np.zeros(2)
        self.epoch = 0
        self.batch = Batch()

    def collect(self, n: int) -> None:
        obs = self.rng.normal(size=(n, 2))
        prob = 1 / (1 + np.exp(-obs @ self.weights))
        act = (self.rng.random(n) < prob).astype(int)
        self.batch = Batch(obs=obs, act=act, prob=prob)
        self.batch.obs_next = np.roll(obs, 1, axis=0) * 0.5
        self.batch.rew = obs[:, 0] * (2 * act - 1)

    def update(self) -> None:
        self.batch.adv = self.batch.rew - self.batch.rew.mean()
        #! wrong-type: self.batch.adv = None
        error = (self.batch.act - self.batch.prob) * self.batch.adv
        self.weights = self.weights + 0.5 * error @ self.batch.obs / len(self.batch)
        #! misspelt-read: self.weights = self.weights + 0.5 * error @ self.batch.obz / len(self.batch)

    def fit(self, epochs: int) -> None:
        for self.epoch in range(epochs):
            self.collect(32)
            for callback in self.callbacks:
                callback.on_collect(self)
            self.update()
            for callback in self.callbacks:
                callback.on_update(self)
