"""Widening: the dtype that holds the values of two steps unchanged, if there is one."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

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
    if before.dtype == value.dtype:
        return before.dtype
    made = _of_tensors(before, value) if KINDS[type(before)] is TENSOR else _of_arrays(before, value)
    if made is None:
        raise LeafError(
            f"expected {short_dtype(before)} as in the steps before, got {describe(value)}, and no dtype holds the "
            "values of both unchanged; use the same dtype in every step"
        )
    return made


def _of_arrays(before: NDArray[Any], value: NDArray[Any]) -> Any:
    if before.dtype == object:
        return before.dtype
    kinds = before.dtype.kind + value.dtype.kind
    if not (set(kinds) <= set(_NUMBERS) or kinds in ("mm", "MM")):
        return None
    made = np.result_type(before.dtype, value.dtype)
    return made if _is_preserved(before, made) and _is_preserved(value, made) else None


def _is_preserved(values: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether each value is unchanged in a dtype that numpy widens to."""
    if values.dtype.kind in "iu" and dtype.kind in "fc":  # numpy widens int64 to float64, which has 53 bits
        limit = 2 ** (np.finfo(dtype).nmant + 1)
        return not values.size or (int(values.max()) <= limit and int(values.min()) >= -limit)
    if values.dtype.kind in "mM":
        try:
            return bool(values.astype(dtype).astype(values.dtype).tobytes() == values.tobytes())
        except OverflowError:  # raised since numpy 2.5; before that, dates wrapped around
            return False
    return True


def _of_tensors(before: Any, value: Any) -> Any:
    torch = sys.modules["torch"]
    usual = torch.promote_types(before.dtype, value.dtype)
    wide = torch.complex128 if usual.is_complex else torch.float64
    for dtype in (usual, wide):
        if _is_tensor_preserved(before, dtype) and _is_tensor_preserved(value, dtype):
            return dtype
    return None


def _is_tensor_preserved(values: Any, dtype: Any) -> bool:
    """Return whether each number is unchanged in a dtype that torch widens to, which for integers may be float16."""
    torch = sys.modules["torch"]
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool or not values.numel():
        return True
    if not (dtype.is_floating_point or dtype.is_complex):
        return True
    limit = round(2 / torch.finfo(dtype).eps)
    return bool(values.max().item() <= limit and values.min().item() >= -limit)


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
