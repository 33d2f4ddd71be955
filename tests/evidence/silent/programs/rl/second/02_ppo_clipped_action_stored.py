"""PPO on Pendulum with a Gaussian whose samples are clipped to the torque limits in the environment only."""
# wrong: """The stored action is the clipped one, but its old log-probability is that of the sample before clipping."""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


class PPO:
    """Clipped surrogate, as in SB3 (whose rollout buffer has the unclipped actions, too)."""

    gamma, lam, clip, epochs, minibatch = 0.95, 0.95, 0.2, 5, 64

    def __init__(self) -> None:
        self.mean = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.full((1,), 0.5))
        self.critic = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
        self.params = [*self.mean.parameters(), self.log_std, *self.critic.parameters()]
        self.optim = torch.optim.Adam(self.params, 1e-3)

    def dist(self, obs: Tensor) -> Independent:
        mean = self.mean(obs)
        return Independent(Normal(mean, self.log_std.exp().expand_as(mean)), 1)

    def act(self, batch: ObsBatch) -> Choice:
        dist = self.dist(torch.as_tensor(batch.obs))
        act = dist.sample()
        logp = dist.log_prob(act)
        return Choice(act=act, logp=logp)
        # wrong: return Choice(act=act.clamp(-2, 2), logp=logp)

    def update(self, rollout: Rollout) -> dict[str, float]:
        batch = extend(add_gae(rollout, self.critic, gamma=self.gamma, lam=self.lam), LogpOldBatch[Tensor], logp_old=rollout.logp)
        for _ in range(self.epochs):
            for part in batch.split(self.minibatch, rng=torch.default_generator):
                dist = self.dist(part.obs)
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv).mean()
                value = nn.functional.mse_loss(self.critic(part.obs).squeeze(-1), part.returns)
                self.optim.zero_grad()
                (policy + 0.5 * value).backward()
                nn.utils.clip_grad_norm_(self.params, 0.5)
                self.optim.step()
        return {"policy": policy.item(), "value": value.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync", wrappers=[gym.wrappers.ClipAction])
    ppo = PPO()
    collector = Collector(envs, ppo.act, record)
    collector.reset(seed=seed)
    return ppo.update, lambda: (collector.rollout(256),)
