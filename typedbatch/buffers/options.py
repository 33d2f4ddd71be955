"""What buffers have in common: the types that they are generic in, their options, the fields of a transition."""

from __future__ import annotations

import os
from typing import TypedDict

from typing_extensions import TypeVar

from typedbatch.protocols import BatchProtocol, RolloutBatchProtocol

R = TypeVar("R", bound=BatchProtocol, contravariant=True, default=RolloutBatchProtocol)
"""What is added."""
S = TypeVar("S", bound=BatchProtocol, covariant=True, default=R)
"""What is sampled."""

FIELDS = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")
FILLED_IN = ("done", "obs_next", "info", "policy")
"""Those that a buffer computes, or has a place for where rows lack them."""


class BufferOptions(TypedDict, total=False):
    """What every buffer takes by keyword, as :class:`ReplayBuffer` says."""

    stack_num: int
    ignore_obs_next: bool
    save_only_last_obs: bool
    sample_avail: bool
    random_seed: int | None
    path: str | os.PathLike[str] | None
