"""What this package's functions and classes read, add and return."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

from typedbatch import Batch, BatchProtocol, BatchRecord, RolloutBatchProtocol, convert, extend, validate
from typedbatch.buffers import ReplayBuffer
from typedbatch.records import RolloutBatch
from typedbatch.rows import chunk, pad_rows, project, restore, union


class Goal(BatchRecord):
    obs: np.ndarray
    goal: np.ndarray
    weight: np.ndarray | None = None


class HasGoal(BatchProtocol, Protocol):
    @property
    def goal(self) -> Any: ...


def make():
    return Batch(obs=np.zeros(3), act=np.zeros(3))


Goal(obs=np.zeros(3))  # E: goal
goal = Goal(obs=np.zeros(3), goal=np.zeros(3))
goal.goal
goal.weight
goal.goals  # E: goals
extend(make(), Goal, goal=np.zeros(3)).goal
extend(make(), Goal)  # E: goal
validate(make(), Goal)  # E: goal
convert(make(), Goal)  # E: goal


def read(batch: HasGoal) -> None: ...


read(make())  # E: goal
read(goal)


def declared(batch: RolloutBatchProtocol) -> None:
    batch.obs
    batch.rwe  # E: rwe


def returned() -> HasGoal:
    return make()  # E: goal


named: HasGoal = make()  # E: goal

buffer = ReplayBuffer(10)
buffer.add(make())  # E: rew
buffer.add(Batch(obs=0, act=0, rew=0.0, terminated=False, truncated=False, obs_next=0))
sample, indices = buffer.sample(4)
sample.rew
sample.reward  # E: reward

rollout = RolloutBatch(  # E: info
    obs=np.zeros(3),
    act=np.zeros(3),
    rew=np.zeros(3),
    terminated=np.zeros(3),
    truncated=np.zeros(3),
    obs_next=np.zeros(3),
)


class WithMethods(Batch):
    def total(self):
        return self.rew.sum()


WithMethods(rew=np.ones(3)).total()


class Doubled(BatchRecord):
    obs: np.ndarray
    both: np.ndarray

    def __init__(self, obs):
        super().__init__(obs=obs, both=[obs, obs])


Doubled(obs=np.ones(3)).both
Doubled(obs=np.ones(3)).rew  # E: rew

Batch.cat([Batch(obs=1, act=1), Batch(obs=1, rew=1), Batch()])  # E: act
Batch.cat([Batch(obs=1), Batch(obs=2)])
Batch.cat([Batch(obs=1, act=1), Batch(obs=1)], missing="pad").act
Batch.stack([Batch(obs=1, act=1), Batch(obs=1)])
Batch.from_rows([Batch(obs=1), Batch(rew=1)])  # E: rew
grown = Batch(obs=1)
grown.cat_(Batch(obs=1))
grown.cat_([Batch(obs=1, act=1)])  # E: act
Batch.cat([Batch(obs=1), Batch(sys.argv), Batch(act=1, **vars(sys))])
several = [Batch(obs=1) if sys.argv else Batch(act=1), Batch(obs=1)]
Batch.cat(several)
empty = Batch()
empty.obs  # E: obs
Batch.cat([empty, Batch(act=1)])

shared, taken = Batch(info=Batch(obs=1)), Batch()
taken.update(shared)
shared.info.act = 1
taken.info.act
copied = Batch(shared)
shared.info.rew = 1
copied.info.rew  # E: rew

for part in chunk(shared, 2):
    part.info
    part.rew  # E: rew
both = union(Batch(obs=np.ones(2)), Batch(values=np.ones(2)))
both.obs, both["values"]
both.act  # E: act
padded, number = pad_rows(both, 3)
padded.obs, number
padded.rew  # E: rew
restore([both], [[0]]).done  # E: done
listed = Batch([{"prompt": [1], "score": 1.0}, {"prompt": [2]}])
listed.prompt, listed.score
listed.prompts  # E: prompts
listed.isnull().token  # E: token
project(both, HasGoal)  # E: goal
