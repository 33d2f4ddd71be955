"""The learners themselves."""

from __future__ import annotations

import numpy as np

from mixin_learner.mixins import BaselineMixin, ReturnsMixin, WeightsMixin


class Reinforce(ReturnsMixin):
    def learn(self) -> float:
        prob = 1 / (1 + np.exp(-self.data.obs @ self.weights))
        grad = ((self.data.act - prob) * self.data.returns) @ self.data.obs
        #! later-stage: grad = ((self.data.act - prob) * self.data.rtg) @ self.data.obs
        self.weights += 0.1 * grad / len(self.data)
        return float(self.data.returns.mean())


class WeightedBaseline(WeightsMixin, BaselineMixin):
    def learn(self) -> float:
        prob = 1 / (1 + np.exp(-self.data.obs @ self.weights))
        score = (self.data.act - prob) * self.data.adv * self.data.weight
        self.weights += 0.1 * (score @ self.data.obs) / self.data.weight.sum()
        return float(np.square(self.data.adv).mean())
