"""PPO on CartPole, with a shared optimizer, several epochs and minibatches."""
# wrong: """The old log-probabilities are recomputed by the current actor in every epoch, so the ratio starts at 1 in each of them."""
# Source: the "ratio should be 1 only in the first epoch" check of "The 37 Implementation Details of PPO".
from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, Losses, add_gae

torch.set_num_threads(1)


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


class PPO:
    def __init__(self, lr: float = 1e-3, clip: float = 0.2, epochs: int = 6) -> None:
        self.actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
        self.critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
        self.params = [*self.actor.parameters(), *self.critic.parameters()]
        self.optim = torch.optim.Adam(self.params, lr, eps=1e-5)
        self.clip, self.epochs = clip, epochs

    def sample(self, batch: ObsBatch) -> Choice:
        dist = Categorical(logits=self.actor(torch.as_tensor(batch.obs)))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    def learn(self, batch: LogpOldBatch[Tensor]) -> Losses:
        sums = {"policy": 0.0, "value": 0.0, "entropy": 0.0}
        for _ in range(self.epochs):
            with torch.no_grad():
                logp_now = Categorical(logits=self.actor(batch.obs)).log_prob(batch.act)
                kl = (batch.logp_old - logp_now).mean()
            if kl > 0.05:
                break
            # wrong, too: batch = extend(batch, LogpOldBatch[Tensor], logp_old=logp_now)
            for part in batch.split(64, rng=torch.default_generator):
                dist = Categorical(logits=self.actor(part.obs))
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv).mean()
                value = (self.critic(part.obs).squeeze(-1) - part.returns).pow(2).mean()
                entropy = dist.entropy().mean()
                loss = policy + 0.5 * value - 0.01 * entropy
                self.optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.params, 0.5)
                self.optim.step()
                sums["policy"] += policy.item()
                sums["value"] += value.item()
                sums["entropy"] += entropy.item()
        return sums

    def update(self, batch: Rollout) -> Losses:
        with_adv = add_gae(batch, self.critic, gamma=0.99, lam=0.95)
        return self.learn(extend(with_adv, LogpOldBatch[Tensor], logp_old=batch.logp))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    ppo = PPO()
    collector = Collector(gym.make_vec("CartPole-v1", 4), ppo.sample, record)
    collector.reset(seed=seed)
    return ppo.update, lambda: (collector.rollout(256),)
