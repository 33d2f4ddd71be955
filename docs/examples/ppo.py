"""PPO (arXiv:1707.06347) on CartPole: ``python docs/examples/ppo.py [seed]``. Solved at a mean return of 475.

Each function says which stage of the pipeline it takes and gives, so checkers follow a batch from the environments to
the gradient: a rollout without log-probabilities, or advantages that were never computed, do not get as far as a run.
"""

from __future__ import annotations

import sys

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, Losses, add_gae, evaluate, on_policy

GAMMA, LAMBDA, CLIP, ENTROPY = 0.98, 0.8, 0.2, 0.0
EPOCHS, MINIBATCH, LEARNING_RATE = 20, 256, 1e-3


class Choice(ActBatch[Tensor]):
    """Action with its log-probability."""

    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    """Transitions with the log-probability of each action."""

    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor]), Rollout, logp=choice.logp)


class PPO:
    """An actor and a critic, and how they learn."""

    def __init__(self) -> None:
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optim = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], LEARNING_RATE)

    def sample(self, batch: ObsBatch) -> Choice:
        dist = Categorical(logits=self.actor(torch.as_tensor(batch.obs)))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    def greedy(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=self.actor(torch.as_tensor(batch.obs)).argmax(-1))

    def process(self, batch: Rollout) -> LogpOldBatch[Tensor]:
        """Add generalized advantages (arXiv:1506.02438)."""
        with_adv = add_gae(batch, self.critic, gamma=GAMMA, lam=LAMBDA)
        return extend(with_adv, LogpOldBatch[Tensor], logp_old=batch.logp)

    def learn(self, batch: LogpOldBatch[Tensor]) -> Losses:
        sums = {"policy": 0.0, "value": 0.0}
        for _ in range(EPOCHS):
            for part in batch.split(MINIBATCH, rng=torch.default_generator):
                dist = Categorical(logits=self.actor(part.obs))
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
                value_loss = (self.critic(part.obs).squeeze(-1) - part.returns).pow(2).mean()
                self.optim.zero_grad()
                (policy_loss + 0.5 * value_loss - ENTROPY * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_([*self.actor.parameters(), *self.critic.parameters()], 0.5)
                self.optim.step()
                sums["policy"] += policy_loss.item()
                sums["value"] += value_loss.item()
        return sums

    def update(self, batch: Rollout) -> Losses:
        return self.learn(self.process(batch))


def main(seed: int = 0) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs, tests = gym.make_vec("CartPole-v1", 8), gym.make_vec("CartPole-v1", 10)
    ppo = PPO()
    collector = Collector(envs, ppo.sample, record)
    collector.reset(seed)
    for epoch in on_policy(collector, ppo.update, n_step=256, epoch_steps=5_000, epochs=20):
        score = evaluate(tests, ppo.greedy, 20, seed=seed + 1000).mean
        collected, loss = epoch.collected.mean, epoch.losses["value"]
        print(f"{epoch.step:6} steps, collected {collected:5.1f}, mean return {score:5.1f}, loss {loss:8.2f}")
        if score >= 475:
            break


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
