"""Transforms of batches put together from decorators and functools."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from typedbatch import Batch, BatchWithReturns, BatchWithReturnsProtocol, RolloutBatch, RolloutBatchProtocol, checked, extend

P = ParamSpec("P")
R = TypeVar("R")
Transform = Callable[[Batch], Batch]

CALLS = Batch(count=0, rows=0)


def counted(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        CALLS.count += 1
        result = function(*args, **kwargs)
        if isinstance(result, Batch):
            CALLS.rows += len(result)
            #! misspelt-read: CALLS.row += len(result)
        return result

    return wrapper


def compose(*transforms: Transform) -> Transform:
    return functools.reduce(lambda f, g: lambda batch: g(f(batch)), transforms)


@counted
def clip_rewards(batch: Batch, low: float, high: float) -> Batch:
    out = Batch(batch)
    out.rew = np.clip(batch["rew"], low, high)
    out.clipped = out.rew != batch["rew"]
    return out


@counted
def add_bonus(batch: Batch, scale: float) -> Batch:
    out = batch.copy()
    out.bonus = scale / np.sqrt(1 + np.arange(len(batch)))
    out.rew = batch["rew"] + out.bonus
    #! misspelt-read: out.rew = batch["rew"] + out.bonuses
    return out


@functools.lru_cache(maxsize=8)
def discount_matrix(n: int, gamma: float) -> np.ndarray:
    power = np.arange(n)[None] - np.arange(n)[:, None]
    return np.asarray(np.triu(gamma ** np.maximum(power, 0)))


@checked
@counted
def add_returns(batch: RolloutBatchProtocol, gamma: float) -> BatchWithReturns:
    returns = discount_matrix(len(batch), gamma) @ batch.rew
    #! misspelt-read: returns = discount_matrix(len(batch), gamma) @ batch.rewards
    return extend(batch, BatchWithReturns, returns=returns)
    #! wrong-stage: return RolloutBatch(**batch.to_dict())


@functools.singledispatch
def score(value: object) -> float:
    return 0.0


@score.register
def _(value: Batch) -> float:
    stats = Batch(mean=value["rew"].mean())
    stats.spread = value["rew"].std()
    return float(stats.mean / (stats.spread + 1e-8))
    #! misspelt-read: return float(stats.mean / (stats.sd + 1e-8))


def explained(batch: BatchWithReturnsProtocol) -> float:
    fit = np.polyval(np.polyfit(np.arange(len(batch)), batch.returns, 1), np.arange(len(batch)))
    return 1 - float(np.var(batch.returns - fit) / np.var(batch.returns))


def main() -> None:
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(11, 2))
    flags = {"terminated": np.zeros(10, bool), "truncated": np.zeros(10, bool)}
    rollout = Batch(obs=obs[:-1], obs_next=obs[1:], act=rng.integers(0, 2, 10), rew=3 * rng.normal(size=10), info=Batch(), **flags)
    #! misspelt-keyword: rollout = Batch(obs=obs[:-1], obs_nxt=obs[1:], act=rng.integers(0, 2, 10), rew=3 * rng.normal(size=10), info=Batch(), **flags)
    pipeline = compose(functools.partial(clip_rewards, low=-1, high=1), functools.partial(add_bonus, scale=0.1))
    shaped = pipeline(rollout)
    finished = add_returns(RolloutBatch(**{name: shaped[name] for name in RolloutBatch.__record_fields__}), 0.9)
    print(f"{score(shaped):.4f} {score(1)} {explained(finished):.4f} {int(CALLS.count)} {int(CALLS.rows)}")
    #! misspelt-read: print(f"{score(shaped):.4f} {score(1)} {explained(finished):.4f} {int(CALLS.counts)} {int(CALLS.rows)}")


if __name__ == "__main__":
    main()
