"""Widening: the dtype that holds the values of two steps unchanged, if there is one."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy import ndarray

from typedbatch._tree.kinds import KINDS, TENSOR, describe, mask_obstacle, short_dtype
from typedbatch.errors import LeafError, StructureError

_NUMBERS = "biufc"


def common_dtype(before: Any, value: Any) -> Any:
    """Return the dtype for earlier values and a new one, both arrays or both tensors.

    A column of objects takes any array unchanged.

    Raises:
        LeafError: no dtype holds them all unchanged, as none does for ``2**53 + 1`` beside ``0.5``, or for dates beside
            numbers.
    """
    if before.dtype in (value.dtype, object):
        return before.dtype
    candidates: list[Any] = []
    if KINDS[type(before)] is TENSOR:
        torch = sys.modules["torch"]
        usual = torch.promote_types(before.dtype, value.dtype)
        candidates = [usual, torch.complex128 if usual.is_complex else torch.float64]
    elif set(kinds := before.dtype.kind + value.dtype.kind) <= set(_NUMBERS) or kinds in ("mm", "MM"):
        candidates = [np.result_type(before.dtype, value.dtype)]
    for dtype in candidates:
        if _is_preserved(before, dtype) and _is_preserved(value, dtype):
            return dtype
    raise LeafError(
        f"expected {short_dtype(before)} as in the steps before, got {describe(value)}, and no dtype holds the "
        "values of both unchanged; use the same dtype in every step"
    )


def _is_preserved(values: Any, dtype: Any) -> bool:
    """Return whether each value is unchanged in a dtype that numpy or torch widens to."""
    if KINDS[type(values)] is TENSOR:
        torch = sys.modules["torch"]
        is_whole = not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)
        if not is_whole or not (dtype.is_floating_point or dtype.is_complex) or not values.numel():
            return True
        limit = round(2 / torch.finfo(dtype).eps)  # torch widens integers to floats as small as float16
        return bool(values.max().item() <= limit and values.min().item() >= -limit)
    if values.dtype.kind in "iu" and dtype.kind in "fc":  # numpy widens int64 to float64, which has 53 bits
        limit = 2 ** (np.finfo(dtype).nmant + 1)
        return not values.size or (int(values.max()) <= limit and int(values.min()) >= -limit)
    if values.dtype.kind in "mM":
        try:
            return bool(values.astype(dtype).astype(values.dtype).tobytes() == values.tobytes())
        except OverflowError:  # raised since numpy 2.5; before that, dates wrapped around
            return False
    return True


def require_same_shape(shape: tuple[int, ...], value: Any) -> None:
    """Raise an error unless the values of a step have the shape of those before, and no mask that would be lost.

    Raises:
        StructureError: the shape differs.
        LeafError: some values are masked.
    """
    if tuple(value.shape) != shape:
        raise StructureError(f"expected shape {list(shape)} as in the steps before, got {describe(value)}")
    if type(value) is not ndarray and (obstacle := mask_obstacle(value)):
        raise LeafError(obstacle)
