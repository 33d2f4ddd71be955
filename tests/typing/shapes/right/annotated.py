"""Right programs about annotations that are evaluated late, each below its name."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from typedbatch import Batch, LogpOldBatch, LogpOldProtocol, validate

# ---- runs_of_a_held_record
from dataclasses import dataclass
# Rays in bundles: a record inside a record, whose runs of axes are as long as the caller's, and one ray alone.
class Bundle:
    origins: Tensor

    @property
    def ndim(self) -> int:
        return self.origins.ndim - 1


@dataclass
class Frustums(Bundle):
    origins: Float[Tensor, "*bs 3"]
    starts: Float[Tensor, "*bs 1"]
    ends: Float[Tensor, "*bs 1"]


@dataclass
class Samples:
    frustums: Frustums
    deltas: Float[Tensor, "*bs 1"]


def along(
    weights: Float[Tensor, "*batch samples 1"], steps: Float[Tensor, "*batch samples 1"]
) -> Float[Tensor, "*batch 1"]:
    return (weights * steps).sum(-2)


def depth(weights: Float[Tensor, "*batch samples 1"], samples: Samples) -> Float[Tensor, "*batch 1"]:
    steps = (samples.frustums.starts + samples.frustums.ends) / 2
    return along(weights, steps)


def circle(frustum: Frustums, resolution: int = 5) -> Tensor:
    if frustum.ndim > 0:
        raise ValueError("one frustum alone")
    x = torch.cat([torch.ones(resolution) * frustum.starts, torch.ones(resolution) * frustum.ends])
    points = torch.stack([x, x, x], dim=-1)
    return torch.einsum("kj,ij->ki", points, torch.eye(3))


def main() -> None:
    starts, ends = torch.zeros(4, 7, 1), torch.ones(4, 7, 1)
    samples = Samples(Frustums(torch.zeros(4, 7, 3), starts, ends), ends - starts)
    assert depth(torch.ones(4, 7, 1), samples).shape == (4, 1)
    assert circle(Frustums(torch.zeros(3), torch.zeros(1), torch.ones(1))).shape == (10, 3)

# ---- runs_of_axes
from jaxtyping import Int
# Functions for any number of leading axes.
class Actor(nn.Module):
    def __init__(self, obs: int, act: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, 16), nn.ReLU())
        self.head = nn.Linear(16, act)
        self.value = nn.Linear(16, 1)

    def forward(self, x: Float[Tensor, "*b obs"]) -> tuple[Float[Tensor, "*b act"], Float[Tensor, "*b"]]:
        hidden = self.trunk(x)
        return self.head(hidden), self.value(hidden).squeeze(-1)


def logp_of(logits: Float[Tensor, "*b act"], act: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    return F.log_softmax(logits, -1).gather(-1, act[..., None]).squeeze(-1)


def entropy(logits: Float[Tensor, "... act"]) -> Float[Tensor, "..."]:
    logp = logits.log_softmax(dim=-1)
    return -(logp.exp() * logp).sum(-1)


def normalized(x: Float[Tensor, "*b d"], mean: Float[Tensor, "d"], std: Float[Tensor, "d"]) -> Float[Tensor, "*b d"]:
    return ((x - mean) / std).clamp(-5, 5)


def attention(
    q: Float[Tensor, "*b q d"], k: Float[Tensor, "*b k d"], v: Float[Tensor, "*b k e"]
) -> Float[Tensor, "*b q e"]:
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v


def flat(x: Float[Tensor, "*b d"]) -> Float[Tensor, "n d"]:
    return x.reshape(-1, x.shape[-1])


def batched(x: Float[Tensor, "*b"]) -> Float[Tensor, "*c"]:
    return x[None] if x.ndim == 0 else x


def swapped(x: Float[Tensor, "T B *d"]) -> Float[Tensor, "B T *d"]:
    return x.transpose(0, 1)


def main() -> None:
    actor = Actor(4, 3)
    for shape in ((5,), (6, 2), ()):
        logits, value = actor(torch.rand(*shape, 4))
        loss = logp_of(logits, torch.zeros(shape, dtype=torch.long)) + value + entropy(logits)
        print(loss.mean(), flat(normalized(torch.rand(*shape, 4), torch.zeros(4), torch.ones(4))).shape, batched(value))
    print(attention(torch.rand(2, 3, 4), torch.rand(2, 5, 4), torch.rand(2, 5, 6)).shape, swapped(torch.rand(3, 2)).shape)

# ---- steps_actions
# Discrete and continuous actions, joined with observations.
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
    print(Critic().q_values(rollout()), Critic().minibatches(rollout()))

# ---- steps_layouts
# A rollout with an axis of time, and its rows.
def rollout(n: int = 5) -> LogpOldBatch[Tensor]:
    numbers = {name: torch.rand(n) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(n, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(n, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(n, dtype=torch.long), info=Batch())
    return validate(batch, LogpOldBatch[Tensor])


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
def rollout(n: int = 5) -> LogpOldBatch[Tensor]:
    numbers = {name: torch.rand(n) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(n, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(n, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(n, dtype=torch.long), info=Batch())
    return validate(batch, LogpOldBatch[Tensor])


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
    print(Critic().loss(rollout()))

# ---- steps_td
# Targets of one step, in every spelling that keeps the shape.
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
    print(Critic().targets(rollout()), Critic().columns(rollout()))

# ---- steps_vectors
# Rewards of several objectives, declared again.
def rollout(n: int = 5) -> LogpOldBatch[Tensor]:
    numbers = {name: torch.rand(n) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(n, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(n, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(n, dtype=torch.long), info=Batch())
    return validate(batch, LogpOldBatch[Tensor])


class VectorRollout(LogpOldBatch[Tensor]):
    rew: Tensor


def scalarized(batch: VectorRollout, weights: Tensor) -> Tensor:
    return (batch.rew * weights).sum(-1) + batch.adv + (batch.rew @ weights) * batch.returns


def main() -> None:
    plain = rollout()
    vector = VectorRollout(**{**plain.to_dict(), "info": Batch(), "rew": torch.rand(5, 2)})
    print(scalarized(validate(vector, VectorRollout), torch.ones(2)))
