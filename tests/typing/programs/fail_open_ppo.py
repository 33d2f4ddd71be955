"""PPO's clipped objective in numpy with a logistic policy."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import (
    Batch,
    BatchWithAdvantages,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    LogpOldBatch,
    LogpOldProtocol,
    RolloutBatch,
    extend,
)

Array = NDArray[Any]


@dataclass
class Config:
    gamma: float = 0.99
    clip: float = 0.2
    extra: Batch = field(default_factory=Batch)


@dataclass
class Policy:
    weights: Array

    def logp(self, obs: Array, act: Array) -> Array:
        p = 1 / (1 + np.exp(-obs @ self.weights))
        out: Array = np.log(np.where(act == 1, p, 1 - p))
        return out


def add_returns(batch: RolloutBatch, gamma: float) -> BatchWithReturns:
    returns = np.zeros(len(batch) + 1)
    for t in reversed(range(len(batch))):
        returns[t] = batch.rew[t] + gamma * returns[t + 1] * (not batch.terminated[t])
    return extend(batch, BatchWithReturns, returns=returns[:-1])


def add_adv(batch: BatchWithReturns) -> BatchWithAdvantages:
    v_s = np.full(len(batch), batch.returns.mean())
    return extend(batch, BatchWithAdvantages, v_s=v_s, adv=batch.returns - v_s)


def add_logp(batch: BatchWithAdvantagesProtocol, policy: Policy) -> LogpOldBatch:
    return extend(batch, LogpOldBatch, logp_old=policy.logp(batch.obs, batch.act))


def objective(batch: LogpOldProtocol, policy: Policy, clip: float) -> float:
    ratio = np.exp(policy.logp(batch.obs, batch.act) - batch.logp_old)
    return float(np.minimum(ratio * batch.adv, ratio.clip(1 - clip, 1 + clip) * batch.adv).mean())


def objective_misspelt(batch: LogpOldProtocol, policy: Policy) -> float:
    ratio = np.exp(policy.logp(batch.obs, batch.act) - batch.old_logp)  # E: user-misspelt
    return float((ratio * batch.adv).mean())


def forgot_logp(batch: BatchWithAdvantages, policy: Policy) -> float:
    return objective(batch, policy, 0.2)  # E: user-wrong-stage


def collect(n: int, rng: np.random.Generator) -> RolloutBatch:
    obs = rng.normal(size=(n + 1, 3))
    ends = np.arange(n) % 16 == 15
    return RolloutBatch(
        obs=obs[:-1],
        obs_next=obs[1:],
        act=rng.integers(2, size=n),
        rew=rng.random(n),
        terminated=ends,
        truncated=np.zeros(n, bool),
        info=Batch(env_id=np.zeros(n, np.int64)),
    )


def collect_short(n: int, rng: np.random.Generator) -> RolloutBatch:
    obs = rng.normal(size=(n, 3))
    flags = np.zeros(n, bool)
    return RolloutBatch(obs=obs, obs_next=obs, act=obs[:, 0], terminated=flags, truncated=flags, info=Batch())  # E: user-missing


def main() -> None:
    config = Config()
    config.extra.seeds = [1, 2, 3]
    rng = np.random.default_rng(int(config.extra.seeds[0]))
    policy = Policy(rng.normal(size=3))
    rollout = collect(64, rng)
    ready = add_logp(add_adv(add_returns(rollout, config.gamma)), policy)
    policy.weights = policy.weights + 0.1
    for mb in ready.split(16):
        mb.adv = (mb.adv - mb.adv.mean()) / (mb.adv.std() + 1e-8)
        print(round(objective(mb, policy, config.clip), 4))


if __name__ == "__main__":
    main()
