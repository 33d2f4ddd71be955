"""Safe RL with costs: a generic record of my own, Lagrange multipliers, numpy."""
from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch import ArrayOrTensor, Batch, RolloutBatch, RolloutBatchProtocol, extend, validate

Array = NDArray[Any]
T = TypeVar("T", bound=ArrayOrTensor)


class CostRollout(RolloutBatch[T], Generic[T]):
    cost: T


class CostProtocol(RolloutBatchProtocol, Protocol):
    @property
    def cost(self) -> Array: ...


class PenalisedProtocol(CostProtocol, Protocol):
    @property
    def penalised(self) -> Array: ...


class Penalised(CostRollout[Array]):
    penalised: Array


class Lagrange:
    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.state = Batch(multiplier=0.0)
        self.state.history = Batch(cost=np.zeros(0), multiplier=np.zeros(0))

    def update(self, batch: CostProtocol) -> None:
        cost = float(batch.cost.mean())
        self.state.multiplier = max(0.0, self.state.multiplier + 0.5 * (cost - self.limit))
        self.state.history.cost = np.append(self.state.history.cost, cost)
        self.state.history.multiplier = np.append(self.state.history.multiplier, self.state.multiplier)

    def penalise(self, batch: CostRollout[Array]) -> Penalised:
        return extend(batch, Penalised, penalised=batch.rew - self.state.multiplier * batch.cost)


def score(batch: PenalisedProtocol) -> float:
    return float(batch.penalised.mean())


def score_early(batch: CostRollout[Array]) -> float:
    return score(batch)  # E: user-wrong-stage


def update_without_cost(lagrange: Lagrange, batch: RolloutBatch) -> None:
    lagrange.update(batch)  # E: user-wrong-stage


def costs(batch: CostProtocol) -> Array:
    return batch.costs  # E: user-misspelt


def collect(rng: np.random.Generator, n: int) -> Batch:
    batch = Batch(obs=rng.normal(size=(n, 2)), act=rng.normal(size=n))
    batch.obs_next = batch.obs + batch.act[:, None]
    batch.rew = batch.obs_next[:, 0]
    batch.info = Batch(cost=np.abs(batch.act), unsafe=np.abs(batch.act) > 1)
    batch.terminated = batch.info.unsafe.copy()
    batch.truncated = np.zeros(n, bool)
    batch.cost = batch.info.cost
    batch.cost[batch.info.unsafe] += 1.0
    return batch


def main() -> None:
    rng = np.random.default_rng(0)
    lagrange = Lagrange(0.5)
    for _ in range(3):
        data = collect(rng, 50)
        del data.info.cost
        typed = validate(data, CostRollout[Array])
        lagrange.update(typed)
        for mb in lagrange.penalise(typed).split(25):
            print(round(score(mb), 2), mb.info == data.info)
    history = lagrange.state.history
    print(history.cost.shape, (np.diff(history.multiplier) > 0).all())
    lagrange.state.multiplier = 1
    print(lagrange.state.multiplier.shape)  # E: narrowed-write [only: zuban]


if __name__ == "__main__":
    main()
