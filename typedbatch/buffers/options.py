"""Definitions that all buffers share: type variables, constructor options, and the fields of a transition."""

from __future__ import annotations

import os
from typing import TypedDict

from typing_extensions import TypeVar

from typedbatch.protocols import BatchProtocol, RolloutBatchProtocol

R = TypeVar("R", bound=BatchProtocol, contravariant=True, default=RolloutBatchProtocol)
"""Type of the batches that are added."""
S = TypeVar("S", bound=BatchProtocol, covariant=True, default=R)
"""Type of the batches that are sampled."""

FIELDS = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")
FLAGS = ("terminated", "truncated", "done")
"""Fields that mark where episodes end."""
FILLED_IN = ("done", "obs_next", "info", "policy")
"""Fields that a buffer computes, or fills with an empty batch, if the rows lack them."""


class BufferOptions(TypedDict, total=False):
    """Keyword arguments that every buffer takes; :class:`ReplayBuffer` describes them."""

    stack_num: int
    ignore_obs_next: bool
    save_only_last_obs: bool
    sample_avail: bool
    random_seed: int | None
    path: str | os.PathLike[str] | None
