"""Rows of a ``Ragged`` and of jagged tensors: whole sequences, which are taken and joined but never cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import (
    ARRAY,
    KINDS,
    TENSOR,
    Sequences,
    Tree,
    describe,
    leading_shape,
    new_sequences,
    new_tree,
)
from typedbatch._core.lengths import MOST_ROWS
from typedbatch._ops.combine import Missing, cat_trees
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.indexing import no_rows, take_basic
from typedbatch._ops.padding import RowNumbers
from typedbatch.errors import LeafError, RowIndexError, SizeError, StructureError, under

_MAKE_JAGGED = (
    "build nested tensors with layout=torch.jagged, without gaps and with the ragged dimension second, or use a Ragged"
)


def require_countable(sizes: NDArray[np.intp]) -> None:
    """Raise an error if the sum of lengths is more rows than an array can have, where numpy's sum would wrap around."""
    if int(sizes.max(initial=0)) * sizes.size > MOST_ROWS and (rows := sum(sizes.reshape(-1).tolist())) > MOST_ROWS:
        raise SizeError(f"lengths sum up to {rows} rows, and an array has {MOST_ROWS} at most")


def take_sequences(ragged: Sequences, index: Any) -> Any:
    """Return the sequences at an index as a new ``Ragged``; an int gives a single one, without a dimension for rows.

    Integers and slices without a step give views, everything else copies.

    Args:
        ragged: Sequences to index.
        index: An int, a slice, ``...``, or an array of row numbers or bools, in one dimension.
    """
    if not ragged.sizes.shape:
        raise RowIndexError(f"{describe(ragged)} is a single sequence, without rows to take; .values has its contents")
    if isinstance(index, tuple):
        parts = [part for part in index if part is not Ellipsis]
        if len(parts) > 1:
            raise RowIndexError(f"{describe(ragged)} takes one index, for whole sequences; .values has their contents")
        index = parts[0] if parts else Ellipsis
    if index is Ellipsis:
        return ragged
    count = len(ragged.sizes)
    if type(index) is int:
        if not -count <= index < count:
            raise IndexError(f"there are {count} sequences")
        row = index % count
        return _between(ragged, row, row + 1, ragged.sizes[row])
    if isinstance(index, slice):
        first, last, step = index.indices(count)
        if step == 1:
            return _between(ragged, first, max(first, last), ragged.sizes[first : max(first, last)])
        numbers = np.arange(count)[index]  # This also accepts a step that no integer of numpy can hold.
    else:
        numbers = _row_numbers(index, count)
    sizes = ragged.sizes[numbers]
    rows = gathered_rows(ragged.offsets[numbers], sizes)
    return new_sequences(type(ragged), RowNumbers(rows).of_tree(ragged.values), sizes)


def _row_numbers(index: Any, count: int) -> NDArray[np.intp]:
    if not isinstance(index, np.ndarray) or index.ndim != 1:
        got = describe(index) if hasattr(index, "shape") else repr(index)
        got += ", which adds a dimension" if index is None else ""
        raise RowIndexError(f"sequences are selected by row numbers or a mask in one dimension, got {got}")
    if index.dtype.kind == "b":
        if len(index) != count:
            raise IndexError(f"the mask is for {len(index)} rows, and there are {count} sequences")
        return np.flatnonzero(index)
    if index.dtype.kind not in "iu":
        raise RowIndexError(no_rows(index))
    rows: NDArray[np.intp] = np.arange(count)[index]
    return rows


def _between(ragged: Sequences, first: int, last: int, sizes: Any) -> Any:
    start, end = ragged.offsets[[first, last]].tolist()
    values = ragged.values  # A batch without fields has no rows to take.
    return new_sequences(type(ragged), take_basic(values, slice(start, end)) if values.__dict__ else values, sizes)


