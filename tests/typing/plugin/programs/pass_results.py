"""Functions that are declared to return a ``Batch`` and write out which, and those of which that is not to be seen."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import ActBatchProtocol, Batch

Array = NDArray[Any]
SEEN: list[Batch] = []


def choose(obs: Array) -> Batch:
    logits = obs @ np.ones((4, 2))
    return Batch(act=logits.argmax(-1), logits=logits)


def summed(batch: Batch, detailed: bool) -> Batch:
    out = Batch(rew=batch["rew"].sum())
    out.length = len(batch)
    if detailed:
        out.best = batch["rew"].max()
    out["mean"] = out.rew / out.length
    return out


def kept(obs: Array) -> Batch:
    out = Batch(obs=obs)
    SEEN.append(out)
    return out


def copied(batch: Batch) -> Batch:
    return Batch(batch, weight=1.0)


def either(flag: bool) -> Batch:
    if flag:
        return Batch(left=1.0)
    return Batch({"right": 2.0})


@lru_cache
def settings() -> Batch:
    return Batch(lr=1e-3)


def parts() -> Iterator[Batch]:
    def inner() -> Batch:
        return Batch(a=1)

    yield inner()


def takes(batch: ActBatchProtocol) -> None: ...


class Policy:
    def act(self, obs: Array) -> Batch:
        return Batch(act=obs.argmax(-1), value=obs.mean(-1))

    @staticmethod
    def start() -> Batch:
        return Batch(hidden=np.zeros(3))


class Recurrent(Policy):
    def act(self, obs: Array) -> Batch:
        out = super().act(obs)
        out.state = self.start().hidden
        return out


def use(policy: Policy, obs: Array) -> None:
    chosen = choose(obs)
    print(chosen.act, chosen.logits)
    takes(chosen)
    chosen.adv = np.zeros(3)
    print(chosen.adv)
    total = summed(Batch(rew=np.ones(3)), detailed=True)
    print(total.rew, total.length, total.best, total.mean)
    held = kept(obs)
    SEEN[-1].added = 1
    print(held.obs, held.added)
    print(copied(chosen).weight, copied(chosen).act)
    print(either(True).left)
    out = policy.act(obs)
    print(out.act, out.value, out.state, policy.start().hidden)
    takes(out)
    for part in parts():
        part.b = 2
        print(part.b)
