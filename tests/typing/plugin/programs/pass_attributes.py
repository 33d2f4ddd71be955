"""Batches in attributes that get fields in ways that are easily overlooked, and methods that derived classes change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from typedbatch import Batch

A = np.ones((4, 2))
EVERY: list[Batch] = []


def fill(batch: Batch) -> None:
    batch.filled = A


def peek(batch: Batch) -> None:
    print(len(batch))


def give(data: Batch) -> Batch:
    return data


class Store:
    data: Batch

    def __init__(self, given: Batch) -> None:
        self.filled = Batch(obs=A)
        self.aliased = Batch(obs=A)
        self.returned = Batch(obs=A)
        self.shared = self.other = Batch(obs=A)
        self.listed = Batch(obs=A)
        self.keyed = Batch(obs=A)
        self.updated = Batch(obs=A)
        self.swapped, self.first = Batch(obs=A), Batch(act=A)
        self.given = given
        made = Batch(obs=A)
        self.made = made
        made.later = A
        kept = Batch(obs=A)
        self.kept = kept
        EVERY.append(kept)
        self.peeked = Batch(obs=A)
        self.passed = Batch(obs=A)
        self.tried = Batch(obs=A)
        self.set_outside = Batch(obs=A)
        self.replaced: Batch | None = None

    def use(self, key: str, more: dict[str, Any]) -> None:
        fill(self.filled)
        alias = self.aliased
        alias.x = A
        self.give_away().x = A
        self.other.x = A
        EVERY.extend([self.listed])
        EVERY[-1].x = A
        EVERY[0].x = A
        self.keyed[key] = A
        self.updated.update(more)
        self.swapped, self.first = self.first, self.swapped
        peek(self.peeked)
        self.peeked.seen = A
        give(self.passed).x = A
        self.replaced = Batch(obs=A)
        self.replaced.x = A

    def give_away(self) -> Batch:
        return self.returned

    def read(self) -> None:
        print(self.filled.filled, self.aliased.x, self.returned.x, self.shared.x, self.listed.x, self.keyed.x)
        print(self.updated.x, self.swapped.act, self.first.obs, self.given.x, self.made.later, self.kept.x)
        print(self.peeked.seen, self.passed.x, self.set_outside.x)
        if self.replaced is not None:
            print(self.replaced.x)
        if hasattr(self.tried, "x"):
            print(self.tried.x)
        try:
            print(self.tried.y)
        except AttributeError:
            pass


@dataclass
class Stats:
    given: Batch
    own: Batch = field(default_factory=Batch)
    late: Batch = field(init=False)

    def __post_init__(self) -> None:
        self.late = Batch(obs=A)
        self.late.x = A


class Keeper:
    data: Batch


def keep(keeper: Keeper, batch: Batch) -> None:
    keeper.data = batch


class Learner:
    def learn(self, batch: Batch) -> None:
        print(batch.adv)

    def update(self, batch: Batch) -> None:
        batch.adv = A
        print(batch.adv, batch.get("rew"))


class Lazy(Learner):
    def learn(self, batch: Batch) -> None:
        print(batch.obs)


def train(learner: Learner) -> None:
    learner.learn(Batch(obs=A))
    batch = Batch(obs=A)
    learner.update(batch)
    print(batch.adv)


if __name__ == "__main__":
    store = Store(Batch(x=A))
    store.set_outside.x = A
    store.use("x", {"x": A})
    store.read()
    stats = Stats(Batch(x=A), Batch(x=A))
    print(stats.given.x, stats.own.x, stats.late.x)
    keeper, held = Keeper(), Batch(obs=A)
    keep(keeper, held)
    keeper.data.x = A
    print(held.x, keeper.data.obs)
    train(Lazy())
