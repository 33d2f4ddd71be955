"""Contracts of one's own: a record or a protocol is one declaration, nested and generic ones included."""

from typing import Any, Generic, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar, assert_type

from typedbatch import (
    ActBatchProtocol,
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithReturns,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    conforms,
    convert,
    extend,
    validate,
)

Array = NDArray[Any]
K_co = TypeVar("K_co", covariant=True, default=Array)


# a record: contract, constructor and completion in one
class GoalRollout(RolloutBatch):
    goal: Array
    """Where the agent should go, ``(N, 2)``."""
    mask: Array | None = None
    """Which actions are allowed."""


class GoalReturns(GoalRollout, BatchWithReturns):
    pass


# a protocol: for functions that take anything with these members
class HasGoal(BatchProtocol, Protocol):
    @property
    def goal(self) -> Array: ...


class GoalRolloutProtocol(RolloutBatchProtocol, Protocol):
    goal: Array


# a nested observation, for either stage
class PixelObs(BatchRecord, Generic[K_co]):
    cam: K_co
    pos: K_co


class PixelObsProtocol(BatchProtocol, Protocol[K_co]):
    @property
    def cam(self) -> K_co: ...
    @property
    def pos(self) -> K_co: ...


# one's own step, for either stage
K = TypeVar("K", bound=Array | Tensor, default=Array)


class WithCosts(RolloutBatch[K, K, K], Generic[K]):
    cost: K


# a record from scratch
class Preference(BatchRecord):
    chosen: Array
    rejected: Array
    margin: Array | float = 0.0
    source: str = "human"


def distance(batch: HasGoal) -> float:
    return float(np.linalg.norm(batch.goal))


def relabel(batch: GoalRollout, goal: Array) -> GoalRollout:
    assert_type(batch.mask, Array | None)
    if batch.mask is not None:
        assert_type(batch.mask.sum(), Any)
    result = batch.copy()
    result.goal = goal
    result.rew = -np.abs(batch.goal - goal)
    result.mask = None
    assert_type(result[:2], GoalRollout)
    result["note"] = "relabelled"
    return result


def with_returns(batch: GoalRollout) -> GoalReturns:
    return extend(batch, GoalReturns, returns=batch.rew)


def brightness(batch: RolloutBatchProtocol[Array, PixelObsProtocol]) -> Array:
    assert_type(batch.obs, PixelObsProtocol)
    assert_type(batch[0].obs_next.pos, Array)
    return batch.obs.cam


def brightness_torch(batch: RolloutBatchProtocol[Tensor, PixelObsProtocol[Tensor]]) -> Tensor:
    assert_type(batch.rew, Tensor)
    return batch.obs.cam.mean()


def positions(batch: RolloutBatch[Array, PixelObs]) -> Array:
    for row in batch.split(1):
        assert_type(row.obs, PixelObs)
        assert_type(row.obs.pos, Array)
    batch.obs = PixelObs(cam=batch.obs.cam, pos=batch.obs.pos)
    batch.obs.cam = batch.obs.cam + 1
    return batch.obs.pos


def nested_in_own(batch: ObsBatchProtocol[Array, PixelObs]) -> PixelObs:
    return batch.obs


# a function that adds nothing keeps whatever the user's record adds
G = TypeVar("G", bound=HasGoal)


def first_half(batch: G) -> list[G]:
    return [part for part in batch.split(max(1, len(batch) // 2))]


def main(n: int) -> None:
    x: Array = np.ones((n, 2))
    f: Array = np.ones(n)
    done: Array = np.zeros(n, bool)
    g = GoalRollout(obs=x, info=Batch(), obs_next=x, act=f, rew=f, terminated=done, truncated=done, goal=f)
    GoalRollout(obs=x, info=Batch(), obs_next=x, act=f, rew=f, terminated=done, truncated=done, goal=f, mask=done)
    assert_type(g, GoalRollout)
    assert_type(g.goal, Array)
    assert_type(relabel(g, f), GoalRollout)
    assert_type(with_returns(g).returns, Array)
    assert_type(with_returns(g).goal, Array)
    assert distance(g) == distance(with_returns(g))
    assert_type(first_half(g), list[GoalRollout])
    rollout: RolloutBatch = g
    protocol: RolloutBatchProtocol = g
    acts: ActBatchProtocol = g
    goals: GoalRolloutProtocol = g
    assert len(rollout) == len(protocol) == len(acts) == len(goals)
    assert_type(validate(Batch(g), GoalRollout), GoalRollout)
    assert_type(validate(g, GoalRolloutProtocol).goal, Array)
    assert conforms(g, HasGoal)

    now = PixelObs(cam=x, pos=x)
    assert_type(now, PixelObs)
    seen: RolloutBatch[Array, PixelObs] = RolloutBatch(
        obs=now, info=Batch(), obs_next=now.copy(), act=f, rew=f, terminated=done, truncated=done
    )
    brightness(seen)
    positions(seen)
    nested_in_own(seen)
    tensors = convert(seen, RolloutBatch[Tensor, PixelObs[Tensor]])
    assert_type(tensors.obs.cam, Tensor)
    brightness_torch(tensors)
    t = torch.ones(n, 2)
    assert_type(PixelObs(cam=t, pos=t), PixelObs[Tensor])

    costly = extend(tensors[:0], WithCosts[Tensor], obs=t[:0], obs_next=t[:0], cost=t[:0])
    assert_type(costly, WithCosts[Tensor])
    assert_type(costly.cost, Tensor)
    assert_type(costly.rew, Tensor)
    plain: WithCosts = WithCosts(obs=x, info=Batch(), obs_next=x, act=f, rew=f, terminated=done, truncated=done, cost=f)
    assert_type(plain.cost, Array)

    pair = Preference(chosen=f, rejected=f)
    assert_type(pair.margin, Array | float)
    pair.source = "model"
    assert_type(Preference(rejected=f, chosen=f, margin=0.5).source, str)


main(4)
