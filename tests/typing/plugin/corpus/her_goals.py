"""Hindsight goals: episodes of a reacher are relabelled with goals that were reached later."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchRecord, checked


class GoalObs(BatchRecord):
    observation: NDArray[np.float64]
    achieved: NDArray[np.float64]
    desired: NDArray[np.float64]


class GoalEpisode(BatchRecord):
    obs: GoalObs
    act: NDArray[np.float64]
    rew: NDArray[np.float64]


def sparse_reward(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    far = np.linalg.norm(achieved - desired, axis=-1) > 0.5
    return np.where(far, -1.0, 0.0)


def play(rng: np.random.Generator, horizon: int = 12) -> GoalEpisode:
    goal = rng.uniform(-1, 1, size=2)
    pos = np.zeros(2)
    rows = []
    for _ in range(horizon):
        act = rng.uniform(-0.5, 0.5, size=2)
        obs = Batch(observation=np.concatenate([pos, goal - pos]), achieved=pos.copy(), desired=goal)
        pos = pos + act
        rows.append(Batch(obs=obs, act=act, rew=sparse_reward(pos, goal)))
    steps = Batch.stack(rows)
    return GoalEpisode(
        obs=GoalObs(
            observation=steps["obs"]["observation"],
            achieved=steps["obs"]["achieved"],
            #! misspelt-nested: achieved=steps["obs"]["achieved_goal"],
            desired=steps["obs"]["desired"],
        ),
        act=steps["act"],
        rew=steps["rew"],
    )


def relabel(episode: GoalEpisode, rng: np.random.Generator) -> GoalEpisode:
    n = len(episode)
    future = np.array([rng.integers(t, n) for t in range(n)])
    desired = episode.obs.achieved[future]
    #! misspelt-nested: desired = episode.obs.acheived[future]
    rew = sparse_reward(episode.obs.achieved, desired)
    #! later-stage: rew = sparse_reward(episode.achieved, desired)
    observation = episode.obs.observation.copy()
    observation[:, 2:] = desired - episode.obs.achieved
    return GoalEpisode(obs=GoalObs(observation=observation, achieved=episode.obs.achieved, desired=desired), act=episode.act, rew=rew)
    #! missing-field: return GoalEpisode(obs=GoalObs(observation=observation, achieved=episode.obs.achieved), act=episode.act, rew=rew)


class EpisodeBuffer:
    def __init__(self, maxlen: int) -> None:
        self.episodes: deque[GoalEpisode] = deque(maxlen=maxlen)

    def push(self, episode: GoalEpisode) -> None:
        self.episodes.append(episode)

    def minibatches(self, size: int) -> Iterator[GoalEpisode]:
        everything = Batch.cat(list(self.episodes))
        yield from everything.split(size)

    def success_rate(self) -> float:
        return float(np.mean([episode.rew[-1] == 0 for episode in self.episodes]))
        #! old-name: return float(np.mean([episode.reward[-1] == 0 for episode in self.episodes]))


@checked
def fit_values(batch: GoalEpisode, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    features = np.concatenate([batch.obs.observation, batch.act], axis=1)
    #! misspelt-nested: features = np.concatenate([batch.obs.observations, batch.act], axis=1)
    error = features @ weights - batch.rew
    updated: NDArray[np.float64] = weights - 0.05 * features.T @ error / len(batch)
    return updated


def main() -> None:
    np.random.seed(0)
    rng = np.random.default_rng(0)
    buffer = EpisodeBuffer(maxlen=8)
    for _ in range(6):
        episode = play(rng)
        buffer.push(episode)
        buffer.push(relabel(episode, rng))
    weights = np.zeros(6)
    for minibatch in buffer.minibatches(16):
        weights = fit_values(minibatch, weights)
        #! wrong-argument: weights = fit_values(minibatch.obs, weights)
    print(buffer.success_rate(), np.round(weights, 4).tolist())


if __name__ == "__main__":
    main()
