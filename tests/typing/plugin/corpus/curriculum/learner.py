"""Ridge regression, updated batch by batch; keeps what it has seen."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from curriculum.tasks import TaskData
from typedbatch import Batch, BatchProtocol


class Fitted(BatchProtocol, Protocol):
    @property
    def y(self) -> np.ndarray: ...
    @property
    def pred(self) -> np.ndarray: ...


def mse(batch: Fitted) -> float:
    return float(np.square(batch.y - batch.pred).mean())


class Learner:
    def __init__(self, dim: int, keep_pred: bool = False) -> None:
        self.keep_pred = keep_pred
        self.theta = np.zeros(dim)
        self.gram = Batch(xx=1e-3 * np.eye(dim), xy=np.zeros(dim))
        self.seen: list[TaskData] = []

    def fit(self, data: TaskData) -> Batch:
        before = Batch(y=data.y, pred=data.x @ self.theta)
        #! missing-field: before = Batch(y=data.y, prediction=data.x @ self.theta)
        self.gram.xx = self.gram.xx + data.x.T @ data.x
        self.gram.xy = self.gram.xy + data.x.T @ data.y
        self.theta = np.linalg.solve(self.gram.xx, self.gram.xy)
        after = Batch(y=data.y, pred=data.x @ self.theta)
        report = Batch(before=mse(before), after=mse(after), level=data.level[0])
        #! wrong-argument: report = Batch(before=mse(before), after=mse(data), level=data.level[0])
        if self.keep_pred:
            report.pred = after.pred
        report.gain = report.before - report.after
        self.seen.append(data)
        return report

    def replay(self) -> float:
        everything = Batch.cat(self.seen)
        return float(np.square(everything.x @ self.theta - everything.y).mean())
        #! misspelt-read: return float(np.square(everything.x @ self.theta - everything.target).mean())
