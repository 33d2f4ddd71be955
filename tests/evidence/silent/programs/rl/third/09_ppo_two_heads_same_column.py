"""PPO for a MultiDiscrete space, with a distribution class of its own."""
# wrong: """The log-probability of the second action is that of the first action under the second head: a copied line."""
# Source: in the spirit of CleanRL's ppo_multidiscrete.py, which zips actions and heads; unrolled by hand it is easily copied wrong.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae

CHOICES, CLIP = 3, 0.2


class TwoKnobs(gym.Env):
    """Two dials drift, and each is turned down, left, or turned up."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.MultiDiscrete([CHOICES, CHOICES])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.dials, self.time = self.np_random.normal(size=2), 0
        return self.dials.astype(np.float32), {}

    def step(self, action):
        self.dials = self.dials + 0.5 * (np.asarray(action) - 1) + 0.2 * self.np_random.normal(size=2)
        self.time += 1
        fail = bool(np.abs(self.dials).max() > 4)
        return self.dials.astype(np.float32), float(1 - np.abs(self.dials).mean()), fail, self.time >= 50, {}


class MultiCategorical:
    """Independent choices, of which the actions are columns."""

    def __init__(self, logits: Tensor) -> None:
        first, second = logits.split(CHOICES, -1)
        self.first, self.second = Categorical(logits=first), Categorical(logits=second)

    def sample(self) -> Tensor:
        return torch.stack([self.first.sample(), self.second.sample()], -1)

    def log_prob(self, act: Tensor) -> Tensor:
        logp = self.first.log_prob(act[:, 0])
        logp = logp + self.second.log_prob(act[:, 1])
        # wrong: logp = logp + self.second.log_prob(act[:, 0])
        return logp

    def entropy(self) -> Tensor:
        return self.first.entropy() + self.second.entropy()


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    actor = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 2 * CHOICES))
    critic = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))
    optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 1e-3)

    def sample(batch: ObsBatch) -> Choice:
        dist = MultiCategorical(actor(torch.as_tensor(batch.obs)))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    def loss(part: LogpOldBatch[Tensor]) -> Tensor:
        dist = MultiCategorical(actor(part.obs))
        ratio = (dist.log_prob(part.act) - part.logp_old).exp()
        adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
        policy = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
        value = (critic(part.obs).squeeze(-1) - part.returns).pow(2).mean()
        return policy + 0.5 * value - 0.01 * dist.entropy().mean()

    def update(rollout: Rollout) -> dict[str, float]:
        batch = extend(add_gae(rollout, critic, gamma=0.98, lam=0.95), LogpOldBatch[Tensor], logp_old=rollout.logp)
        total = 0.0
        for _ in range(4):
            for part in batch.split(64, rng=torch.default_generator):
                optim.zero_grad()
                value = loss(part)
                value.backward()
                nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
                optim.step()
                total += value.item()
        return {"loss": total}

    collector = Collector(SyncVectorEnv([TwoKnobs] * 4), sample, record)
    collector.reset(seed=seed)
    return update, lambda: (collector.rollout(256),)
