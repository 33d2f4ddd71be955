"""Two policies: softmax policy gradient, and Monte Carlo Q."""

from __future__ import annotations

import numpy as np

from policy_zoo.base import BasePolicy
from typedbatch import ActBatch, Batch, BatchWithReturns, ModelOutputBatch, ObsBatchProtocol


class PolicyGradient(BasePolicy):
    def __init__(self, dim: int, lr: float, seed: int) -> None:
        super().__init__()
        self.w = np.zeros((dim, 2))
        self.rng = np.random.default_rng(seed)
        self.opt = Batch(lr=lr, momentum=np.zeros((dim, 2)))

    def forward(self, batch: ObsBatchProtocol) -> ModelOutputBatch:
        logits = np.asarray(batch.obs @ self.w)
        probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        act = (self.rng.random(len(batch)) < probs[:, 1]).astype(int)
        return ModelOutputBatch(logits=logits, act=act, state=None)
        #! misspelt-keyword: return ModelOutputBatch(logit=logits, act=act, state=None)

    def learn(self, batch: BatchWithReturns) -> float:
        out = self.forward(batch)
        probs = np.exp(out.logits) / np.exp(out.logits).sum(-1, keepdims=True)
        #! later-stage: probs = np.exp(out.log_prob) / np.exp(out.logits).sum(-1, keepdims=True)
        adv = batch.returns - batch.returns.mean()
        gradient = batch.obs.T @ ((np.eye(2)[batch.act] - probs) * adv[:, None]) / len(batch)
        self.opt.momentum = 0.9 * self.opt.momentum + gradient
        self.w = self.w + self.opt.lr * self.opt.momentum
        #! misspelt-read: self.w = self.w + self.opt.learning_rate * self.opt.momentum
        return float(-(np.log(probs[np.arange(len(batch)), batch.act]) * adv).mean())


class MonteCarloQ(BasePolicy):
    def __init__(self, dim: int, epsilon: float, seed: int) -> None:
        super().__init__()
        self.q = np.zeros((dim, 2))
        self.rng = np.random.default_rng(seed)
        self.explore = Batch(epsilon=epsilon, decay=0.9)

    def forward(self, batch: ObsBatchProtocol) -> ActBatch:
        greedy = (batch.obs @ self.q).argmax(-1)
        random = self.rng.random(len(batch)) < float(self.explore.epsilon)
        return ActBatch(act=np.where(random, self.rng.integers(0, 2, len(batch)), greedy))

    def learn(self, batch: BatchWithReturns) -> float:
        chosen = (batch.obs @ self.q)[np.arange(len(batch)), batch.act]
        error = batch.returns - chosen
        self.q += 0.1 * batch.obs.T @ (np.eye(2)[batch.act] * error[:, None]) / len(batch)
        self.explore.epsilon *= self.explore.decay
        #! misspelt-read: self.explore.eps *= self.explore.decay
        return float(np.square(error).mean())
