"""Multi-agent rollouts: a dict of batches, one policy per agent."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import ActBatch, Batch, ObsBatch, ObsBatchProtocol, RolloutBatchProtocol, validate

Array = NDArray[Any]


class RandomAgent:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, batch: ObsBatchProtocol) -> ActBatch:
        return ActBatch(act=self.rng.integers(3, size=len(batch)))

    def learn(self, batch: RolloutBatchProtocol) -> Batch:
        result = Batch(loss=float(batch.rew.var()))
        result.n = len(batch)
        return result


class Manager:
    def __init__(self, agents: Mapping[str, RandomAgent]) -> None:
        self.agents = dict(agents)
        self.memory: dict[str, list[Batch]] = {name: [] for name in agents}

    def act(self, obs: Batch) -> Batch:
        out = Batch()
        for name, agent in self.agents.items():
            part = ObsBatch(obs=obs[name].vector, info=Batch())
            out[name] = agent(part)
        return out

    def act_unchecked(self, obs: Batch) -> list[ActBatch]:
        return [agent(obs[name]) for name, agent in self.agents.items()]

    def step(self, obs: Batch, obs_next: Batch, rew: dict[str, Array]) -> None:
        acts = self.act(obs)
        for name in self.agents:
            n = len(obs[name])
            row = Batch(obs=obs[name].vector, obs_next=obs_next[name].vector)
            row.act = acts[name].act
            row.rew = rew[name]
            row.terminated = np.zeros(n, bool)
            row.truncated = np.zeros(n, bool)
            row.info = Batch(env_id=np.arange(n))
            self.memory[name].append(row)

    def learn(self) -> Batch:
        results = Batch()
        for name, agent in self.agents.items():
            whole = Batch.cat(self.memory[name])
            whole.rew -= whole.rew.mean()
            results[name] = agent.learn(validate(whole, RolloutBatchProtocol))
            self.memory[name].clear()
        return results

    def learn_carelessly(self) -> None:
        for name, agent in self.agents.items():
            agent.learn(Batch.cat(self.memory[name]))  # E: user-unchecked

    def first_actions(self, batch: ObsBatch) -> list[Array]:
        return [agent(batch).acts for agent in self.agents.values()]  # E: user-misspelt


def observe(rng: np.random.Generator, envs: int) -> Batch:
    return Batch(
        red={"vector": rng.normal(size=(envs, 3)), "mask": np.ones((envs, 3), bool)},
        blue={"vector": rng.normal(size=(envs, 5)), "mask": np.ones((envs, 3), bool)},
    )


def main() -> None:
    rng = np.random.default_rng(3)
    manager = Manager({"red": RandomAgent(0), "blue": RandomAgent(1)})
    obs = observe(rng, 4)
    obs.red.mask[:, 0] = False
    for _ in range(10):
        obs_next = observe(rng, 4)
        manager.step(obs, obs_next, {"red": rng.random(4), "blue": rng.random(4)})
        obs = obs_next
    results = manager.learn()
    print(results.red.loss, results.blue.n)
    print(len(manager.act_unchecked(Batch(red=ObsBatch(obs=np.zeros((1, 3)), info=Batch()), blue=ObsBatch(obs=np.zeros((1, 5)), info=Batch())))))


if __name__ == "__main__":
    main()
