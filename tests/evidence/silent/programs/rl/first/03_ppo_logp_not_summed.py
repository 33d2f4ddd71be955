"""PPO with a diagonal Gaussian on Pendulum."""
# wrong: """The log-probabilities of a Gaussian are not summed over action dimensions: (N, 1) times advantages (N,) is (N, N)."""
# Source: tianshou pull request 155: "log_prob is different: [bsz] in Categorical and [bsz, 1] in Normal".
from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae

torch.set_num_threads(1)


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


class Prepared(Rollout):
    adv: Tensor
    returns: Tensor


class GaussianActor(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int) -> None:
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, act_dim))
        self.log_std = nn.Parameter(torch.zeros(act_dim) - 0.5)

    def forward(self, obs: Tensor) -> Normal:
        return Normal(self.mu(obs), self.log_std.exp())

    def log_prob(self, dist: Normal, act: Tensor) -> Tensor:
        return dist.log_prob(act).sum(-1)
        # wrong: return dist.log_prob(act)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    envs = gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync")
    actor, critic = GaussianActor(3, 1), nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
    optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)

    def sample(batch: ObsBatch) -> Choice:
        dist = actor(torch.as_tensor(batch.obs))
        act = dist.sample()
        return Choice(act=act, logp=actor.log_prob(dist, act))

    def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
        return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)

    collector = Collector(envs, sample, record)
    collector.reset(seed=seed)

    def process(rollout: Rollout) -> Prepared:
        full = add_gae(rollout, critic, gamma=0.95, lam=0.95)
        adv = (full.adv - full.adv.mean()) / (full.adv.std() + 1e-8)
        return extend(rollout, Prepared, adv=adv, returns=full.returns)

    def update(rollout: Rollout) -> dict[str, float]:
        batch, total = process(rollout), 0.0
        for _ in range(4):
            for part in batch.split(64, rng=torch.default_generator):
                dist = actor(part.obs)
                ratio = torch.exp(actor.log_prob(dist, part.act) - part.logp)
                surrogate = torch.min(ratio * part.adv, ratio.clamp(0.8, 1.2) * part.adv)
                value_loss = (critic(part.obs).squeeze(-1) - part.returns).square().mean()
                loss = -surrogate.mean() + 0.5 * value_loss - 1e-3 * dist.entropy().sum(-1).mean()
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
                optim.step()
                total += loss.item()
        return {"loss": total}

    return update, lambda: (collector.rollout(256),)
