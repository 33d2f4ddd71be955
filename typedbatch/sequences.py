"""Sequences of different lengths, end to end in one batch, and their conversion to the inputs of networks.

The basic form is flat: rows ``(N, ...)`` and the ``lengths`` of the sequences, which sum to N. Other forms are

* :func:`pad` and :func:`unpad`: ``(E, T, ...)`` with zeros, and a :func:`mask`;
* :func:`pack`: time first, for ``torch.nn.utils.rnn.PackedSequence``;
* :func:`cu_seqlens` and :func:`position_ids`: flat, for attention kernels for variable lengths.

Every function works on all fields at once, arrays and tensors, and preserves the class of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from typedbatch._core.kinds import KINDS, TENSOR, Tree, mask_obstacle
from typedbatch._core.lengths import MOST_ROWS, require_at_least, require_at_most, require_tree, rows_to_take
from typedbatch._ops.combine import cat_trees
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy, torch_side
from typedbatch._ops.indexing import take, take_basic
from typedbatch._ops.joined_meta import MetaRule
from typedbatch._ops.padding import NO_ROW, fill_absent, take_or_zeros
from typedbatch._ops.ragged_rows import require_countable
from typedbatch.errors import SizeError, StructureError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.utils.rnn import PackedSequence

    from typedbatch.protocols import BatchProtocol

__all__ = [
    "Lengths", "Packed", "Padding", "Side", "chop", "cu_seqlens", "cut", "mask", "pack", "pad", "position_ids",
    "sequence_ids", "starts", "unpad",
]  # fmt: skip

B = TypeVar("B", bound="BatchProtocol")
Lengths: TypeAlias = "ArrayLike | Tensor"
"""Number of rows of each sequence, as whole numbers from 0 up, in a list, an array or a tensor."""
Side = Literal["right", "left"]
"""Side of the padding."""
Padding: TypeAlias = float | Mapping[str, float]
"""Number in the padding, or numbers by the names of fields."""


def as_lengths(lengths: Lengths) -> NDArray[np.intp]:
    """Return lengths as an array of integers.

    Raises:
        SizeError: The lengths are not whole numbers from 0 up, in one dimension, or sum up to more than an array can
            have.
    """
    sizes = whole_numbers(lengths, "lengths")
    require_countable(sizes)
    return sizes


def whole_numbers(values: Lengths, name: str) -> NDArray[np.intp]:
    """Return whole numbers as an array of integers; ``name`` is their name in an error.

    Raises:
        SizeError: The values are not whole numbers from 0 up, in one dimension, that fit into such an array.
    """
    if obstacle := mask_obstacle(values):
        raise SizeError(f"{name} must be whole numbers, but {obstacle}")
    try:
        array = np.asarray(leaf_to_numpy(values))
    except (TypeError, ValueError):  # The lists in it differ in length.
        array = np.asarray(None)
    if array.dtype.kind == "f" and not array.size:  # An empty list becomes an array of floats.
        array = array.astype(np.intp)
    if array.ndim == 1 and array.dtype.kind in "iu":
        whole = array.astype(np.intp)
        if array.size == np.count_nonzero(whole >= 0):
            return whole
    raise SizeError(f"{name} are whole numbers from 0 up, in one dimension, below 2**63, got {values!r}")


@overload
def starts(lengths: Tensor) -> Tensor: ...
@overload
def starts(lengths: ArrayLike) -> NDArray[np.intp]: ...
def starts(lengths: Any) -> Any:
    """Return the number of the first row of each sequence: an array, or for a tensor of lengths a tensor."""
    sizes = as_lengths(lengths)
    return _in_kind_of(lengths, np.cumsum(sizes) - sizes)


@overload
def cu_seqlens(lengths: Tensor) -> Tensor: ...
@overload
def cu_seqlens(lengths: ArrayLike) -> NDArray[np.int32]: ...
def cu_seqlens(lengths: Any) -> Any:
    """Return ``[0, l0, l0 + l1, ...]``, for attention kernels for variable lengths, as FlashAttention's ``varlen``.

    It is int32: an array, or for a tensor of lengths a tensor on its device.

    Raises:
        SizeError: There are more rows than fit into 32 bits.
    """
    ends = np.cumsum(as_lengths(lengths))
    if ends[-1:].sum() > np.iinfo(np.int32).max:
        raise SizeError(f"attention kernels count up to {np.iinfo(np.int32).max} rows (32 bits), got {ends[-1]} rows")
    return _in_kind_of(lengths, np.concatenate([[0], ends]).astype(np.int32))


@overload
def position_ids(lengths: Tensor) -> Tensor: ...
@overload
def position_ids(lengths: ArrayLike) -> NDArray[np.intp]: ...
def position_ids(lengths: Any) -> Any:
    """Return the position of each row in its sequence, from 0: an array, or for a tensor of lengths a tensor."""
    sizes = as_lengths(lengths)
    return _in_kind_of(lengths, np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes))


@overload
def sequence_ids(lengths: Tensor) -> Tensor: ...
@overload
def sequence_ids(lengths: ArrayLike) -> NDArray[np.intp]: ...
def sequence_ids(lengths: Any) -> Any:
    """Return the number of the sequence of each row: an array, or for a tensor of lengths a tensor."""
    sizes = as_lengths(lengths)
    return _in_kind_of(lengths, np.repeat(np.arange(len(sizes)), sizes))


def _in_kind_of(lengths: Any, array: NDArray[Any]) -> Any:
    """Return an array, or if the lengths are a tensor, a tensor on its device."""
    is_tensor = KINDS[type(lengths)] is TENSOR
    return torch_side().to_tensor(array).to(lengths.device) if is_tensor else array


def chop(lengths: Lengths, size: int) -> NDArray[np.intp]:
    """Return the lengths of the sequences after cutting those that are longer than ``size`` rows.

    Raises:
        SizeError: ``size`` is below 1.
    """
    sizes = as_lengths(lengths)
    size = min(require_at_least(1, size, "size"), int(sizes.max(initial=1)))
    pieces = -(-sizes // size)
    chopped = np.full(pieces.sum(), size, np.intp)
    there = pieces > 0
    chopped[np.cumsum(pieces)[there] - 1] = sizes[there] - (pieces[there] - 1) * size
    return chopped


@overload
def mask(lengths: Tensor, length: int | None = None, side: Side = "right", *, multiple_of: int = 1) -> Tensor: ...
@overload
def mask(
    lengths: ArrayLike, length: int | None = None, side: Side = "right", *, multiple_of: int = 1
) -> NDArray[np.bool_]: ...
def mask(lengths: Any, length: int | None = None, side: Side = "right", *, multiple_of: int = 1) -> Any:
    """Return ``(E, T)`` bools that are true where a padded batch has a row, and false where it has zeros.

    They are an array, or for a tensor of lengths a tensor on its device.

    Args:
        lengths: Number of rows of each of E sequences.
        length: T before rounding; None for the length of the longest sequence.
        side: Side of the zeros.
        multiple_of: Number that T is rounded up to a multiple of.

    Raises:
        SizeError: A sequence is longer than ``length``, ``multiple_of`` is below 1, or T is more than an array can
            have for each of E sequences.
    """
    sizes = as_lengths(lengths)
    most = MOST_ROWS // max(len(sizes), 1)
    longest = int(sizes.max(initial=0))
    length = longest if length is None else require_at_least(0, length, "length")
    if length < longest:
        raise SizeError(f"a sequence has {longest} rows, so it cannot be padded to {length}; chop() makes shorter ones")
    multiple = require_at_most(most, require_at_least(1, multiple_of, "multiple_of"), "multiple_of")
    length = require_at_most(most, length + -length % multiple, "length")
    if side not in ("right", "left"):
        raise SizeError(f"side= must be 'right' or 'left', got {side!r}")
    there = np.arange(length) < sizes[:, None]
    return _in_kind_of(lengths, there if side == "right" else there[:, ::-1].copy())  # torch takes no negative strides


def cut(batch: B, lengths: Lengths) -> list[B]:
    """Return a list with one batch per sequence; they are views, not copies.

    Raises:
        StructureError: The lengths do not sum to the rows.
    """
    tree, sizes = _with_lengths(batch, lengths, "cut()")
    ends = np.cumsum(sizes).tolist()
    return [take_basic(tree, slice(end - size, end)) for size, end in zip(sizes.tolist(), ends, strict=True)]


@overload
def pad(
    batches: Sequence[B], lengths: None = None, *, length: int | None = None, side: Side = "right",
    value: Padding = 0, multiple_of: int = 1, meta: MetaRule = "error",
) -> B: ...  # fmt: skip
@overload
def pad(
    batches: B, lengths: Lengths, *, length: int | None = None, side: Side = "right",
    value: Padding = 0, multiple_of: int = 1,
) -> B: ...  # fmt: skip
def pad(
    batches: Any, lengths: Any = None, *, length: int | None = None, side: Side = "right",
    value: Padding = 0, multiple_of: int = 1, meta: MetaRule = "error",
) -> Any:  # fmt: skip
    """Pad sequences with zeros (``None`` for objects) to one length: ``(E, T, ...)`` in every field.

    Args:
        batches: List of E batches, or one batch of all rows end to end.
        lengths: For the latter, the number of rows of each sequence.
        length: T before rounding; None for the length of the longest sequence.
        side: Side of the zeros.
        value: Number in place of zeros in all fields of numbers, or numbers by the names of fields, as
            ``{"ids": pad_token_id}``; a nested field is ``"obs.cam"``.
        multiple_of: Number that T is rounded up to a multiple of, for kernels that need or prefer it.
        meta: Treatment of a key of the meta in which batches of a list differ, as in :meth:`typedbatch.Batch.cat`.

    Returns:
        A new batch of the same class; data is copied. :func:`mask` returns where its rows are.

    Raises:
        SizeError: A sequence is longer than ``length``.
        StructureError: The lengths do not sum to the rows, batches do not fit together, or ``value`` names a field that
            does not exist.
        RowIndexError: A field cannot be filled with zeros, as a distribution.
        RowAssignmentError: The dtype of a field cannot hold ``value``.
    """
    if lengths is None:
        parts = [require_tree(batch, "pad()") for batch in batches]
        lengths = [rows_to_take(part) for part in parts]
        batches = cat_trees(parts, "error", to_leaf, meta)
    tree, sizes = _with_lengths(batches, lengths, "pad()")
    rows = padded_rows(sizes, length, side, multiple_of)
    padded = take_or_zeros(tree, rows)
    fill_absent(padded, rows < 0, value)
    return padded


def padded_rows(
    sizes: NDArray[np.intp], length: int | None, side: Side = "right", multiple_of: int = 1
) -> NDArray[np.intp]:
    """Return an ``(E, T)`` array of the numbers of the rows, with -1 where there are zeros."""
    there = mask(sizes, length, side, multiple_of=multiple_of)
    rows = np.full(there.shape, NO_ROW)
    rows[there] = np.arange(sizes.sum())
    return rows


def unpad(padded: B, mask: Any) -> B:
    """Return the rows where ``mask`` is true, end to end; the inverse of :func:`pad`. Data is copied.

    Args:
        padded: Padded sequences, ``(E, T, ...)`` in every field. A field with one value per sequence, ``(E,)``, has to
            be removed first.
        mask: ``(E, T)`` array or tensor of bools, or of the numbers 0 and 1, as most tokenizers return it. Rows may be
            anywhere, left, right or in between. ``mask.sum(1)`` are the lengths.

    Raises:
        StructureError: The mask does not have two dimensions, or has other numbers in it.
        RowIndexError: A field has other dimensions than the mask.
    """
    rows: B = take(require_tree(padded, "unpad()"), as_flags(mask))
    return rows


def as_flags(mask: Any) -> NDArray[np.bool_]:
    """Return a mask of padded sequences as an array of bools.

    Raises:
        StructureError: The mask is not ``(E, T)``, or has other numbers than 0 and 1 in it.
    """
    if obstacle := mask_obstacle(mask):
        raise StructureError(f"a mask of padded sequences must have a value at every position, but {obstacle}")
    flags = np.asarray(leaf_to_numpy(to_leaf(mask)))
    if flags.ndim != 2 or flags.dtype.kind not in "biuf":
        got = f"{flags.dtype}{list(flags.shape)}"
        raise StructureError(f"a mask of padded sequences must be (E, T) bools, or numbers 0 and 1, got {got}")
    bools: NDArray[np.bool_] = flags.astype(bool)
    if flags.dtype != bool and not np.array_equal(bools, flags):
        raise StructureError("a mask of padded sequences has numbers other than 0 and 1 in it; compare it first")
    return bools


class Packed(NamedTuple, Generic[B]):
    """Sequences ordered by time, and at each time by length with the longest first; the input of an RNN."""

    batch: B
    """Rows in that order."""
    batch_sizes: NDArray[np.int64]
    """Number of sequences at each time, ``(T,)``."""
    sorted_indices: NDArray[np.int64]
    """Numbers of the sequences, the longest first, ``(E,)``."""
    rows: NDArray[np.intp]
    """Original numbers of the rows, ``(N,)``."""

    def sequence(self, rows: Tensor) -> PackedSequence:
        """Return a tensor in this order, as a field of :attr:`batch`, as a ``PackedSequence`` on the same memory.

        Raises:
            StructureError: The tensor has another number of rows.
            MissingDependencyError: Torch is not installed.
        """
        if len(rows) != len(self.rows):
            raise StructureError(f"{len(self.rows)} rows were packed, got {len(rows)} rows")
        torch = torch_side().torch
        from torch.nn.utils.rnn import PackedSequence

        order = torch.from_numpy(self.sorted_indices).to(rows.device)
        return PackedSequence(rows, torch.from_numpy(self.batch_sizes), order, torch.argsort(order))

    def unpack(self, batch: B | None = None) -> B:
        """Return the rows of ``batch``, by default those packed, in the order that they had before :func:`pack`.

        Raises:
            StructureError: ``batch`` has another number of rows.
        """
        tree = require_tree(self.batch if batch is None else batch, "unpack()")
        if rows_to_take(tree) != len(self.rows):
            raise StructureError(f"{len(self.rows)} rows were packed, got {rows_to_take(tree)} rows")
        rows: B = take(tree, np.argsort(self.rows)) if tree.__dict__ else tree
        return rows


def pack(batch: B, lengths: Lengths) -> Packed[B]:
    """Reorder sequences for torch's RNNs, as in ``rnn(packed.sequence(packed.batch.obs))``. Data is copied.

    Args:
        batch: Rows of the sequences, end to end.
        lengths: Number of rows of each sequence; torch requires one or more.

    Raises:
        StructureError: The lengths do not sum to the rows.
        SizeError: A sequence has no rows.
    """
    tree, sizes = _with_lengths(batch, lengths, "pack()")
    if not sizes.all():
        raise SizeError(f"sequence {int(np.argmin(sizes))} has no rows, which torch cannot pack; leave it out")
    order = np.argsort(-sizes, kind="stable")
    there = np.arange(sizes.max(initial=0))[:, None] < sizes[order]
    rows = (starts(sizes)[order] + np.arange(len(there))[:, None])[there]
    return Packed(take(tree, rows) if tree.__dict__ else tree, there.sum(1), order.astype(np.int64), rows)


def _with_lengths(batch: Any, lengths: Lengths, who: str) -> tuple[Any, NDArray[np.intp]]:
    tree: Tree = require_tree(batch, who)
    sizes = as_lengths(lengths)
    if (rows := rows_to_take(tree)) != sizes.sum():
        raise StructureError(f"the lengths sum to {sizes.sum()}, but there are {rows} rows")
    return tree, sizes
