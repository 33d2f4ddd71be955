"""Right programs that learn from a shipped record in steps, each below its name."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from typedbatch import Batch, LogpOldBatch, LogpOldProtocol, validate


def rollout(n: int = 5) -> LogpOldBatch[Tensor]:
    numbers = {name: torch.rand(n) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(n, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(n, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(n, dtype=torch.long), info=Batch())
    return validate(batch, LogpOldBatch[Tensor])


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.value = nn.Linear(8, 1)
        self.policy = nn.Linear(8, 3)

# ---- steps_actions
# Discrete and continuous actions, joined with observations.
class Learner(Critic):
    def q_values(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        one_hot = F.one_hot(batch.act, 3).float()
        joined = torch.cat([batch.obs, one_hot], -1)
        picked = self.policy(self.body(batch.obs)).gather(1, batch.act.unsqueeze(1)).squeeze(1)
        logp = torch.distributions.Categorical(logits=self.policy(self.body(batch.obs))).log_prob(batch.act)
        rows = torch.arange(len(batch))
        return picked * batch.adv + logp + joined.sum(-1) + self.policy(self.body(batch.obs))[rows, batch.act]

    def minibatches(self, batch: LogpOldBatch[Tensor]) -> Tensor:
        loss = torch.zeros(())
        for part in batch.split(2):
            loss = loss + ((self.value(self.body(part.obs)).squeeze(-1) - part.returns) ** 2 * part.adv).mean()
        chosen = batch[batch.adv > 0]
        return loss + (chosen.adv * chosen.logp_old).sum() + (batch[0:2].adv - batch[1:3].adv).sum()


def main() -> None:
    print(Learner().q_values(rollout()), Learner().minibatches(rollout()))

# ---- steps_layouts
# A rollout with an axis of time, and its rows.
def advantages(batch: LogpOldProtocol[Tensor], gamma: float = 0.99) -> Tensor:
    adv, last = torch.zeros_like(batch.rew), torch.zeros_like(batch.rew[0])
    for t in reversed(range(len(batch))):
        goes_on = 1.0 - batch.terminated[t].float()
        last = batch.rew[t] - batch.v_s[t] + gamma * goes_on * last
        adv[t] = last
    return adv.reshape(-1) / adv.std()


def by_environment(batch: LogpOldProtocol[Tensor]) -> Tensor:
    time, envs = batch.rew.shape
    returns = batch.rew.sum(0) + batch.returns[0]
    rows = batch.obs.reshape(time * envs, -1)
    return rows.mean() + returns.sum() + batch.adv.view(time, envs)[:, 0].sum() + batch.rew.transpose(0, 1).mean()


def main() -> None:
    numbers = {name: torch.rand(6, 2) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(6, 2, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(6, 2, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(6, 2, dtype=torch.long), info=Batch())
    whole = validate(batch, LogpOldBatch[Tensor])
    print(advantages(rollout()), advantages(whole), by_environment(whole))

# ---- steps_numpy
from typedbatch import convert
# Arrays of numpy, and generators of batches.
def returns_of(batch: LogpOldProtocol, gamma: float = 0.9) -> np.ndarray:
    out = np.zeros(len(batch) + 1)
    for t in reversed(range(len(batch))):
        out[t] = batch.rew[t] + gamma * out[t + 1] * (not batch.terminated[t])
    weights = np.where(batch.truncated, 0.0, batch.adv)
    return out[:-1] + weights * batch.rew - np.cumsum(batch.rew, -1)


def main() -> None:
    print(returns_of(convert(rollout(), LogpOldBatch)))

# ---- steps_ppo
# PPO on a shipped record.
class Learner(Critic):
    def loss(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        hidden = self.body(batch.obs)
        value = self.value(hidden).squeeze(-1)
        logp = F.log_softmax(self.policy(hidden), -1).gather(-1, batch.act[..., None]).squeeze(-1)
        ratio = (logp - batch.logp_old).exp()
        adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)
        clipped = ratio.clamp(0.8, 1.2) * adv
        actor = -torch.min(ratio * adv, clipped).mean()
        critic = F.mse_loss(value, batch.returns) + F.mse_loss(self.value(hidden), batch.returns[..., None])
        return actor + 0.5 * critic


def main() -> None:
    print(Learner().loss(rollout()))

# ---- steps_td
# Targets of one step, in every spelling that keeps the shape.
class Learner(Critic):
    def targets(self, batch: LogpOldProtocol[Tensor], gamma: float = 0.99) -> Tensor:
        after = self.value(self.body(batch.obs_next)).flatten()
        ends = batch.terminated | batch.truncated
        one = batch.rew + gamma * (1.0 - batch.terminated.float()) * after
        two = batch.rew + gamma * (~ends) * after
        three = torch.where(batch.terminated, batch.rew, batch.rew + gamma * after)
        four = batch.rew.view(-1) + batch.v_s.reshape(-1) * batch.adv.flatten()
        return one + two + three + four

    def columns(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        after = self.value(self.body(batch.obs_next))
        return batch.rew.unsqueeze(-1) + 0.99 * after * batch.terminated.logical_not()[:, None]


def main() -> None:
    print(Learner().targets(rollout()), Learner().columns(rollout()))

# ---- steps_vectors
# Rewards of several objectives, declared again.
class VectorRollout(LogpOldBatch[Tensor]):
    rew: Tensor


def scalarized(batch: VectorRollout, weights: Tensor) -> Tensor:
    return (batch.rew * weights).sum(-1) + batch.adv + (batch.rew @ weights) * batch.returns


def main() -> None:
    plain = rollout()
    vector = VectorRollout(**{**plain.to_dict(), "info": Batch(), "rew": torch.rand(5, 2)})
    print(scalarized(validate(vector, VectorRollout), torch.ones(2)))
