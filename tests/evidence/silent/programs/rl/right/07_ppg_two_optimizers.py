"""Phasic policy gradient on CartPole: two optimizers share the trunk, and an auxiliary phase trains it every second update."""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, cat, convert, extend
from typedbatch.training import Collector, add_gae

AUX_EVERY, BETA = 2, 1.0


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


class PPG:
    def __init__(self) -> None:
        self.trunk = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.pi, self.aux_value = nn.Linear(64, 2), nn.Linear(64, 1)
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optim = torch.optim.Adam([*self.trunk.parameters(), *self.pi.parameters(), *self.critic.parameters()], 1e-3)
        self.aux_optim = torch.optim.Adam([*self.trunk.parameters(), *self.pi.parameters(), *self.aux_value.parameters()], 5e-4)
        self.stored: list[LogpOldBatch[Tensor]] = []

    def dist(self, obs: Tensor) -> Categorical:
        return Categorical(logits=self.pi(self.trunk(obs)))

    def act(self, batch: ObsBatch) -> Choice:
        dist = self.dist(torch.as_tensor(batch.obs))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    def policy_phase(self, batch: LogpOldBatch[Tensor]) -> dict[str, float]:
        for _ in range(6):
            for part in batch.split(64, rng=torch.default_generator):
                dist = self.dist(part.obs)
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                value = (self.critic(part.obs).squeeze(-1) - part.returns).pow(2).mean()
                self.optim.zero_grad()
                (policy + 0.5 * value).backward()
                nn.utils.clip_grad_norm_([*self.trunk.parameters(), *self.pi.parameters()], 0.5)
                self.optim.step()
        return {"policy": policy.item(), "value": value.item()}

    def aux_phase(self, batch: LogpOldBatch[Tensor]) -> dict[str, float]:
        """Distil the value into the trunk, while the policy stays where it is."""
        with torch.no_grad():
            old = self.dist(batch.obs).logits
        for _ in range(2):
            for rows in torch.randperm(len(batch)).split(128):
                features = self.trunk(batch.obs[rows])
                aux = 0.5 * (self.aux_value(features).squeeze(-1) - batch.returns[rows]).pow(2).mean()
                kl = kl_divergence(Categorical(logits=old[rows]), Categorical(logits=self.pi(features))).mean()
                self.aux_optim.zero_grad()
                (0.01 * aux + BETA * kl).backward()
                self.aux_optim.step()
        return {"aux": aux.item(), "kl": kl.item()}

    def update(self, rollout: Rollout) -> dict[str, float]:
        batch = extend(add_gae(rollout, self.critic, gamma=0.98, lam=0.9), LogpOldBatch[Tensor], logp_old=rollout.logp)
        losses = self.policy_phase(batch)
        self.stored.append(batch)
        if len(self.stored) == AUX_EVERY:
            losses |= self.aux_phase(cat(self.stored))
            self.stored.clear()
        return losses


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    ppg = PPG()
    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), ppg.act, record)
    collector.reset(seed=seed)
    return ppg.update, lambda: (collector.rollout(256),)
