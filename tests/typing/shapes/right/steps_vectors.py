"""Rewards of several objectives, declared again."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import Batch, LogpOldBatch, LogpOldProtocol, validate


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


if __name__ == "__main__":
    main()
