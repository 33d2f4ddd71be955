"""Generic helpers over batch types: TypeVars, ParamSpec, isinstance, match, numpy."""
from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from typedbatch import Batch, BatchProtocol, RolloutBatch

B = TypeVar("B", bound=BatchProtocol)
P = ParamSpec("P")


def shuffled(batch: B, rng: np.random.Generator) -> B:
    return batch[rng.permutation(len(batch))]  # E: typevar-row [only: pyrefly]


def halves(batch: B) -> tuple[B, B]:
    middle = len(batch) // 2
    return batch[:middle], batch[middle:]  # E: typevar-row [only: pyrefly]


def rows(batches: Sequence[BatchProtocol]) -> int:
    return sum(len(batch) for batch in batches)


def timed(log: Batch) -> Callable[[Callable[P, B]], Callable[P, B]]:
    def decorate(function: Callable[P, B]) -> Callable[P, B]:
        @wraps(function)
        def inner(*args: P.args, **kwargs: P.kwargs) -> B:
            log.calls = log.get("calls", 0) + 1
            return function(*args, **kwargs)

        return inner

    return decorate


LOG = Batch()


@timed(LOG)
def with_noise(batch: Batch, scale: float) -> Batch:
    out = copy.deepcopy(batch)
    out.obs = out.obs + scale
    out.info.noise = np.full(len(out), scale)
    return out


def describe(value: object) -> str:
    match value:
        case Batch() if len(value.keys()) == 0:
            return "empty"
        case Batch():
            return ",".join(f"{key}={describe(item)}" for key, item in value.items())
        case np.ndarray():
            return f"{value.dtype}{list(value.shape)}"
        case _:
            return type(value).__name__


def merge(base: Batch, *others: Mapping[str, Any] | Batch) -> Batch:
    out = Batch(base)
    for other in others:
        if isinstance(other, Batch):
            out.update(other)
            out.merged = other.get("name", "?")
        else:
            out.update(Batch(other))
    return out


def best(batches: Iterable[Batch]) -> Batch | None:
    found: Batch | None = None
    for batch in batches:
        if found is None or batch.rew.mean() > found.rew.mean():
            found = batch
    return found


def rollout(n: int) -> RolloutBatch:
    obs, flags = np.arange(n * 2.0).reshape(n, 2), np.zeros(n, bool)
    return RolloutBatch(obs=obs, obs_next=obs + 1, act=flags * 1, rew=obs[:, 0], terminated=flags, truncated=flags.copy(), info=Batch())


def main() -> None:
    rng = np.random.default_rng(0)
    data = Batch(obs=np.arange(8.0), rew=rng.normal(size=8), info={"id": np.arange(8)})
    one, two = halves(shuffled(data, rng))
    one.name, two.name = np.array(["one"] * 4), np.array(["two"] * 4)
    print(rows([one, two, rollout(3)]), describe(one))
    first, _ = halves(rollout(6))
    print(first.rew, shuffled(first, rng).obs.shape)
    noisy = list(map(partial(with_noise, scale=0.5), [one, two]))
    print(LOG.calls, noisy[0].info.noise, (winner := best(noisy)) is not None and winner.rew.mean() > -9)
    merged = merge(data, {"weight": np.ones(8)}, Batch(done=np.zeros(8, bool), name="late"))
    print(sorted(merged.keys()), merged.merged, merged.weight.sum())
    again = pickle.loads(pickle.dumps(merged))
    assert isinstance(again, Batch) and again == merged
    again.obs[0] = -1
    print(merged.obs[0], again.obs[0], getattr(again, "obs").sum(), hasattr(again, "nothing"))
    setattr(again, "extra", np.ones(8))
    print(again.extra.sum(), describe(Batch()))


if __name__ == "__main__":
    main()
