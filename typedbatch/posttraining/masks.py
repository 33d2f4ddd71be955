"""Masks as the records declare them: projects have them as int64, int32, float32 or bool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR, describe
from typedbatch.errors import LeafError, MissingFieldError, StructureError, under
from typedbatch.sequences import as_flags


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


def flags_of(tree: Any, name: str) -> NDArray[np.bool_]:
    """A mask of a batch as an array of bools, ``(N, T)``.

    Raises:
        MissingFieldError: there is no such field.
        StructureError: it is no array or tensor of that shape, or has other numbers than 0 and 1 in it.
    """
    if name not in tree.__dict__:
        raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    mask = tree.__dict__[name]
    if KINDS[type(mask)] not in (ARRAY, TENSOR):
        raise StructureError(f"a mask is an array or a tensor, got {describe(mask)}", name)
    with under(name):
        return as_flags(mask)


def require_samples(mask: NDArray[np.bool_], samples: int, name: str) -> None:
    """Raise an error unless a mask has a row for each sample.

    Raises:
        StructureError: it has more, or fewer.
    """
    if len(mask) != samples:
        raise StructureError(f"it has {len(mask)} rows, and there are {samples} samples", name)


def require_unbroken(there: NDArray[np.bool_], name: str, *, from_start: bool = False) -> None:
    """Raise an error if a mask that says which tokens are there has a gap: it may be meant for the loss.

    Args:
        there: ``(N, T)``.
        name: its name.
        from_start: the first token of each row is at the left edge.

    Raises:
        StructureError: a row has no token at a place, and one further on after others, or after the left edge.
    """
    edge = np.full((len(there), 1), from_start)
    flags = np.concatenate([edge, there], 1)
    begins = flags[:, 1:] & ~flags[:, :-1]
    broken = flags[:, 0] + begins.sum(1) > 1
    if broken.any():
        row = int(broken.argmax())
        last = int(np.flatnonzero(begins[row])[-1])
        beside = "next to each other from position 0 on" if from_start else "next to each other"
        raise StructureError(
            f"row {row} has no token at position {last - 1}, and one at {last}. This mask says which tokens are there, "
            f"and they stand {beside}; a token that is there and does not count, as one of a tool, is True in it and "
            "False in loss_mask",
            name,
        )


def require_within(there: NDArray[np.bool_], fields: Mapping[str, Any], name: str) -> None:
    """Raise an error if a mask of the response or of the loss has a token where there is none: it would be lost.

    Args:
        there: ``(N, T)``, where there are tokens.
        fields: fields of that shape, with those masks among them.
        name: what ``there`` is called.

    Raises:
        StructureError: one has.
    """
    for mask in ("response_mask", "loss_mask"):
        if KINDS[type(fields.get(mask))] in (ARRAY, TENSOR):
            lost = (np.asarray(leaf_to_numpy(fields[mask])) != 0) & ~there
            if lost.any():
                row, place = np.argwhere(lost)[0].tolist()
                raise StructureError(f"row {row} is true at position {place}, where {name} has no token", mask)
