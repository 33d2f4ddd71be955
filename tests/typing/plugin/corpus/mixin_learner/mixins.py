"""Fields that learners can ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixin_learner.base import Learner


class ReturnsMixin(Learner):
    gamma = 0.9

    def process(self) -> None:
        super().process()
        returns = np.zeros(len(self.data))
        running = 0.0
        for t in reversed(range(len(returns))):
            running = self.data.rew[t] + self.gamma * running * (not self.data.end[t])
            #! old-name: running = self.data.rew[t] + self.gamma * running * (not self.data.done[t])
            returns[t] = running
        self.data.returns = returns


class BaselineMixin(ReturnsMixin):
    """Advantages over a linear baseline."""

    baseline: np.ndarray | None = None

    def process(self) -> None:
        super().process()
        fit, *_ = np.linalg.lstsq(self.data.obs, self.data.returns, rcond=None)
        #! misspelt-read: fit, *_ = np.linalg.lstsq(self.data.obs, self.data.retruns, rcond=None)
        self.baseline = fit
        self.data.v_s = self.data.obs @ fit
        self.data.adv = self.data.returns - self.data.v_s
        #! later-stage: self.data.adv = self.data.returns - self.data.values_s


class WeightsMixin(Learner):
    """Importance weights that decay with age."""

    def process(self) -> None:
        super().process()
        age = np.arange(len(self.data))[::-1]
        self.data.weight = np.exp(-0.01 * age)
        #! wrong-type: self.data.weight = None

    def summary(self) -> dict[str, Any]:
        return {"ess": float(self.data.weight.sum() ** 2 / (self.data.weight**2).sum())}
        #! misspelt-read: return {"ess": float(self.data.weight.sum() ** 2 / (self.data.weights**2).sum())}
