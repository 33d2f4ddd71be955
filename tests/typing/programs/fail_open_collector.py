"""A vector environment and a collector written by hand, with callbacks (numpy)."""
from __future__ import annotations

from typing import Protocol

import numpy as np

from typedbatch import ActBatch, Batch, ObsBatchProtocol, RolloutBatch, validate


class Policy(Protocol):
    def __call__(self, batch: ObsBatchProtocol, /) -> ActBatch: ...


class Hook(Protocol):
    def __call__(self, batch: Batch, /) -> None: ...


class Envs:
    def __init__(self, n: int) -> None:
        self.rng = np.random.default_rng(0)
        self.n = n
        self.state = Batch(x=self.rng.normal(size=(n, 2)), t=np.zeros(n, int))

    def reset(self, ids: list[int]) -> Batch:
        self.state.x[ids] = self.rng.normal(size=(len(ids), 2))
        self.state.t[ids] = 0
        return Batch(obs=self.state.x[ids].copy(), info=Batch(env_id=np.array(ids)))

    def step(self, act: ActBatch) -> Batch:
        self.state.x += 0.1 * (2 * act.act[:, None] - 1)
        self.state.t += 1
        out = Batch(obs=self.state.x.copy())
        out.rew = -np.abs(out.obs).sum(1)
        out.terminated = out.rew < -4
        out.truncated = (self.state.t >= 8) & ~out.terminated
        out.info = Batch(env_id=np.arange(self.n), t=self.state.t.copy())
        return out


class Collector:
    def __init__(self, envs: Envs, policy: Policy, hooks: list[Hook] | None = None) -> None:
        self.envs, self.policy, self.hooks = envs, policy, hooks or []
        self.data = envs.reset(list(range(envs.n)))
        self.data.ep_return = np.zeros(envs.n)
        self.stats = Batch(episodes=0, returns=[])
        self.returns: list[float] = []

    def observation(self) -> ObsBatchProtocol:
        return validate(self.data, ObsBatchProtocol)

    def observation_directly(self) -> ObsBatchProtocol:
        return self.data  # E: user-unchecked

    def collect(self, steps: int) -> RolloutBatch:
        parts: list[Batch] = []
        while sum(map(len, parts)) < steps:
            act = self.policy(self.observation())
            out = self.envs.step(act)
            row = Batch(obs=self.data.obs, act=act.act, obs_next=out.obs, rew=out.rew, info=out.info)
            row.update(terminated=out.terminated, truncated=out.truncated)
            for hook in self.hooks:
                hook(row)
            parts.append(row)
            self.data.obs = out.obs.copy()
            self.data.info.env_id = out.info.env_id
            self.data.ep_return += out.rew
            ended = np.flatnonzero(out.terminated | out.truncated).tolist()  # E: list-of-any [only: zuban]
            if ended:
                self.returns += self.data.ep_return[ended].tolist()
                self.data.obs[ended] = self.envs.reset(ended).obs
                self.data.ep_return[ended] = 0.0
                self.stats.episodes += len(ended)
        self.stats.returns = np.array(self.returns)
        self.stats.steps = sum(len(part) for part in parts)
        return validate(Batch.cat(parts), RolloutBatch)


class Greedy:
    def __call__(self, batch: ObsBatchProtocol, /) -> ActBatch:
        return ActBatch(act=(batch.obs.sum(1) < 0).astype(int))

    def confused(self, batch: ObsBatchProtocol) -> ActBatch:
        return ActBatch(act=(batch.observation.sum(1) < 0).astype(int))  # E: user-misspelt


def main() -> None:
    seen = Batch(rows=0)

    def count(batch: Batch) -> None:
        seen.rows += len(batch)
        batch.rew = batch.rew.clip(-2, 0)
        seen.last = batch[-1]

    collector = Collector(Envs(4), Greedy(), [count, lambda batch: None])
    rollout = collector.collect(60)
    print(len(rollout), seen.rows, seen.last.info.env_id, rollout.rew.min() >= -2)
    print(collector.stats.episodes, collector.stats.returns.shape, collector.stats.steps)


if __name__ == "__main__":
    main()
