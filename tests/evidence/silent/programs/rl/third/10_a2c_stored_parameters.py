"""A2C with a Beta policy on Pendulum; the parameters of each step are stored for a KL that is logged."""
# wrong: """The loss is of the distribution with the stored parameters, which have no gradients: only the critic learns."""
# Policies that return `dist` (as in Tianshou) invite to use `batch.dist` in the loss (no single source).
from __future__ import annotations

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Beta, Independent, kl_divergence

from typedbatch import ActBatch, BatchWithAdvantages, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae

GAMMA, LAMBDA, SCALE = 0.95, 0.9, 10.0


class Choice(ActBatch[Tensor]):
    unit: Tensor
    """The action as a number between 0 and 1."""
    params: Tensor
    """Of the distribution, (N, 2)."""


class Rollout(RolloutBatch[Tensor]):
    unit: Tensor
    params: Tensor


class Targets(BatchWithAdvantages[Tensor]):
    unit: Tensor
    params: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    rollout = convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)
    rollout.rew = rollout.rew / SCALE
    return extend(rollout, Rollout, unit=choice.unit, params=choice.params)


def beta(params: Tensor) -> Independent:
    return Independent(Beta(params[:, :1], params[:, 1:]), 1)


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optim = torch.optim.RMSprop(self.parameters(), 1e-3, alpha=0.99, eps=1e-5)

    def parameters_of(self, obs: Tensor) -> Tensor:
        return F.softplus(self.actor(obs)) + 1.0

    def sample(self, batch: ObsBatch) -> Choice:
        params = self.parameters_of(torch.as_tensor(batch.obs))
        unit = beta(params).sample().clamp(1e-4, 1 - 1e-4)
        return Choice(act=4.0 * unit - 2.0, unit=unit, params=params)

    def update(self, rollout: Rollout) -> dict[str, float]:
        batch = extend(add_gae(rollout, self.critic, gamma=GAMMA, lam=LAMBDA), Targets)
        dist = beta(self.parameters_of(batch.obs))
        # wrong: dist = beta(batch.params)
        adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)
        policy_loss = -(dist.log_prob(batch.unit) * adv).mean()
        value_loss = F.mse_loss(self.critic(batch.obs).squeeze(-1), batch.returns)
        self.optim.zero_grad()
        (policy_loss + 0.5 * value_loss - 0.001 * dist.entropy().mean()).backward()
        nn.utils.clip_grad_norm_(self.parameters(), 0.5)
        self.optim.step()
        with torch.no_grad():
            kl = kl_divergence(beta(batch.params), beta(self.parameters_of(batch.obs))).mean()
        return {"policy": policy_loss.item(), "value": value_loss.item(), "kl": kl.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = Agent()
    collector = Collector(gym.make_vec("Pendulum-v1", 8), agent.sample, record)
    collector.reset(seed=seed)
    return agent.update, lambda: (collector.rollout(256),)
