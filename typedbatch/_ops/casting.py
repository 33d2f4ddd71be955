"""Conversion of values to the kind and dtype of a leaf or a declared field, refused where it would change them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, describe, is_masked, is_objects, mask_obstacle
from typedbatch._ops.conversion import leaf_to_numpy, torch_side
from typedbatch.errors import RowAssignmentError

if TYPE_CHECKING:
    from typedbatch.schema.fields import Field, Option

_NUMBERS = "biufc"
_WIDEST: Final = ("int64", "uint64", "float64", "bool", "longdouble", "float32", "float16", "complex128")
"""Dtypes to try for a family of dtypes, such as all integers."""


def fitted(target: Any, value: Any) -> Any:
    """Return ``value`` as an array or tensor of the kind, the dtype and the device of ``target``."""
    if KINDS[type(target)] is not TENSOR:
        return _fitted_array(target, value)
    if KINDS[type(value)] is not TENSOR:
        stand_in = leaf_to_numpy(target.new_zeros(()))  # In numpy, bfloat16 and float8 are float32.
        value = sys.modules["torch"].from_numpy(_fitted_array(stand_in, value).copy())
        if torch_side().in_numpy(target):
            return value.to(target.device, target.dtype)
    given = value.dtype
    if (
        given is target.dtype
        and value.device == target.device
        and value.layout is target.layout
        and not value.is_nested
    ):
        return value
    if value.is_complex() and not target.is_complex():
        if value.imag.any():
            raise _lossy(given, target.dtype)
        value = value.real
    if value.layout is not target.layout or value.is_nested:
        raise RowAssignmentError(f"{describe(target)} cannot hold {describe(value)}; to_dense() first")
    if value.dtype != target.dtype and not _holds(target.dtype, value):
        raise _lossy(given, target.dtype)
    return value.to(target.device, target.dtype)


def require_no_mask(value: Any) -> None:
    """Raise an error if anything in a value is masked, since a plain column would store it as data."""
    if obstacle := mask_obstacle(value):
        raise RowAssignmentError(obstacle)


def _fitted_array(target: NDArray[Any], value: Any) -> NDArray[Any]:
    if type(value) is ndarray and value.dtype is target.dtype:
        return value
    if not is_masked(target):
        require_no_mask(value)
    elif isinstance(value, np.ma.MaskedArray):
        data = _fitted_array(np.ma.getdata(target), value.filled(np.zeros(1, value.dtype)[0]))
        return np.ma.array(data, mask=np.ma.getmaskarray(value))
    if target.dtype.kind == "T":
        # The null of a StringDType stays a null.
        dtype: Any = target.dtype
        null = getattr(dtype, "na_object", "")
        rows: NDArray[Any] = np.asarray(value, object)
        if not all(isinstance(text, str) or text is null for text in rows.ravel().tolist()):
            raise RowAssignmentError(f"{describe(target)} cannot hold {describe(value)}")
        return rows.astype(dtype)
    rows = np.asarray(leaf_to_numpy(value))
    if rows.dtype.kind not in "biufcmMV":
        raise RowAssignmentError(f"{describe(target)} cannot hold {describe(value)}")
    return _cast(rows, target.dtype)


def _cast(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return ``rows`` in ``dtype``; raise an error if that would change a value beyond rounding, as 2.7 to 2."""
    given = rows.dtype
    if given is dtype or _widens(given, dtype):
        return rows
    numbers = given.kind in _NUMBERS and dtype.kind in _NUMBERS
    counted = given.kind in "iu" and dtype.kind == "m"  # Integers count the unit of the column.
    if given.kind != dtype.kind and not numbers and not counted:
        raise RowAssignmentError(f"{dtype} cannot hold {given} values; convert them first")
    if given.kind == "c" and dtype.kind != "c":
        if np.imag(rows).any():
            raise _lossy(given, dtype)
        rows = np.real(rows)
    try:
        with np.errstate(all="ignore"):
            cast: NDArray[Any] = rows.astype(dtype)
        if cast.dtype.kind not in _NUMBERS:  # Dates and structures have to survive the way back.
            kept = cast.astype(given).tobytes() == rows.tobytes() and (
                given.kind not in _NUMBERS or bool((cast.astype(np.int64) == rows).all() and not np.isnat(cast).any())
            )
        elif cast.dtype.kind in "fc":  # Rounding is fine, but a number that is too large becomes infinite.
            kept = bool((np.isfinite(cast) == np.isfinite(rows)).all())
        else:
            kept = bool((cast == rows).all())
            # Beyond the largest integer the result of a cast from floats is undefined.
            if rows.dtype.kind == "f" and cast.dtype.kind in "iu":
                kept = kept and bool((rows < np.float64(2.0 ** (8 * cast.itemsize - (cast.dtype.kind == "i")))).all())
        if kept:
            return cast
    except (TypeError, ValueError, OverflowError):  # Structured dtypes do not match, or dates have no unit.
        pass
    raise _lossy(given, dtype)