def gathered_rows(starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the row numbers of sequences that begin at ``starts`` and have lengths ``sizes``, end to end."""
    # Inside a sequence each number is 1 more than the one before; so the result is a cumulative sum of steps.
    there = sizes > 0
    starts, sizes = starts[there], sizes[there]
    steps: NDArray[np.intp] = np.ones(sizes.sum(), np.intp)
    if len(sizes):
        steps[0] = starts[0]
        steps[np.cumsum(sizes)[:-1]] = starts[1:] - starts[:-1] - sizes[:-1] + 1
    return np.cumsum(steps, out=steps)


def cat_sequences(parts: Sequence[Sequences], missing: Missing) -> Any:
    """Return the sequences of all parts, one after the other."""
    for part in parts:
        if not part.sizes.shape:
            raise StructureError(f"{describe(part)} is a single sequence, without rows to concatenate; stack joins it")
    return _joined(parts, [part.sizes for part in parts], missing)


def stack_sequences(parts: Sequence[Sequences], axis: int) -> Any:
    """Return single sequences, as rows of a batch hold them, as one ``Ragged``."""
    if axis != 0 or any(part.sizes.shape for part in parts):
        raise StructureError(
            f"{describe(parts[0])} cannot be stacked, as sequences have one dimension of rows; use cat"
        )
    return _joined(parts, [part.sizes[None] for part in parts], "error")


def _joined(parts: Sequence[Sequences], sizes: Sequence[NDArray[np.intp]], missing: Missing) -> Any:
    values = cat_trees([part.values for part in parts], missing, to_leaf)
    joined = np.concatenate(sizes)
    require_countable(joined)
    return new_sequences(type(parts[0]), values, joined)


def spread_sequences(rows: Sequences, there: NDArray[np.bool_]) -> Any:
    """Return a value with ``rows`` where ``there`` is true, and empty sequences elsewhere."""
    if len(rows.sizes) != there.sum():
        raise StructureError(
            f"its batches have {there.sum()} rows, got {describe(rows)}; only equal lengths can be filled"
        )
    sizes: NDArray[np.intp] = np.zeros(len(there), np.intp)
    sizes[there] = rows.sizes
    return new_sequences(type(rows), rows.values, sizes)


def take_jagged(tensor: Any, index: Any, refusal: RuntimeError) -> Any:
    """Return rows of a jagged tensor that torch has refused to index; slices are views.

    Args:
        tensor: Any tensor.
        index: Index of the rows: an int, a slice or an array.
        refusal: Error from torch; it is raised again for a tensor that is not nested.
    """
    if not tensor.is_nested:
        if tensor.layout is not sys.modules["torch"].strided:
            raise RowIndexError(f"{describe(tensor)} is sparse, so no rows can be taken; to_dense() first") from refusal
        raise refusal
    if not _is_plain(tensor):
        raise RowIndexError(f"{describe(tensor)} cannot be indexed by {index!r}; {_MAKE_JAGGED}") from refusal
    return _as_jagged(take_sequences(_as_sequences(tensor), index))


def cat_jagged(tensors: Sequence[Any]) -> Any:
    """Concatenate jagged tensors along their rows."""
    if not all(tensor.is_nested and _is_plain(tensor) for tensor in tensors):
        raise StructureError(f"{', '.join(map(describe, tensors))} cannot be joined; {_MAKE_JAGGED}")
    return _as_jagged(cat_sequences([_as_sequences(tensor) for tensor in tensors], "error"))


def values_of_jagged(tree: Tree) -> tuple[Any, NDArray[np.intp]]:
    """Return the values of jagged tensors in a batch of the same class, and the lengths of their sequences."""
    found: list[tuple[str, NDArray[np.intp]]] = []

    def values_of(name: str, leaf: Any) -> Any:
        with under(name):
            if isinstance(leaf, Tree):
                return new_tree(type(leaf), {inner: values_of(inner, value) for inner, value in leaf.__dict__.items()})
            if KINDS[type(leaf)] is not TENSOR or not leaf.is_nested or not _is_plain(leaf):
                raise LeafError(f"{describe(leaf)} is not a jagged tensor without gaps; {_MAKE_JAGGED}")
            values, sizes = _parts_of(leaf)
            if found and not np.array_equal(sizes, found[0][1]):
                raise StructureError(f"its sequences have other lengths than those of {found[0][0]!r}")
            found.append((name, sizes))
            return values

    tree_of_values = new_tree(type(tree), {name: values_of(name, leaf) for name, leaf in tree.__dict__.items()})
    if not found:
        raise StructureError("at least one jagged tensor is needed, as it has the lengths of the sequences")
    return tree_of_values, found[0][1]


def sum_sequences(values: Any, sizes: NDArray[np.intp]) -> Any:
    """Return the sums of the rows of each sequence of an array or a tensor."""
    kind = KINDS[type(values)]
    if kind not in (ARRAY, TENSOR) or (kind is ARRAY and values.dtype.kind not in "biufc"):
        raise LeafError(f"an array or a tensor of numbers is expected, got {describe(values)}")
    if leading_shape(values)[:1] != (int(sizes.sum()),):
        raise StructureError(f"{int(sizes.sum())} rows are expected, as the sequences have, got {describe(values)}")
    if kind is TENSOR:
        torch = sys.modules["torch"]
        is_whole = not (values.is_floating_point() or values.is_complex())
        dtype = torch.int64 if is_whole else torch.promote_types(values.dtype, torch.float32)
        # One sum over thousands of tokens loses digits in single precision; Apple's GPUs have no other.
        most = torch.float32 if values.device.type == "mps" else torch.float64
        wide = values.to(dtype if is_whole else torch.promote_types(dtype, most))
        numbers = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(values.device)
        return wide.new_zeros(len(sizes), *values.shape[1:]).index_add(0, numbers, wide).to(dtype)
    dtype = np.result_type(values, np.float32) if values.dtype.kind in "fc" else np.dtype(np.int64)
    wide = values.astype(np.result_type(dtype, np.float64) if dtype.kind in "fc" else dtype, copy=False)
    out = np.zeros((len(sizes), *values.shape[1:]), wide.dtype)
    there = sizes > 0
    if there.any():
        out[there] = np.add.reduceat(wide, (np.cumsum(sizes) - sizes)[there], axis=0)
    return out.astype(dtype, copy=False)


def _is_plain(tensor: Any) -> bool:
    torch = sys.modules["torch"]
    return tensor.layout is torch.jagged and tensor.lengths() is None and tensor._ragged_idx == 1  # noqa: SLF001


def _as_sequences(tensor: Any) -> Any:
    values, sizes = _parts_of(tensor)
    return new_sequences(Sequences, new_tree(Tree.__plain__, {"values": values}), sizes)


def _parts_of(tensor: Any) -> tuple[Any, NDArray[np.intp]]:
    """Return the values of a jagged tensor, which may be a part of a larger one, and the lengths of its sequences."""
    offsets = tensor.offsets().cpu().numpy()
    return tensor.values()[offsets[0] : offsets[-1]], np.diff(offsets)


def _as_jagged(ragged: Any) -> Any:
    torch, values = sys.modules["torch"], ragged.values.__dict__["values"]
    offsets = torch.from_numpy(ragged.offsets).to(values.device)
    return torch.nested.nested_tensor_from_jagged(values, offsets)
