"""Train both on the same task."""

import numpy as np

from policy_zoo.base import BasePolicy
from policy_zoo.policies import MonteCarloQ, PolicyGradient
from typedbatch import Batch, ObsBatch, RolloutBatch


def collect(policy: BasePolicy, n: int, rng: np.random.Generator) -> RolloutBatch:
    obs = rng.normal(size=(n + 1, 3))
    act = policy.forward(ObsBatch(obs=obs[:-1], info=Batch())).act
    rew = obs[:-1, 0] * (2 * act - 1)
    ended = np.arange(n) % 5 == 4
    return RolloutBatch(obs=obs[:-1], obs_next=obs[1:], act=act, rew=rew, terminated=ended, truncated=np.zeros(n, bool), info=Batch())
    #! misspelt-keyword: return RolloutBatch(obs=obs[:-1], obs_next=obs[1:], act=act, rew=rew, done=ended, truncated=np.zeros(n, bool), info=Batch())


def main() -> None:
    policies: list[BasePolicy] = [PolicyGradient(3, 0.5, seed=0), MonteCarloQ(3, 0.5, seed=1)]
    for policy in policies:
        rng = np.random.default_rng(7)
        for _ in range(6):
            policy.update(collect(policy, 40, rng))
        print(type(policy).__name__, f"{policy.average_loss():.4f}", f"{collect(policy, 100, rng).rew.mean():.4f}")


if __name__ == "__main__":
    main()
