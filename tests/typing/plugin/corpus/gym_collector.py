"""Collect from gymnasium's CartPole in a vector of environments, and learn a linear policy by the cross-entropy method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from typedbatch import ActBatch, ActBatchProtocol, Batch, ObsBatch, ObsBatchProtocol, RolloutBatch, RolloutBatchProtocol
from typedbatch.episodes import split_by_episode

Policy = Callable[[ObsBatchProtocol], ActBatchProtocol]


class Collector:
    def __init__(self, n_envs: int, seed: int) -> None:
        self.envs: list[gymnasium.Env[Any, Any]] = [gymnasium.make("CartPole-v1", max_episode_steps=30) for _ in range(n_envs)]
        self.seed = seed
        self.stats = Batch(steps=0, episodes=0)

    def collect(self, policy: Policy) -> list[RolloutBatch]:
        """One episode of each environment."""
        episodes = []
        for index, env in enumerate(self.envs):
            obs, info = env.reset(seed=self.seed + index)
            rows = []
            over = False
            while not over:
                seen = ObsBatch(obs=obs[None], info=Batch())
                #! forgotten-field: seen = ObsBatch(obs=obs[None])
                act = int(policy(seen).act[0])
                #! misspelt-read: act = int(policy(seen).action[0])
                obs_next, rew, terminated, truncated, info = env.step(act)
                row = Batch(obs=obs, obs_next=obs_next, act=act, rew=float(rew), terminated=terminated, truncated=truncated)
                row.over = terminated or truncated
                rows.append(row)
                obs, over = obs_next, bool(row.over)
            steps = Batch.stack(rows)
            self.stats.steps += len(steps)
            self.stats.episodes += 1
            episodes.append(RolloutBatch(obs=steps["obs"], obs_next=steps["obs_next"], act=steps["act"], rew=steps["rew"], terminated=steps["terminated"], truncated=steps["truncated"], info=Batch()))
        return episodes

    def mean_length(self) -> float:
        return float(self.stats.steps / self.stats.episodes)
        #! misspelt-read: return float(self.stats.steps / self.stats.n_episodes)

    def close(self) -> None:
        for env in self.envs:
            env.close()


def linear_policy(weights: np.ndarray) -> Policy:
    def policy(batch: ObsBatchProtocol) -> ActBatch:
        return ActBatch(act=(batch.obs @ weights > 0).astype(int))
        #! misspelt-keyword: return ActBatch(action=(batch.obs @ weights > 0).astype(int))

    return policy


def total_reward(batch: RolloutBatchProtocol) -> float:
    return float(batch.rew.sum())


def cross_entropy(collector: Collector, iterations: int, rng: np.random.Generator) -> Batch:
    search = Batch(mean=np.zeros(4), std=np.ones(4))
    #! missing-field: search = Batch(mean=np.zeros(4))
    for _ in range(iterations):
        candidates = Batch(weights=search.mean + search.std * rng.normal(size=(8, 4)))
        candidates.score = [np.mean([total_reward(e) for e in collector.collect(linear_policy(w))]) for w in candidates.weights]
        elite = candidates[np.argsort(candidates.score)[-3:]]
        search.mean, search.std = elite.weights.mean(0), elite.weights.std(0) + 0.1
        #! misspelt-read: search.mean, search.std = elite.weight.mean(0), elite.weights.std(0) + 0.1
        search.best = elite.score.max()
    return search


def main() -> None:
    rng = np.random.default_rng(0)
    collector = Collector(2, seed=5)
    search = cross_entropy(collector, 3, rng)
    final = Batch.cat(collector.collect(linear_policy(search["mean"])))
    lengths = [len(episode) for episode in split_by_episode(final)]
    print(f"{float(search['best']):.2f} {lengths} {total_reward(final)} {collector.mean_length() > 1}")
    #! batch-for-array: print(f"{float(search['best']):.2f} {lengths} {total_reward(final.rew)} {collector.mean_length() > 1}")
    collector.close()


if __name__ == "__main__":
    main()
