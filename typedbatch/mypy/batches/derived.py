"""Values of fields in a batch that is made of another one: its rows, parts of it, the same in another library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from typedbatch._program.arrays import indexing
from typedbatch._program.arrays.values import UNKNOWN, Array, MismatchError, Value, item_of

Change = Callable[[Any], Any]


def same(value: Any) -> Any:
    """Return the value itself, as in a copy."""
    return value


def rows_of(value: Any, index: Value) -> Any:
    """Return the value in ``batch[index]``."""
    if not isinstance(value, Array):
        return value
    try:
        return indexing.take(value, index)
    except MismatchError:
        return unshaped(value)


def row_of(value: Any) -> Any:
    """Return the value in one row of a loop over a batch."""
    return item_of(value) if isinstance(value, Array) else value


def part_of(value: Any) -> Any:
    """Return the value in some rows, of which the number is not known."""
    if not isinstance(value, Array) or not value.axes:
        return value
    return value.shaped((UNKNOWN, *value.axes[1:]))


def unshaped(value: Any) -> Any:
    """Return a value whose shape may be another one."""
    return value.shaped(None) if isinstance(value, Array) else value


def anything(value: Any) -> Any:
    """Return a value whose shape and dtype may be others."""
    return Array(None, None, value.torch) if isinstance(value, Array) else value


def in_torch(value: Any) -> Any:
    """Return a value as a tensor, whose dtype may be another one."""
    return replace(value, torch=True, dtypes=None) if isinstance(value, Array) else value


def in_numpy(value: Any) -> Any:
    """Return a value as an array of numpy, whose dtype may be another one."""
    return replace(value, torch=False, dtypes=None) if isinstance(value, Array) else value


def retyped(value: Any) -> Any:
    """Return a value whose dtype may be another one."""
    return value.typed(None) if isinstance(value, Array) else value
