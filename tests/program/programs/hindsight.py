"""Hindsight relabelling for reaching tasks, generic over whatever a batch of goals is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, BatchRecord, ObsBatchProtocol, RolloutBatch, cat, checked, conforms, extend, stack, validate
from typedbatch.buffers import ReplayBuffer

Arr = NDArray[Any]


class GoalObs(BatchRecord):
    pos: Arr
    achieved: Arr
    desired: Arr


class GoalStep(RolloutBatch[Arr, GoalObs]):
    episode: Arr


class Relabelled(GoalStep):
    success: Arr


class HasGoal(BatchProtocol, Protocol):
    @property
    def obs(self) -> GoalObs: ...
    @property
    def rew(self) -> Arr: ...


P = TypeVar("P", bound=ObsBatchProtocol[Any, Any])
G = TypeVar("G", bound=HasGoal)
Strategy = Literal["final", "future", "random"]


def first_rows(batch: G, n: int) -> G:
    out = batch[:n]
    assert out.rew.shape[0] <= n
    return out


def reward(achieved: Arr, goal: Arr) -> Arr:
    return np.where(np.linalg.norm(achieved - goal, axis=-1) > 0.3, -1.0, 0.0)


def episode(rng: np.random.Generator, number: int, length: int = 10) -> GoalStep:
    pos, goal = np.zeros(2), rng.uniform(-1, 1, 2)
    steps: list[GoalStep] = []
    for t in range(length):
        act = np.clip(goal - pos + rng.normal(0, 0.5, 2), -0.3, 0.3)
        nxt = pos + act
        seen = GoalObs(pos=pos, achieved=pos, desired=goal)
        then = GoalObs(pos=nxt, achieved=nxt, desired=goal)
        step = Batch(obs=seen, obs_next=then, act=act, rew=reward(nxt, goal))
        step.terminated = step.rew == 0
        step.truncated = np.array(t == length - 1)
        step.update(info=Batch(), episode=float(number))
        ends = {"terminated": step.terminated, "truncated": step.truncated}
        record = GoalStep(obs=seen, obs_next=then, act=act, rew=step.rew, info=Batch(), episode=step.episode, **ends)
        steps.append(record)
        pos = nxt
        if bool(step.terminated):
            break
    return stack(steps)


def relabel(ep: GoalStep, how: Strategy, rng: np.random.Generator) -> Relabelled:
    n = len(ep)
    match how:
        case "final":
            pick = np.full(n, n - 1)
        case "future":
            pick = np.array([rng.integers(t, n) for t in range(n)])
        case "random":
            pick = rng.integers(0, n, n)
    goals = ep.obs_next.achieved[pick]
    rew = reward(ep.obs_next.achieved, goals)
    moved = Batch(ep, copy=True)
    moved.obs.desired = goals
    moved.obs_next.desired = goals
    moved.rew = rew
    moved.success = (rew == 0).astype(float)
    moved.hardness = np.linalg.norm(moved.obs.desired - moved.obs.pos, axis=-1)
    keep = moved[moved.hardness < 5]
    keep.pop("hardness")
    return validate(keep, Relabelled)


@checked
def success_rate(batch: Relabelled) -> float:
    return float(batch.success.mean())


def apply(batches: list[P], fn: Callable[[P], P]) -> Iterator[P]:
    for b in batches:
        yield fn(b)


def summarise(batches: list[Relabelled]) -> Batch:
    out = Batch(rate=float(np.mean([success_rate(b) for b in batches])))
    joined = cat(batches)
    out.rows = len(joined)
    if conforms(joined, Relabelled):
        out.near = float((joined.success * joined.obs.pos[:, 0]).sum())
    return out


def main() -> None:
    rng = np.random.default_rng(4)
    episodes = [episode(rng, k) for k in range(6)]
    buffer = ReplayBuffer[GoalStep](200)
    for ep in apply(episodes, lambda e: first_rows(e, 8)):
        for row in ep:
            buffer.add(row)
    strategies: tuple[Strategy, ...] = ("final", "future", "random")
    table: list[Batch] = []
    for how in strategies:
        done = [relabel(e, how, rng) for e in episodes]
        line = summarise(done)
        line.strategy = how
        table.append(line)
        print(line.strategy, int(line.rows), f"{line.rate:.2f}")
    plain = extend(episodes[0], Relabelled, success=np.zeros(len(episodes[0])))
    print("before", success_rate(plain))
    batch, slots = buffer.sample(16)
    print(batch.obs.desired.shape, slots.shape, np.unique(batch.episode))


if __name__ == "__main__":
    main()
