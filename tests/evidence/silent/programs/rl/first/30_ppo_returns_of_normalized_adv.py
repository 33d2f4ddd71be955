"""PPO on Pendulum with advantages and returns computed once per rollout."""
# wrong: """The returns are the sum of values and advantages that were already normalized: the critic's target loses its scale."""
# Happens when the normalization moves from the minibatch to the rollout (no single source).
from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.buffers import compute_episodic_return
from typedbatch.training import Collector, Losses

torch.set_num_threads(1)


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


class PPO:
    gamma, lam, clip = 0.9, 0.95, 0.2

    def __init__(self) -> None:
        self.mean = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(1))
        self.critic = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor_optim = torch.optim.Adam([*self.mean.parameters(), self.log_std], 3e-4)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), 1e-3)

    def dist(self, obs: Tensor) -> Independent:
        return Independent(Normal(self.mean(obs), self.log_std.exp()), 1)

    def sample(self, batch: ObsBatch) -> Choice:
        dist = self.dist(torch.as_tensor(batch.obs))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    def process(self, batch: Rollout) -> LogpOldBatch[Tensor]:
        with torch.no_grad():
            v_s, v_s_ = self.critic(batch.obs).squeeze(-1), self.critic(batch.obs_next).squeeze(-1)
        _, adv = compute_episodic_return(batch, v_s_=v_s_, v_s=v_s, gamma=self.gamma, gae_lambda=self.lam)
        # wrong, too: adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        returns = adv + v_s
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        # wrong: without this line
        return extend(batch, LogpOldBatch[Tensor], v_s=v_s, adv=adv, returns=returns, logp_old=batch.logp)

    def learn(self, batch: LogpOldBatch[Tensor], epochs: int = 4, size: int = 64) -> Losses:
        sums = {"policy": 0.0, "value": 0.0}
        for _ in range(epochs):
            for part in batch.split(size, rng=torch.default_generator):
                ratio = (self.dist(part.obs).log_prob(part.act) - part.logp_old).exp()
                policy = -torch.min(ratio * part.adv, ratio.clamp(1 - self.clip, 1 + self.clip) * part.adv).mean()
                self.actor_optim.zero_grad()
                policy.backward()
                self.actor_optim.step()
                value = nn.functional.mse_loss(self.critic(part.obs).squeeze(-1), part.returns)
                self.critic_optim.zero_grad()
                value.backward()
                self.critic_optim.step()
                sums["policy"] += policy.item()
                sums["value"] += value.item()
        return sums

    def update(self, batch: Rollout) -> Losses:
        return self.learn(self.process(batch))


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    ppo = PPO()
    envs = gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync")
    collector = Collector(envs, ppo.sample, record)
    collector.reset(seed=seed)
    return ppo.update, lambda: (collector.rollout(256),)
