"""Programs with a mistake about annotations that are evaluated late, each below its name."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from typedbatch import Batch, LogpOldBatch, LogpOldProtocol, validate

# ---- runs_called
# A call with another run than the first argument has.
def logp_of(logits: Float[Tensor, "*b act"], act: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    return F.log_softmax(logits, -1).gather(-1, act.reshape(*logits.shape[:-1], -1)[..., :1]).squeeze(-1)


def main() -> None:
    print(logp_of(torch.rand(6, 2, 3), torch.zeros(6, 2, 1, dtype=torch.long)))  # WRONG

# ---- runs_last_axis
# The mean of the wrong axes: those of the features are wanted.
def mean_of_features(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
    return x.mean(-1, keepdim=True)  # WRONG


def main() -> None:
    print(mean_of_features(torch.rand(3, 4)))

# ---- runs_other_run
# Values of other axes than those of the weights.
def weighted(x: Float[Tensor, "*b d"], w: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    score = x.sum(-1, keepdim=True)
    return score.mean(-1) + (x @ torch.ones(x.shape[-1], 1)).clamp(0) * w  # WRONG


def main() -> None:
    print(weighted(torch.rand(3, 4), torch.rand(3)))

# ---- runs_result
# The result has the width of the weights.
def project(x: Float[Tensor, "... d"], w: Float[Tensor, "d k"]) -> Float[Tensor, "... d"]:
    return x @ w  # WRONG


def main() -> None:
    print(project(torch.rand(3, 4), torch.rand(4, 5)))

# ---- steps_dtype_of_flags
# 1 - flags of bool.
def rollout(n: int = 5) -> LogpOldBatch[Tensor]:
    numbers = {name: torch.rand(n) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(n, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(n, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(n, dtype=torch.long), info=Batch())
    return validate(batch, LogpOldBatch[Tensor])


def target(batch: LogpOldProtocol[Tensor]) -> Tensor:
    return batch.rew + 0.99 * (1 - batch.terminated) * batch.v_s  # WRONG


def main() -> None:
    print(target(rollout()))

# ---- steps_features
# The layer takes other features than the trunk gives.
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

    def act(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        return self.value(self.policy(self.body(batch.obs)))  # WRONG


def main() -> None:
    print(Critic().act(rollout()))

# ---- steps_field_column
# A column is set where one number per step is declared.
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

    def values(self, batch: LogpOldBatch[Tensor]) -> LogpOldBatch[Tensor]:
        batch.v_s = self.value(self.body(batch.obs))  # WRONG
        return batch


def main() -> None:
    print(validate(Critic().values(rollout()), LogpOldBatch[Tensor]))

# ---- steps_gap
# Logits of all actions times one advantage each.
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
        values = self.value(self.body(batch.obs)).detach()
        gap = batch.returns - values  # WRONG
        return (gap * batch.adv).mean()


def main() -> None:
    print(Critic().loss(rollout()))

# ---- steps_target_column
# The next value is a column in the target.
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

    def target(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        after = self.value(self.body(batch.obs_next))
        goes_on = 1.0 - batch.terminated.float()
        return batch.rew + 0.99 * goes_on * after  # WRONG


def main() -> None:
    print(Critic().target(rollout()))

# ---- steps_value_column
# The value of the critic is (N, 1), the returns are (N,).
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
        value = self.value(self.body(batch.obs))
        return ((value - batch.returns) ** 2).mean()  # WRONG


def main() -> None:
    print(Critic().loss(rollout()))

# ---- steps_value_column_mse
# A loss of (N, 1) and (N,).
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
        error = F.smooth_l1_loss(self.value(self.body(batch.obs)), batch.returns)  # WRONG
        return error * batch.adv.mean()


def main() -> None:
    print(Critic().loss(rollout()))
