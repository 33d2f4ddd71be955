"""Hindsight relabelling by hand, with nested observations."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, BatchRecord, RolloutBatch, validate

Array = NDArray[Any]


class GoalObs(BatchRecord):
    observation: NDArray[np.float64]
    achieved_goal: NDArray[np.float64]
    desired_goal: NDArray[np.float64]


class ReadsGoals(BatchProtocol, Protocol):
    @property
    def obs(self) -> GoalObs: ...
    @property
    def rew(self) -> Array: ...


GoalRollout = RolloutBatch[Array, GoalObs]


def reward(achieved: Array, desired: Array) -> Array:
    return np.asarray(-np.linalg.norm(achieved - desired, axis=-1))


def relabel(batch: Batch, future: int) -> Batch:
    new = Batch(batch, copy=True)
    n = len(new)
    later = np.minimum(np.arange(n) + future, n - 1)
    new.obs.desired_goal = new.obs.achieved_goal[later]
    new.obs_next.desired_goal = new.obs.desired_goal
    new.rew = reward(new.obs_next.achieved_goal, new.obs.desired_goal)
    new.info.relabelled = np.ones(n, bool)
    return new


def success_rate(batch: ReadsGoals) -> float:
    distance = np.linalg.norm(batch.obs.achieved_goal - batch.obs.desired_goal, axis=-1)
    return float((distance < 0.5).mean())


def goals_misspelt(batch: ReadsGoals) -> Array:
    return batch.obs.goal  # E: user-misspelt


def fresh_obs(rng: np.random.Generator, n: int) -> GoalObs:
    return GoalObs(
        observation=rng.normal(size=(n, 3)),
        achieved_goal=rng.normal(size=(n, 2)),
        desired_goal=rng.normal(size=(n, 2)),
    )


def partial_obs(rng: np.random.Generator, n: int) -> GoalObs:
    return GoalObs(observation=rng.normal(size=(n, 3)), achieved_goal=rng.normal(size=(n, 2)))  # E: user-missing


def episodes(rng: np.random.Generator, count: int) -> Iterator[Batch]:
    for number in range(count):
        n = 6
        batch = Batch(obs=fresh_obs(rng, n), obs_next=fresh_obs(rng, n), act=rng.normal(size=(n, 2)))
        batch.rew = reward(batch.obs.achieved_goal, batch.obs.desired_goal)
        batch.terminated = np.zeros(n, bool)
        batch.truncated = np.arange(n) == n - 1
        batch.info = Batch(env_id=np.full(n, number))
        yield batch


def unvalidated(rng: np.random.Generator) -> float:
    total = 0.0
    for batch in episodes(rng, 2):
        total += success_rate(batch)  # E: user-unchecked
    return total


def main() -> None:
    rng = np.random.default_rng(0)
    kept: list[Batch] = []
    for batch in episodes(rng, 3):
        batch.info.relabelled = np.zeros(len(batch), bool)
        kept.append(batch)
        kept.append(relabel(batch, 2))
    data = Batch.cat(kept)
    typed = validate(data, GoalRollout)
    print(success_rate(typed), success_rate(typed[:5]), typed.obs.desired_goal.shape)
    by_env = {int(env): data[data.info.env_id == env] for env in np.unique(data.info.env_id)}
    print({env: part.info.relabelled.mean() for env, part in by_env.items()})
    print(unvalidated(rng))


if __name__ == "__main__":
    main()
