"""1 - flags of bool."""

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


def target(batch: LogpOldProtocol[Tensor]) -> Tensor:
    return batch.rew + 0.99 * (1 - batch.terminated) * batch.v_s  # WRONG


def main() -> None:
    print(target(rollout()))


if __name__ == "__main__":
    main()
