"""Sequences of different lengths, end to end in one batch, and the forms that networks take them in.

The plain form is flat: rows ``(N, ...)`` and the ``lengths`` of the sequences, which sum to N. From there

* :func:`pad` and :func:`unpad`: ``(E, T, ...)`` with zeros, beside a :func:`mask`;
* :func:`pack`: time first, as ``torch.nn.utils.rnn.PackedSequence`` takes it;
* :func:`cu_seqlens` and :func:`position_ids`: flat, as attention kernels for variable lengths take it.

Every function works on all fields at once, arrays and tensors, and keeps the class of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from typedbatch._ops.combine import cat_trees
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy, torch_side
from typedbatch._ops.indexing import take, take_basic
from typedbatch._ops.padding import NO_ROW, fill_absent, take_or_zeros
from typedbatch._ops.ragged import require_countable
from typedbatch._tree.leaves import Tree, mask_obstacle
from typedbatch._tree.rows import MOST_ROWS, at_least, at_most, equal_rows, require_tree
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
"""The rows of each sequence, as whole numbers from 0 up, in a list, an array or a tensor."""
Side = Literal["right", "left"]
"""Where the zeros go."""
Padding: TypeAlias = float | Mapping[str, float]
"""What goes there in place of zeros, a number, or one by the name of a field."""


def as_lengths(lengths: Lengths) -> NDArray[np.intp]:
    """Lengths as an array of integers.

    Raises:
        SizeError: they are not whole numbers from 0 up, in one dimension, or sum up to more than an array can have.
    """
    sizes = whole_numbers(lengths, "lengths")
    require_countable(sizes)
    return sizes


def whole_numbers(values: Lengths, name: str) -> NDArray[np.intp]:
    """Numbers of rows, or of what rows have, as an array of integers.

    Raises:
        SizeError: they are not whole numbers from 0 up, in one dimension, that fit into such an array.
    """
    if obstacle := mask_obstacle(values):
        raise SizeError(f"{name} are whole numbers, and {obstacle}")
    try:
        array = np.asarray(leaf_to_numpy(values))
    except (TypeError, ValueError):  # ragged
        array = np.asarray(None)
    if array.dtype.kind == "f" and not array.size:  # an empty list
        array = array.astype(np.intp)
    if array.ndim == 1 and array.dtype.kind in "iu":
        whole = array.astype(np.intp)
        if array.size == np.count_nonzero(whole >= 0):
            return whole
    raise SizeError(f"{name} are whole numbers from 0 up, in one dimension, below 2**63, got {values!r}")


def starts(lengths: Lengths) -> NDArray[np.intp]:
    """The number of the first row of each sequence."""
    sizes = as_lengths(lengths)
    return np.cumsum(sizes) - sizes


def cu_seqlens(lengths: Lengths) -> NDArray[np.int32]:
    """``[0, l0, l0 + l1, ...]``, as attention kernels for variable lengths take it (FlashAttention's ``varlen``).

    Raises:
        SizeError: there are more rows than 32 bits count.
    """
    ends = np.cumsum(as_lengths(lengths))
    if ends[-1:].sum() > np.iinfo(np.int32).max:
        raise SizeError(f"{ends[-1]} rows, more than the 32 bits of attention kernels count")
    return np.concatenate([[0], ends]).astype(np.int32)


def position_ids(lengths: Lengths) -> NDArray[np.intp]:
    """For each row its place in its sequence, from 0."""
    sizes = as_lengths(lengths)
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def sequence_ids(lengths: Lengths) -> NDArray[np.intp]:
    """For each row the number of its sequence."""
    sizes = as_lengths(lengths)
    return np.repeat(np.arange(len(sizes)), sizes)


def chop(lengths: Lengths, size: int) -> NDArray[np.intp]:
    """The lengths of the same rows cut into sequences of ``size`` rows at most; no sequence goes over an old end.

    Raises:
        SizeError: ``size`` is below 1.
    """
    sizes = as_lengths(lengths)
    size = min(at_least(1, size, "size"), int(sizes.max(initial=1)))
    pieces = -(-sizes // size)
    chopped = np.full(pieces.sum(), size, np.intp)
    there = pieces > 0
    chopped[np.cumsum(pieces)[there] - 1] = sizes[there] - (pieces[there] - 1) * size
    return chopped


def mask(
    lengths: Lengths, length: int | None = None, side: Side = "right", *, multiple_of: int = 1
) -> NDArray[np.bool_]:
    """``(E, T)``: true where a padded batch has a row, false where it has zeros.

    Args:
        lengths: the rows of each of E sequences.
        length: T; None for the longest.
        side: where the zeros are.
        multiple_of: T is made larger until it is a multiple of this.

    Raises:
        SizeError: a sequence is longer than ``length``, ``multiple_of`` is below 1, or T is more than an array can
            have for each of E sequences.
    """
    sizes = as_lengths(lengths)
    most = MOST_ROWS // max(len(sizes), 1)
    longest = int(sizes.max(initial=0))
    length = longest if length is None else at_least(0, length, "length")
    if length < longest:
        raise SizeError(f"a sequence has {longest} rows, so it cannot be padded to {length}; chop() makes shorter ones")
    multiple = at_most(most, at_least(1, multiple_of, "multiple_of"), "multiple_of")
    length = at_most(most, length + -length % multiple, "length")
    if side not in ("right", "left"):
        raise SizeError(f"side= is 'right' or 'left', got {side!r}")
    there = np.arange(length) < sizes[:, None]
    return there if side == "right" else there[:, ::-1].copy()  # torch takes nothing that steps backwards


def cut(batch: B, lengths: Lengths) -> list[B]:
    """One batch per sequence. Views, no copies.

    Raises:
        StructureError: the lengths do not sum to the rows.
    """
    tree, sizes = _with_lengths(batch, lengths, "cut()")
    ends = np.cumsum(sizes).tolist()
    return [take_basic(tree, slice(end - size, end)) for size, end in zip(sizes.tolist(), ends, strict=True)]


@overload
def pad(
    batches: Sequence[B],
    lengths: None = None,
    *,
    length: int | None = None,
    side: Side = "right",
    value: Padding = 0,
    multiple_of: int = 1,
) -> B: ...
@overload
def pad(
    batches: B,
    lengths: Lengths,
    *,
    length: int | None = None,
    side: Side = "right",
    value: Padding = 0,
    multiple_of: int = 1,
) -> B: ...
def pad(
    batches: Any,
    lengths: Any = None,
    *,
    length: int | None = None,
    side: Side = "right",
    value: Padding = 0,
    multiple_of: int = 1,
) -> Any:
    """Sequences side by side: ``(E, T, ...)`` in every field, zeros (``None`` for objects) where a sequence has ended.

    Args:
        batches: a list of E batches, or all rows end to end in one.
        lengths: for the latter, the rows of each sequence.
        length: T; None for the longest.
        side: where the zeros go.
        value: what stands there in place of zeros: a number for all fields of numbers, or by the names of fields, as
            ``{"ids": pad_token_id}``; a field inside another is ``"obs.cam"``.
        multiple_of: T is made larger until it is a multiple of this, as kernels like it.

    Returns:
        A new batch of the same class; data is copied. :func:`mask` says where the rows are.

    Raises:
        SizeError: a sequence is longer than ``length``.
        StructureError: the lengths do not sum to the rows, batches do not fit together, or ``value`` names a field that
            there is not.
        RowIndexError: a field that cannot be filled with zeros, as a distribution.
        RowAssignmentError: the dtype of a field cannot hold ``value``.
    """
    if lengths is None:
        parts = [require_rows(require_tree(batch, "pad()"), "pad()") for batch in batches]
        batches, lengths = cat_trees(parts, "error", to_leaf), [equal_rows(part.__dict__) for part in parts]
    tree, sizes = _with_lengths(batches, lengths, "pad()")
    rows = padded_rows(sizes, length, side, multiple_of)
    padded = take_or_zeros(tree, rows)
    fill_absent(padded, rows < 0, value)
    return padded


def padded_rows(
    sizes: NDArray[np.intp], length: int | None, side: Side = "right", multiple_of: int = 1
) -> NDArray[np.intp]:
    """``(E, T)``: the numbers of the rows, -1 where there are zeros."""
    there = mask(sizes, length, side, multiple_of=multiple_of)
    rows = np.full(there.shape, NO_ROW)
    rows[there] = np.arange(sizes.sum())
    return rows


def unpad(padded: B, mask: Any) -> B:
    """The rows where ``mask`` is true, end to end: what :func:`pad` was given. Data is copied.

    Args:
        padded: ``(E, T, ...)`` in every field; one with a value for each sequence, ``(E,)``, is left out first.
        mask: ``(E, T)``, an array or tensor of bools, or of the numbers 0 and 1, as most tokenizers give it; true
            anywhere, left, right or in between. ``mask.sum(1)`` are the lengths.

    Raises:
        StructureError: the mask is not one of two dimensions, or has other numbers in it.
        RowIndexError: a field has other dimensions than the mask.
    """
    rows: B = take(require_tree(padded, "unpad()"), as_flags(mask))
    return rows


def as_flags(mask: Any) -> NDArray[np.bool_]:
    """A mask of padded sequences as an array of bools.

    Raises:
        StructureError: it is not ``(E, T)``, or has other numbers than 0 and 1 in it.
    """
    if obstacle := mask_obstacle(mask):
        raise StructureError(f"a mask of padded sequences says of every place whether a row is there: {obstacle}")
    flags = np.asarray(leaf_to_numpy(to_leaf(mask)))
    if flags.ndim != 2 or flags.dtype.kind not in "biuf":
        got = f"{flags.dtype}{list(flags.shape)}"
        raise StructureError(f"a mask of padded sequences is (E, T) bools, or numbers 0 and 1, got {got}")
    whole: NDArray[np.bool_] = flags.astype(bool)
    if flags.dtype != bool and not np.array_equal(whole, flags):
        raise StructureError("a mask of padded sequences has numbers other than 0 and 1 in it; compare it first")
    return whole


class Packed(NamedTuple, Generic[B]):
    """Sequences with the time first, the longest sequence first at each time: what an RNN goes through in one pass."""

    batch: B
    """The rows in that order."""
    batch_sizes: NDArray[np.int64]
    """``(T,)``: how many sequences there are at each time."""
    sorted_indices: NDArray[np.int64]
    """``(E,)``: the numbers of the sequences, the longest first."""
    rows: NDArray[np.intp]
    """``(N,)``: the numbers that the rows had."""

    def sequence(self, rows: Tensor) -> PackedSequence:
        """A tensor in this order, as a field of :attr:`batch` is, as a ``PackedSequence``; its memory is shared.

        Raises:
            StructureError: it has another number of rows.
            MissingDependencyError: torch is not installed.
        """
        if len(rows) != len(self.rows):
            raise StructureError(f"{len(rows)} rows, where {len(self.rows)} were packed")
        torch = torch_side().torch
        from torch.nn.utils.rnn import PackedSequence

        order = torch.from_numpy(self.sorted_indices).to(rows.device)
        return PackedSequence(rows, torch.from_numpy(self.batch_sizes), order, torch.argsort(order))

    def unpack(self, batch: B | None = None) -> B:
        """The rows in the order in which :func:`pack` was given them; of another batch in this order, if one is given.

        Raises:
            StructureError: it has another number of rows.
        """
        tree = require_tree(self.batch if batch is None else batch, "unpack()")
        if equal_rows(tree.__dict__) != len(self.rows):
            raise StructureError(f"{equal_rows(tree.__dict__)} rows, where {len(self.rows)} were packed")
        rows: B = take(tree, np.argsort(self.rows)) if tree.__dict__ else tree
        return rows


def pack(batch: B, lengths: Lengths) -> Packed[B]:
    """Sequences end to end as torch's RNNs take them: ``rnn(packed.sequence(packed.batch.obs))``. Data is copied.

    Args:
        batch: the rows.
        lengths: the rows of each sequence, at least one each, as torch asks for.

    Raises:
        StructureError: the lengths do not sum to the rows.
        SizeError: a sequence has no rows.
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
    require_rows(tree, who)
    sizes = as_lengths(lengths)
    if equal_rows(tree.__dict__) != sizes.sum():
        raise StructureError(f"the lengths sum to {sizes.sum()}, but there are {equal_rows(tree.__dict__)} rows")
    return tree, sizes


def require_rows(tree: Any, who: str) -> Any:
    """The batch itself, if it is not cut into sequences already.

    Raises:
        StructureError: it is, by fields of its own.
    """
    if type(tree)._require_parts is not None and "seq_lens" in tree.__dict__:  # noqa: SLF001  # public names are fields
        raise StructureError(f"{who} cuts by lengths, and the batch has sequences of its own", "seq_lens")
    return tree
