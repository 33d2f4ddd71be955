"""PPO with invalid actions, whose mask is a part of the observation."""
# wrong: """Invalid actions are masked while acting but not in the update, so ratios and entropy are those of another distribution."""
# Source: "A closer look at invalid action masking" (arXiv:2006.14171), which names it naive masking: the gradient is wrong.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae

SLOTS, ACTIONS, CLIP = 5, 6, 0.2


class Packing(gym.Env):
    """Jobs of some size go into slots with room for them; the last action throws the job away."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (SLOTS + 1 + ACTIONS,), np.float32)
        self.action_space = gym.spaces.Discrete(ACTIONS)

    def observation(self) -> np.ndarray:
        fits = self.room >= self.job
        return np.concatenate([self.room, [self.job], fits, [True]]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room, self.time = np.ones(SLOTS), 0
        self.job = self.np_random.uniform(0.1, 0.6)
        return self.observation(), {}

    def step(self, action):
        reward = -self.job
        if action < SLOTS:
            self.room[action] -= self.job
            reward = self.job
        self.time += 1
        self.job = self.np_random.uniform(0.1, 0.6)
        return self.observation(), float(reward), self.time >= 20, False, {}


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


class MaskedActor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(SLOTS + 1, 64), nn.Tanh(), nn.Linear(64, ACTIONS))

    def forward(self, obs: Tensor, mask: Tensor | None = None) -> Categorical:
        logits = self.net(obs[:, : SLOTS + 1])
        if mask is not None:
            logits = logits.masked_fill(~mask, -1e8)
        return Categorical(logits=logits)


def mask_of(obs: Tensor) -> Tensor:
    return obs[:, SLOTS + 1 :] > 0.5


class MaskablePPO:
    def __init__(self) -> None:
        self.actor = MaskedActor()
        self.critic = nn.Sequential(nn.Linear(SLOTS + 1 + ACTIONS, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optim = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], 1e-3)

    def sample(self, batch: ObsBatch) -> Choice:
        obs = torch.as_tensor(batch.obs)
        dist = self.actor(obs, mask_of(obs))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    def update(self, rollout: Rollout) -> dict[str, float]:
        batch = extend(add_gae(rollout, self.critic, gamma=0.99, lam=0.95), LogpOldBatch[Tensor], logp_old=rollout.logp)
        for _ in range(3):
            for part in batch.split(64, rng=torch.default_generator):
                dist = self.actor(part.obs, mask_of(part.obs))
                # wrong: dist = self.actor(part.obs)
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
                value = (self.critic(part.obs).squeeze(-1) - part.returns).pow(2).mean()
                self.optim.zero_grad()
                (policy + 0.5 * value - 0.01 * dist.entropy().mean()).backward()
                self.optim.step()
        return {"policy": policy.item(), "value": value.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    ppo = MaskablePPO()
    collector = Collector(SyncVectorEnv([Packing] * 4), ppo.sample, record)
    collector.reset(seed=seed)
    return ppo.update, lambda: (collector.rollout(256),)
