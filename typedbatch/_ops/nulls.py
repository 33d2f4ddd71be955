"""Nulls in leaves (``None``, NaN, NaT and masked values), and emptied or reserved fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Tree, blank, is_masked, is_placeholder, kind_of, mask_of
from typedbatch._core.lengths import equal_rows, leaves
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy, map_leaves
from typedbatch._ops.indexing import take

if TYPE_CHECKING:
    from typedbatch.batch import Batch

T = TypeVar("T", bound=Tree)


def is_null(leaf: Any) -> Any:
    """Return True for each element that is ``None``, NaN, NaT or masked, as an array, or a tensor for a tensor."""
    if is_masked(leaf):
        return is_null(np.ma.getdata(leaf)) | mask_of(leaf)
    kind = KINDS[type(leaf)]
    if kind is kinds.TENSOR:
        return leaf.isnan()
    if kind not in (kinds.ARRAY, kinds.SCALAR):
        return np.array(_is_null(leaf))
    array = np.asarray(leaf)
    if array.dtype.kind in "fc":
        return np.isnan(array)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind != "O" and not hasattr(array.dtype, "na_object"):
        return np.zeros(array.shape, bool)
    return np.array([_is_null(x) for x in array.ravel().tolist()], bool).reshape(array.shape)


def _is_null(x: Any) -> bool:
    """Return True for ``None``, a number or date that differs from itself, and pandas' ``NA`` and ``NaT``."""
    cls = type(x)
    if x is None or cls is str or x is np.ma.masked:
        return cls is not str
    try:
        return bool(x != x) if KINDS[cls] in (kinds.NUMBER, kinds.SCALAR) else cls.__name__ in ("NAType", "NaTType")
    except ArithmeticError:  # A signaling NaN of decimal raises this.
        return True


def has_null(tree: Tree) -> bool:
    """Return True if any value of any leaf is null."""
    return any(
        has_null(leaf.values) if KINDS[type(leaf)] is kinds.RAGGED else is_null(leaf).any()
        for _, leaf in leaves(tree.__dict__)
        if not is_placeholder(leaf)
    )


def drop_null(tree: T) -> T:
    """Return the rows without a null; shapes, kinds and dtypes stay the same.

    An object array of numbers beside ``None`` becomes a numeric array when the ``None`` are gone.
    """
    keep = complete_rows(tree)
    return map_leaves(take(tree, keep), _as_numbers) if not keep.all() else take(tree, keep)


def complete_rows(tree: Tree) -> NDArray[np.bool_]:
    """Return an array of bools that is True for each row without a null."""
    complete = np.ones(equal_rows(tree.__dict__), bool)
    for _, leaf in leaves(tree.__dict__):
        if KINDS[type(leaf)] in (kinds.ARRAY, kinds.TENSOR):
            nulls = leaf_to_numpy(is_null(leaf))
            complete &= ~nulls.any(axis=tuple(range(1, nulls.ndim)))
        elif KINDS[type(leaf)] is kinds.RAGGED:
            complete[np.repeat(np.arange(len(leaf.sizes)), leaf.sizes)[~complete_rows(leaf.values)]] = False
    return complete


def _as_numbers(leaf: Any) -> Any:
    if KINDS[type(leaf)] is not kinds.ARRAY or not leaf.dtype.hasobject or not leaf.size:
        return leaf
    numbers: NDArray[Any] = to_leaf(leaf.tolist())
    numeric = KINDS[type(numbers)] is kinds.ARRAY and numbers.dtype.kind in "biufc" and numbers.shape == leaf.shape
    return numbers if numeric else leaf


def emptied(leaf: Any) -> Any:
    """Return zeros like ``leaf``; ``None`` for objects and distributions, and for each element of an object array."""
    kind = KINDS[type(leaf)]
    if kind is kinds.SCALAR:
        return type(leaf)(0) if leaf.dtype.kind in "biufc" else None
    return blank(leaf, tuple(leaf.shape)) if kind in (kinds.ARRAY, kinds.TENSOR) else None


def emptied_or_writable(leaf: Any) -> Any:
    """Return a tensor, or an array that can be written to, unchanged, and zeros as :func:`emptied` for others."""
    kind = KINDS[type(leaf)]
    return leaf if kind is kinds.TENSOR or (kind is kinds.ARRAY and leaf.flags.writeable) else emptied(leaf)


def empty_in_place(leaf: Any) -> Any:
    """Write zeros into the memory of a tensor, or an array that can be written to, and return the leaf."""
    if KINDS[type(leaf)] is kinds.TENSOR:
        leaf.detach().zero_()
    elif KINDS[type(leaf)] is kinds.ARRAY and leaf.flags.writeable:
        leaf[...] = None if leaf.dtype == object else np.zeros((), leaf.dtype)
    return leaf


def reserved_to_none(tree: Tree) -> None:
    """Replace every reserved field (``Batch()``) by ``None``, at every depth, in place."""
    for name, value in tree.__dict__.items():
        if is_placeholder(value):
            tree.__dict__[name] = None
        elif kind_of(value) is kinds.BATCH:
            reserved_to_none(value)


def is_empty(tree: Tree, recurse: bool) -> bool:
    """Return whether a batch has no fields; with ``recurse``, none but Batches that are empty in the same sense."""
    if not recurse:
        return not tree.__dict__
    return all(kind_of(value) is kinds.BATCH and is_empty(value, True) for value in tree.__dict__.values())


class WithNulls(Tree):
    """The methods of a Batch about nulls."""

    def isnull(self) -> Batch:
        """Return a Batch of arrays and tensors of bools that are true where a value is ``None``, NaN, NaT or masked."""
        found: Any = map_leaves(self, is_null)
        batch: Batch = found
        return batch

    def hasnull(self) -> bool:
        """Return True if any value is ``None``, NaN, NaT or masked."""
        return has_null(self)

    def dropnull(self: T) -> T:
        """Return the rows in which no field has a null; every field keeps its other dimensions.

        An object array of numbers beside ``None`` becomes numeric.

        Raises:
            StructureError: The fields have different lengths.
            NoLengthError: A field is a scalar.
        """
        return drop_null(self)

    def replace_empty_batches_by_none(self) -> None:
        """Replace reserved fields (``Batch()``) by ``None``, at every depth, in place."""
        reserved_to_none(self)
