"""Right programs of which the plugin once reported a line, but for what random packages have too."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from typedbatch import Batch, BatchProtocol, DynamicBatch, RolloutBatch

Array = NDArray[np.float64]
A: Array = np.ones((2, 3))


class HasX(BatchProtocol, Protocol):
    @property
    def x(self) -> Array: ...


def fill(b: Batch) -> None:
    b["obs"] = A


def use(b: HasX) -> None:
    assert b.x is not None


def tried_by_name() -> None:
    b = Batch(y=A)
    try:
        m = b.x
    except AttributeError:
        m = b.x = A
    print(b.x, m)


def made_from_filled() -> None:
    a = Batch(y=A)
    fill(a)
    print(Batch(a)["obs"], Batch(a, z=A)["obs"], Batch(dict(a))["obs"], Batch(inner=a)["inner"]["obs"])
    k = Batch(y=A)
    k.update(a)
    print(k["obs"])


class Base:
    def __init__(self) -> None:
        self.info = Batch(n=1)

    def copied(self) -> Batch:
        return Batch(self.info)


class Sub(Base):
    def set(self) -> None:
        self.info.loss = A


def by_any_key(keys: Any) -> None:
    b = Batch(y=A)
    for k in keys:
        b[k] = A
    print(b["x"])


def takes_dynamic(b: DynamicBatch) -> None:
    print(b.x)


def of_any() -> None:
    dyn: Any = Batch(x=A)
    takes_dynamic(dyn)


def made_from_record(rollout: RolloutBatch) -> None:
    print(Batch(rollout).rew)
    b = Batch(rollout)
    b.x = A
    use(b)


def made_from_protocol(b: HasX) -> None:
    print(Batch(b).x, Batch(b, y=1).x)


def in_containers(q: Batch) -> None:
    q.x = A
    use(q)
    several: list[HasX] = [q]
    pair: tuple[HasX, int] = (q, 1)
    named: dict[str, HasX] = {"a": q}
    print(len(several), len(pair), len(named))


class Case(unittest.TestCase):
    def check(self) -> None:
        b = Batch(y=A)
        with self.assertRaises(AttributeError):
            b.c


@dataclass
class Holder:
    stats: Batch = field(init=False)

    def __post_init__(self) -> None:
        self.stats = Batch(n=1)
        self.stats.loss = A


class Worker:
    settings: ClassVar[Batch] = Batch(gamma=0.9)

    @property
    def made(self) -> Batch:
        b = Batch(y=A)
        b.x = A
        return b

    @cached_property
    def kept(self) -> Batch:
        return self.made


RUN = Batch()


def start() -> None:
    global RUN
    RUN = Batch(name="first")


def either(maybe: Batch | None) -> None:
    print((maybe or Batch())["obs"] if maybe is not None else None)


def of_unknown_names(names: Sequence[str]) -> None:
    b = Batch(**{name: {"nested": A} for name in names})
    print(b["obs"]["nested"])


if __name__ == "__main__":
    tried_by_name()
    made_from_filled()
    sub = Sub()
    sub.set()
    print(sub.info.loss, sub.copied()["loss"])
    by_any_key(["x"])
    of_any()
    flags = np.zeros(2, bool)
    record = RolloutBatch(obs=A, act=A, rew=A[:, 0], terminated=flags, truncated=flags, obs_next=A, info=Batch())
    made_from_record(record)
    in_containers(Batch())
    Case().check()
    print(Holder().stats.loss, Worker.settings.gamma, Worker().made.x, Worker().kept.x)
    start()
    print(RUN.name)
    either(Batch(obs=A))
    of_unknown_names(["obs"])


def a_nested_batch_of_one_branch(b: Batch, flag: bool) -> None:
    if flag:
        b.obs = Batch(image=A)
    print(b.obs.x)
    c = Batch(b)
    if flag:
        c.update(obs=Batch(image=A))
    print(c.obs.x, c.setdefault("obs", Batch()).x, c.pop("obs").x)
