"""PPO on CartPole whose policy has dropout also while collecting; the masks are stored and used again (arXiv:2202.11818)."""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae

UNITS, KEEP = 64, 0.8


class Choice(ActBatch[Tensor]):
    logp: Tensor
    mask: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor
    mask: Tensor


class Ready(LogpOldBatch[Tensor]):
    mask: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    tensors = convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)
    return extend(tensors, Rollout, logp=choice.logp, mask=choice.mask)


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, UNITS), nn.Linear(UNITS, 2)

    def forward(self, obs: Tensor, mask: Tensor) -> Categorical:
        return Categorical(logits=self.last(self.first(obs).tanh() * mask / KEEP))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    policy = Policy()
    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optim = torch.optim.Adam([*policy.parameters(), *critic.parameters()], 2e-3)

    def act(batch: ObsBatch) -> Choice:
        obs = torch.as_tensor(batch.obs)
        mask = torch.bernoulli(torch.full((len(obs), UNITS), KEEP))
        dist = policy(obs, mask)
        chosen = dist.sample()
        return Choice(act=chosen, logp=dist.log_prob(chosen), mask=mask)

    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), act, record)
    collector.reset(seed=seed)

    def update(rollout: Rollout) -> dict[str, float]:
        ready = extend(add_gae(rollout, critic, gamma=0.98, lam=0.9), Ready, logp_old=rollout.logp, mask=rollout.mask)
        for _ in range(5):
            for part in ready.split(64, rng=torch.default_generator):
                dist = policy(part.obs, part.mask)
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                value = (critic(part.obs).squeeze(-1) - part.returns).pow(2).mean()
                optim.zero_grad()
                (loss + 0.5 * value).backward()
                nn.utils.clip_grad_norm_([*policy.parameters(), *critic.parameters()], 0.5)
                optim.step()
        return {"policy": loss.item(), "value": value.item()}

    return update, lambda: (collector.rollout(256),)
