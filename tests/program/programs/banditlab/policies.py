"""Policies with their state in a Batch."""

import numpy as np

from typedbatch import Batch


class LinUCB:
    def __init__(self, arms, dim, alpha=0.5):
        self.alpha = alpha
        self.state = Batch(a=np.stack([np.eye(dim)] * arms), b=np.zeros((arms, dim)), pulls=np.zeros(arms, int))

    def choose(self, ctx):
        est = Batch(theta=np.linalg.solve(self.state.a, self.state.b[..., None])[..., 0])
        est.mean = est.theta @ ctx
        est.width = np.sqrt(((np.linalg.inv(self.state.a) @ ctx) * ctx).sum(-1))
        est.bound = est.mean + self.alpha * est.width
        return int(est.bound.argmax())

    def learn(self, row):
        k = int(row["act"])
        self.state.a[k] += np.outer(row["ctx"], row["ctx"])
        self.state.b[k] += row["rew"] * row["ctx"]
        self.state.pulls[k] += 1


class Greedy(LinUCB):
    def __init__(self, arms, dim):
        super().__init__(arms, dim, alpha=0.0)
        self.state.name = "greedy"


POLICIES = {"linucb": LinUCB, "greedy": Greedy}
