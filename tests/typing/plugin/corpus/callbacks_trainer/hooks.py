"""Callbacks that look at, and add to, the trainer's batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from typedbatch import Batch

if TYPE_CHECKING:
    from callbacks_trainer.trainer import Trainer


class Callback:
    def on_collect(self, trainer: Trainer) -> None: ...

    def on_update(self, trainer: Trainer) -> None: ...


class RewardScaling(Callback):
    def __init__(self) -> None:
        self.running = Batch(mean=0.0, var=1.0, n=0)

    def on_collect(self, trainer: Trainer) -> None:
        rew = trainer.batch.rew
        #! old-name: rew = trainer.batch.reward
        self.running.n = self.running.n + len(rew)
        self.running.mean = self.running.mean + (rew.mean() - self.running.mean) * len(rew) / self.running.n
        #! misspelt-read: self.running.mean = self.running.mean + (rew.mean() - self.running.mean) * len(rew) / self.running.count
        self.running.var = 0.9 * self.running.var + 0.1 * rew.var()
        trainer.batch.rew = (rew - self.running.mean) / np.sqrt(self.running.var + 1e-8)


class Curiosity(Callback):
    """Adds an intrinsic reward where a prediction of the next observation fails."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.predictor = np.zeros((2, 2))

    def on_collect(self, trainer: Trainer) -> None:
        batch = trainer.batch
        error = batch.obs_next - batch.obs @ self.predictor
        #! misspelt-read: error = batch.next_obs - batch.obs @ self.predictor
        self.predictor += 0.1 * batch.obs.T @ error / len(batch)
        batch.rew_int = self.scale * np.square(error).sum(-1)
        batch.rew = batch.rew + batch.rew_int


class Logger(Callback):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_update(self, trainer: Trainer) -> None:
        batch = trainer.batch
        self.lines.append(f"{trainer.epoch}: rew {batch.rew.mean():.3f} adv {batch.adv.std():.3f}")
        #! misspelt-read: self.lines.append(f"{trainer.epoch}: rew {batch.rew.mean():.3f} adv {batch.advs.std():.3f}")


class IntrinsicLogger(Logger):
    def on_update(self, trainer: Trainer) -> None:
        super().on_update(trainer)
        if "rew_int" in trainer.batch:
            self.lines[-1] += f" int {trainer.batch.rew_int.mean():.3f}"
