"""Checks and conversion of masks, which other projects have as int64, int32, float32 or bool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.compiling import is_compiling
from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, describe
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.errors import LeafError, StructureError, under
from typedbatch.sequences import as_flags


def as_bools(mask: Any, name: str) -> Any:
    """Return a mask, a tensor with values 0 and 1 alone, as a tensor of bools on the same device."""
    if KINDS[type(mask)] is not TENSOR:
        raise LeafError(f"a mask must be a tensor, got {describe(mask)}", name)
    flags = mask != 0
    if mask.dtype == flags.dtype:
        return mask
    if not is_compiling() and bool((flags != mask).any()):  # torch.compile cannot look at values
        raise StructureError("a mask may only have values 0 and 1; make it a tensor of bools by a comparison", name)
    return flags


def flags_of(tree: Any, name: str) -> NDArray[np.bool_]:
    """Return the mask in the field ``name`` of a batch, an array or tensor of any dtype, as a numpy array of bools.

    Raise a StructureError if it is something else, or has other values than 0 and 1.
    """
    mask = tree[name]
    if KINDS[type(mask)] not in (ARRAY, TENSOR):
        raise StructureError(f"a mask must be an array or a tensor, got {describe(mask)}", name)
    with under(name):
        return as_flags(mask)


def require_samples(mask: NDArray[np.bool_], samples: int, name: str) -> None:
    """Raise a StructureError unless the mask has a row for each sample."""
    if len(mask) != samples:
        raise StructureError(f"it has {len(mask)} rows, but there are {samples} samples", name)


def require_unbroken(present: NDArray[np.bool_], name: str, *, from_start: bool = False) -> None:
    """Raise a StructureError if the mask of existing tokens has a gap, as a loss mask may have."""
    edge = np.full((len(present), 1), from_start)
    flags = np.concatenate([edge, present], 1)
    begins = flags[:, 1:] & ~flags[:, :-1]
    broken = flags[:, 0] + begins.sum(1) > 1
    if broken.any():
        row = int(broken.argmax())
        last = int(np.flatnonzero(begins[row])[-1])
        contiguous = "contiguous and begin at position 0" if from_start else "contiguous"
        raise StructureError(
            f"the tokens of a row must be {contiguous}, but row {row} has no token at position {last - 1} and one at "
            f"{last}. A token that exists but does not count, such as one of a tool, is True in this mask and False in "
            "loss_mask",
            name,
        )


def require_within(present: NDArray[np.bool_], fields: Mapping[str, Any], name: str) -> None:
    """Raise a StructureError if the mask of the response or the loss is True where ``present`` is False."""
    for mask in ("response_mask", "loss_mask"):
        if KINDS[type(fields.get(mask))] in (ARRAY, TENSOR):
            lost = (np.asarray(leaf_to_numpy(fields[mask])) != 0) & ~present
            if lost.any():
                row, position = np.argwhere(lost)[0].tolist()
                raise StructureError(f"row {row} is True at position {position}, where {name} has no token", mask)
