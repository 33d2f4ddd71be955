"""Masks as the records declare them: projects have them as int64, int32, float32 or bool."""

from __future__ import annotations

from typing import Any

from typedbatch._tree.leaves import KINDS, TENSOR, describe
from typedbatch.errors import LeafError, StructureError


def as_bools(mask: Any, name: str) -> Any:
    """A tensor of bools, on the same device; itself if it is one.

    Raises:
        LeafError: it is not a tensor.
        StructureError: it has other numbers than 0 and 1 in it.
    """
    if KINDS[type(mask)] is not TENSOR:
        raise LeafError(f"a mask is a tensor, got {describe(mask)}", name)
    flags = mask != 0
    if bool((flags != mask).any()):
        raise StructureError("a mask has numbers other than 0 and 1 in it; compare it first", name)
    return flags if mask.dtype != flags.dtype else mask
