"""Conversion of single leaves to the kind and dtype that a field declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from typedbatch._ops.casting import fitted
from typedbatch._ops.conversion import torch_side
from typedbatch._tree.kinds import ARRAY, KINDS, TENSOR, is_objects
from typedbatch.errors import RowAssignmentError
from typedbatch.schema.dims import Sort
from typedbatch.schema.dtypes import names_of
from typedbatch.schema.fields import Field, Option

_WIDEST: Final = ("int64", "uint64", "float64", "bool", "longdouble", "float32", "float16", "complex128")
"""Dtypes to try for a family of dtypes, such as all integers."""


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
    missing = [dim.size if dim.sort is Sort.FIXED else 0 for dim in option.shape.dims[leaf.ndim :]]
    return leaf.reshape([*leaf.shape, *missing])
