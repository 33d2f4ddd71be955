"""Batches in attributes of the classes of a program, and what methods read of the batches that they are given."""

import numpy as np

from typedbatch import Batch

A = np.ones((4, 2))


class Base:
    def __init__(self) -> None:
        self.data = Batch(obs=A, act=A)
        self.log = Batch()
        self.info = Batch(seed=A)
        self.pos = 0


class Learner(Base):
    def learn(self) -> None:
        self.data.adv = self.data.obs * self.data.act
        self.log.loss = self.data.adv.mean()
        self.log.total += 1  # E: never-written: total
        self.data["rew"] = self.data["rews"]  # E: never-written-item: rews
        self.data[self.pos] = Batch(obs=A[0], act=A[0], adv=A[0], rew=A[0])
        self.info.update(episode=A, step=A)
        self.info.setdefault("length", A)
        print(self.info.seed, self.info.episode, self.info.length, self.info.lengths)  # E: misspelt: lengths
        for row in self.data:
            print(row.obs)
        print(float(self.data[2:].obs.mean()), self.data.copy().adv, "rew" in self.data)

    def look(self, batch: Batch, scale: float = 1.0) -> float:
        return scale * float((batch.obs * batch.weight).sum())  # E: method-reads: weight

    def look_twice(self, *, batch: Batch) -> float:
        return self.look(batch) + float(batch.rew.sum())

    def look_sometimes(self, batch: Batch) -> float:
        return float(batch.adv.sum()) if self.pos else 0.0


class _Kept:
    def __init__(self) -> None:
        self.seen = Batch(obs=A)
        self.handed = Batch(obs=A)

    def hand_on(self) -> Batch:
        return self.handed


class Careful(Learner):
    def look_sometimes(self, batch: Batch) -> float:
        return 0.0


def report(learner: Learner, kept: _Kept) -> None:
    print(learner.log.loss, learner.log.losses)  # E: misspelt: losses
    print(kept.seen.act)
    print(kept.handed.anything)  # E: nothing-makes: anything


def call(learner: Learner) -> None:
    learner.look(Batch(obs=A))
    learner.look(Batch(obs=A, weight=A))
    learner.look(scale=2.0, batch=Batch(obs=A))
    learner.look_twice(batch=Batch(obs=A, rew=A))
    learner.look_sometimes(Batch(obs=A))

    def inner(batch: Batch) -> None:
        print(batch.rews)  # E: inner-function-reads: rews

    inner(Batch(rew=A))


if __name__ == "__main__":
    one = Learner()
    one.learn()
    print(one.log.steps)  # E: never-written: steps
