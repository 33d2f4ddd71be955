"""Off-policy evaluation: importance sampling over logged episodes, numpy."""
from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, BatchRecord, checked, conforms, extend

Array = NDArray[Any]


class Logged(BatchRecord):
    context: NDArray[np.float64]
    act: NDArray[np.int64]
    rew: NDArray[np.float64]
    propensity: NDArray[np.float64]


class Weighted(Logged):
    ratio: NDArray[np.float64]


class HasRatio(BatchProtocol, Protocol):
    @property
    def ratio(self) -> NDArray[np.float64]: ...
    @property
    def rew(self) -> NDArray[np.float64]: ...


class Estimate(NamedTuple):
    value: float
    effective: float
    details: Batch


def weigh(batch: Logged, policy: Array) -> Weighted:
    scores = batch.context @ policy
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return extend(batch, Weighted, ratio=p[np.arange(len(batch)), batch.act] / batch.propensity)


@checked
def estimate(batch: HasRatio, clip: float = 10.0) -> Estimate:
    ratio = batch.ratio.clip(max=clip)
    details = Batch(max=ratio.max())
    details.clipped = int((batch.ratio > clip).sum())
    details.ratio = Batch(mean=ratio.mean(), std=ratio.std())
    return Estimate(float((ratio * batch.rew).mean()), float(ratio.sum() ** 2 / np.square(ratio).sum()), details)


def estimate_logged(batch: Logged) -> Estimate:
    return estimate(batch)  # E: user-wrong-stage


def estimate_plain(batch: Batch) -> Estimate | None:
    if conforms(batch, HasRatio):
        return estimate(batch)
    return None


def estimate_hopefully(batch: Batch) -> Estimate:
    return estimate(batch)  # E: user-unchecked


def propensities(batch: Logged) -> Array:
    return np.asarray(1 / batch.propensities)  # E: user-misspelt


def simulate(rng: np.random.Generator, n: int) -> Logged:
    context = rng.normal(size=(n, 4))
    act = rng.integers(3, size=n)
    log = Batch(context=context)
    log.act = act
    log.rew = (context[:, 0] > 0) * (act == 1) * 1.0
    log.propensity = np.full(n, 1 / 3)
    return Logged(context=log.context, act=log.act, rew=log.rew, propensity=log.propensity)


def bootstrap(batch: Weighted, rng: np.random.Generator, rounds: int) -> Batch:
    values: list[Batch] = []
    for _ in range(rounds):
        rows = rng.integers(len(batch), size=len(batch))
        result = estimate(batch[rows])
        values.append(Batch(value=result.value, ess=result.effective))
    out = Batch.stack(values)
    out.low, out.high = np.percentile(out.value, [5, 95])
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    logged = simulate(rng, 500)
    weighted = weigh(logged, rng.normal(size=(4, 3)))
    result = estimate(weighted)
    print(round(result.value, 2), result.details.clipped, result.details.ratio.mean.round(1))
    interval = bootstrap(weighted, rng, 20)
    print(interval.low < interval.high, interval.ess.mean() > 1)
    print(estimate_plain(Batch(ratio=np.ones(3), rew=np.ones(3))), estimate_plain(Batch(rew=np.ones(3))))


if __name__ == "__main__":
    main()
