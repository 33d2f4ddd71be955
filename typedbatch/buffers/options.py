"""What buffers have in common: the types that they are generic in, their options, the fields of a transition."""

from __future__ import annotations

import os
from typing import Any, TypedDict

from typing_extensions import TypeVar

from typedbatch.errors import FieldNameError
from typedbatch.protocols import BatchProtocol, RolloutBatchProtocol

R = TypeVar("R", bound=BatchProtocol, contravariant=True, default=RolloutBatchProtocol)
"""What is added."""
S = TypeVar("S", bound=BatchProtocol, covariant=True, default=R)
"""What is sampled."""

FIELDS = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")


class BufferOptions(TypedDict, total=False):
    """What every buffer takes by keyword, as :class:`ReplayBuffer` says."""

    stack_num: int
    ignore_obs_next: bool
    save_only_last_obs: bool
    sample_avail: bool
    random_seed: int | None
    path: str | os.PathLike[str] | None


class Column:
    """``buffer.obs``: the column of a field, in the order of the slots, live. Not to be assigned to."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, buffer: Any, owner: type) -> Any:
        return self if buffer is None else buffer._column(self._name)

    def __set__(self, buffer: object, value: object) -> None:
        name = self._name
        raise FieldNameError(f"buffer.{name} is not assigned to; set_array_at_key() and set_batch() write into it")