@lru_cache(maxsize=1024)
def _widens(given: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether ``dtype`` can hold every number of the dtype ``given``.

    Other dtypes have to be equal: dates, for one, overflow in finer units.
    """
    if given.kind not in _NUMBERS or dtype.kind not in _NUMBERS:
        return given == dtype
    return np.can_cast(given, dtype, "safe")


def _lossy(given: Any, dtype: Any) -> RowAssignmentError:
    return RowAssignmentError(f"{dtype} cannot hold these {given} values unchanged; convert the field first")


def _holds(dtype: Any, value: Any) -> bool:
    torch = sys.modules["torch"]
    if dtype.is_floating_point or dtype.is_complex:
        # Finite results are not enough: a float8 without infinities turns all larger numbers into its largest.
        given, cast = (torch.view_as_real(t.resolve_conj().to(torch.complex128)) for t in (value, value.to(dtype)))
        limits = torch.finfo(dtype)
        near = (cast - given).abs() <= limits.eps * given.abs() + limits.tiny
        return bool(((near & given.isfinite()) | (cast == given) | (cast.isnan() & given.isnan())).all())
    cast = value.to(dtype)
    return bool(torch.equal(cast.to(value.dtype), value)) and bool(((cast < 0) == (value < 0)).all())


def as_declared(leaf: Any, field: Field) -> Any:
    """Return an array or tensor in a kind and dtype that the field takes; unchanged if none holds its values.

    One without elements gets the declared dimensions that lists cannot show.
    """
    options = [option for option in field.options if option.kind in (ARRAY, TENSOR)]
    if KINDS[type(leaf)] not in (ARRAY, TENSOR) or is_objects(leaf):
        return leaf
    for option in options:
        if option.kind is KINDS[type(leaf)] and (option.dtypes is None or option.dtypes[leaf.dtype]):
            return _with_dims(leaf, option)
    for option in options:
        for target in _targets(option, leaf):
            try:
                made = fitted(target, leaf)  # numpy's own casts, to wider dtypes, are left to the caller
                return _with_dims(made.astype(target.dtype) if option.kind is ARRAY else made, option)
            except RowAssignmentError:  # Another dtype may hold the values.
                continue
    return leaf


def _targets(option: Option, leaf: Any) -> Iterator[Any]:
    """Yield an empty leaf of each dtype that the option takes, first that of the leaf."""
    from typedbatch.schema.dtypes import names_of  # the schema is a layer above this module

    declared = () if option.dtypes is None else (option.dtypes.words,)
    for name in (*names_of(leaf.dtype), *declared, *_WIDEST):
        if option.kind is TENSOR:
            dtype: Any = getattr(torch_side().torch, name, None)
        else:
            dtype = np.dtype(name) if name in np.sctypeDict else None
        if dtype is not None and (option.dtypes is None or option.dtypes[dtype]):
            yield torch_side().torch.zeros(0, dtype=dtype) if option.kind is TENSOR else np.zeros(0, dtype)


def _with_dims(leaf: Any, option: Option) -> Any:
    if option.shape.variadic is not None or 0 not in leaf.shape:
        return leaf
    from typedbatch.schema.dims import Sort

    missing = [dim.size if dim.sort is Sort.FIXED else 0 for dim in option.shape.dims[leaf.ndim :]]
    return leaf.reshape([*leaf.shape, *missing])
