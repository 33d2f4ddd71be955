"""Steps of several environments, as the PPO of robots and games collects them."""

from __future__ import annotations

from typing import Any

import torch

from typedbatch import Batch


def steps(length: int, envs: int, *, features: int = 4) -> Any:
    """Return steps ``(length, envs)`` with episodes that are terminated or truncated; the last ones go on."""
    generator = torch.Generator().manual_seed(0)
    obs, after = torch.randn(2, length, envs, features, generator=generator)
    chance = torch.rand(length, envs, generator=generator)
    terminated, truncated = chance < 0.1, chance > 0.85
    terminated[-1], truncated[-1] = False, False
    goes_on = ~(terminated | truncated)[:-1, :, None]
    after[:-1] = torch.where(goes_on, obs[1:], after[:-1])
    rew = torch.randn(length, envs, generator=generator)
    return Batch(obs=obs, obs_next=after, rew=rew, terminated=terminated, truncated=truncated)


def flat(batch: Any) -> Any:
    """Return a batch with a row for each step of each environment."""
    return Batch({name: value.flatten(0, 1) for name, value in batch.items()})
