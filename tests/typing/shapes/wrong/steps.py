"""Programs with a mistake in the steps of learning from a shipped record, each below its name."""

from __future__ import annotations

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

# ---- steps_dtype_of_flags
# 1 - flags of bool.
def target(batch: LogpOldProtocol[Tensor]) -> Tensor:
    return batch.rew + 0.99 * (1 - batch.terminated) * batch.v_s  # WRONG


def main() -> None:
    print(target(rollout()))

# ---- steps_features
# The layer takes other features than the trunk gives.
class Learner(Critic):
    def act(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        return self.value(self.policy(self.body(batch.obs)))  # WRONG


def main() -> None:
    print(Learner().act(rollout()))

# ---- steps_field_column
# A column is set where one number per step is declared.
class Learner(Critic):
    def values(self, batch: LogpOldBatch[Tensor]) -> LogpOldBatch[Tensor]:
        batch.v_s = self.value(self.body(batch.obs))  # WRONG
        return batch


def main() -> None:
    print(validate(Learner().values(rollout()), LogpOldBatch[Tensor]))

# ---- steps_gap
# Logits of all actions times one advantage each.
class Learner(Critic):
    def loss(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        values = self.value(self.body(batch.obs)).detach()
        gap = batch.returns - values  # WRONG
        return (gap * batch.adv).mean()


def main() -> None:
    print(Learner().loss(rollout()))

# ---- steps_target_column
# The next value is a column in the target.
class Learner(Critic):
    def target(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        after = self.value(self.body(batch.obs_next))
        goes_on = 1.0 - batch.terminated.float()
        return batch.rew + 0.99 * goes_on * after  # WRONG


def main() -> None:
    print(Learner().target(rollout()))

# ---- steps_value_column
# The value of the critic is (N, 1), the returns are (N,).
class Learner(Critic):
    def loss(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        value = self.value(self.body(batch.obs))
        return ((value - batch.returns) ** 2).mean()  # WRONG


def main() -> None:
    print(Learner().loss(rollout()))

# ---- steps_value_column_mse
# A loss of (N, 1) and (N,).
class Learner(Critic):
    def loss(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        error = F.smooth_l1_loss(self.value(self.body(batch.obs)), batch.returns)  # WRONG
        return error * batch.adv.mean()


def main() -> None:
    print(Learner().loss(rollout()))
