"""IMPALA-like actor-critic on CartPole: an actor that is two updates old collects, and V-trace corrects for it."""

from __future__ import annotations

import copy

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector

GAMMA, RHO_MAX, C_MAX, LAG = 0.98, 1.0, 1.0, 2


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    """The log-probabilities are those of the behavior, which is not the policy that learns."""

    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


@torch.no_grad()
def vtrace(batch: Rollout, values: Tensor, values_next: Tensor, log_rhos: Tensor) -> tuple[Tensor, Tensor]:
    """Targets of the values, and advantages (arXiv:1802.01561), over rows in time order, with any number of episodes."""
    rho, c = log_rhos.exp().clamp(max=RHO_MAX), log_rhos.exp().clamp(max=C_MAX)
    discount = GAMMA * (~batch.terminated)
    inside = (~(batch.terminated | batch.truncated)).float()  # whether the next row is the next step
    delta = rho * (batch.rew + discount * values_next - values)
    correction, running = torch.zeros_like(values), torch.zeros(())
    for i in reversed(range(len(values))):
        correction[i] = running = delta[i] + GAMMA * inside[i] * c[i] * running
    targets = values + correction
    following = torch.cat([targets[1:], targets[-1:]])
    targets_next = torch.where(inside.bool(), following, values_next)
    return targets, rho * (batch.rew + discount * targets_next - values)


class Learner:
    def __init__(self) -> None:
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
        self.behavior = copy.deepcopy(self.actor)
        self.history = [copy.deepcopy(self.actor.state_dict()) for _ in range(LAG)]
        self.params = [*self.actor.parameters(), *self.critic.parameters()]
        self.optim = torch.optim.RMSprop(self.params, 2e-3, alpha=0.99, eps=1e-3)

    def act(self, batch: ObsBatch) -> Choice:
        dist = Categorical(logits=self.behavior(torch.as_tensor(batch.obs)))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    def update(self, batch: Rollout) -> dict[str, float]:
        dist = Categorical(logits=self.actor(batch.obs))
        logp = dist.log_prob(batch.act)
        values = self.critic(batch.obs).squeeze(-1)
        values_next = self.critic(batch.obs_next).squeeze(-1).detach()
        targets, adv = vtrace(batch, values.detach(), values_next, logp.detach() - batch.logp)
        policy = -(logp * adv).mean()
        value = 0.5 * (values - targets).pow(2).mean()
        self.optim.zero_grad()
        (policy + 0.5 * value - 0.01 * dist.entropy().mean()).backward()
        nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optim.step()
        self.history.append(copy.deepcopy(self.actor.state_dict()))
        self.behavior.load_state_dict(self.history.pop(0))
        ratio = (logp.detach() - batch.logp).exp()
        return {"policy": policy.item(), "value": value.item(), "ratio": ratio.max().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    learner = Learner()
    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), learner.act, record)
    collector.reset(seed=seed)
    return learner.update, lambda: (collector.rollout(128),)
