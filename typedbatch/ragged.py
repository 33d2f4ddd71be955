"""``Ragged``: a field whose rows are sequences of different lengths, end to end, of which none is ever cut.

``Ragged[Tokens]`` holds one batch of all tokens, and one length per sample. Rows of the batch that it is a field of
take whole sequences: by index, slice, mask, ``split`` and ``cat``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from typedbatch import sequences
from typedbatch._ops.combine import cat_trees, keeps_whole_numbers
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import torch_side
from typedbatch._ops.copying import deep
from typedbatch._ops.equality import same_leaf
from typedbatch._ops.indexing import plain_index
from typedbatch._ops.ragged import take_sequences
from typedbatch._tree.leaves import (
    ARRAY,
    KINDS,
    MAPPING,
    TENSOR,
    Sequences,
    Tree,
    describe,
    leading_shape,
    new_sequences,
    new_tree,
)
from typedbatch._tree.rows import leaves, require_rows, require_tree
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, NoLengthError, StructureError, under
from typedbatch.sequences import Lengths, Padding, Side

if TYPE_CHECKING:
    from types import EllipsisType

    from typedbatch._typing import TensorLike
    from typedbatch.protocols import BatchProtocol

    Rows = slice | EllipsisType | NDArray[Any] | TensorLike | Sequence[int] | Sequence[bool]

R_co = TypeVar("R_co", bound="BatchProtocol", covariant=True)
B = TypeVar("B", bound="BatchProtocol")


class Ragged(Sequences, Generic[R_co]):
    """Sequences of different lengths, end to end: tokens of samples, patches of images, turns of conversations.

    As a field of a batch it has one row for each sequence. ``batch[2:5]``, masks, ``split`` and ``cat`` take whole
    sequences; so does ``ragged[2:5]`` by itself. ``batch[i].tokens`` is a ``Ragged`` of one sequence, without a
    dimension for rows, as any other field of a row has lost it; ``stack`` makes rows of such ones again.
    ``ragged[i]`` and iteration give the sequences themselves, as batches of the class of ``values``.

    It shares ``values``; what is in it can be written to, but how many rows and sequences there are does not change.

    Args:
        values: a batch or record of all rows, ``(sum of lengths, ...)`` in every field; a dict becomes a Batch.
        lengths: the rows of each sequence: whole numbers from 0 up, in one dimension. They are copied.

    Raises:
        SizeError: lengths that are no such numbers, or sum up to more than an array can have.
        StructureError: a field of the values has another number of rows than the lengths sum up to, or none.
        LeafError: ``values`` is not a batch.

    Example:
        >>> tokens = Ragged({"ids": [5, 6, 7, 8, 9]}, [2, 3])
        >>> tokens
        Ragged[2 x 2..3](ids i64[5])
        >>> tokens[1].ids
        array([7, 8, 9])
        >>> tokens.padded(side="left").ids
        array([[0, 5, 6],
               [7, 8, 9]])
    """

    __slots__ = ()
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # what is in it can change

    @overload
    def __init__(self, values: R_co, lengths: Lengths) -> None: ...
    @overload
    def __init__(self: Ragged[Batch], values: Mapping[str, Any], lengths: Lengths) -> None: ...
    def __init__(self, values: Any, lengths: Lengths) -> None:
        tree: Any = to_leaf(values) if KINDS[type(values)] is MAPPING else require_tree(values, "Ragged()")
        sizes = sequences.as_lengths(lengths).copy()
        require_rows(tree, int(sizes.sum()))
        sizes.flags.writeable = False
        self._values, self._sizes, self._offsets = tree, sizes, None

    @overload
    @staticmethod
    def from_lists(rows: Iterable[Any] | Mapping[str, Iterable[Any]]) -> Ragged[Batch]: ...
    @overload
    @staticmethod
    def from_lists(rows: Iterable[Any] | Mapping[str, Iterable[Any]], *, into: Callable[..., B]) -> Ragged[B]: ...
    @staticmethod
    def from_lists(
        rows: Iterable[Any] | Mapping[str, Iterable[Any]], *, into: Callable[..., Any] = Batch
    ) -> Ragged[Any]:
        """Sequences that come one by one, as samplers and data sets give them. Data is copied.

        Args:
            rows: a list with a dict or Batch for each sequence, ``[{"ids": [1, 2], "logp": [-0.1, -0.2]}, ...]``; or
                a dict with a list for each field, ``{"ids": [[1, 2], [3]], "logp": [...]}``. What is innermost may be
                lists, arrays or tensors, with a row for each token.
            into: the record that the values become.

        Raises:
            StructureError: sequences have different fields, fields different lengths, or arrays do not fit together.
            LeafError: something that is not a sequence of rows.
        """
        if isinstance(rows, Mapping):
            return _from_columns(rows, into)
        if not isinstance(rows, Iterable):
            raise LeafError(f"sequences come as a list of dicts, or a dict of lists, got {describe(rows)}")
        batches: list[Any] = [_sequence(row, number) for number, row in enumerate(rows)]
        if not batches:
            return Ragged(into(), [])
        names = dict.fromkeys(name for batch in batches for name in batch.__dict__)
        for number, batch in enumerate(batches):
            if missing := [name for name in names if name not in batch.__dict__]:
                raise StructureError(f"sequence {number} has no field {missing[0]!r}, and others have it")
        return _from_columns({name: [batch.__dict__[name] for batch in batches] for name in names}, into)

    @staticmethod
    def from_padded(batch: B, mask: Any) -> Ragged[B]:
        """Sequences that were padded. Data is copied.

        Args:
            batch: ``(N, T, ...)`` in every field.
            mask: ``(N, T)``, an array or tensor of bools, or of the numbers 0 and 1; true where there is a row. The
                padding may be on either side, on both, or in between.

        Raises:
            StructureError: the mask is not of that shape, or has other numbers in it.
            RowIndexError: a field has other dimensions than the mask.
        """
        flags = sequences.as_flags(mask)
        ragged: Ragged[B] = new_sequences(Ragged, sequences.unpad(batch, flags), flags.sum(1))
        return ragged

    @property
    def values(self) -> R_co:
        """The rows of all sequences, end to end. Shared."""
        return self._values  # type: ignore[no-any-return]

    @property
    def lengths(self) -> Any:
        """The length of each sequence, ``(N,)`` int64: an array, or beside tensors a tensor on their device. A copy."""
        return self._beside(self.sizes.copy())

    @property
    def max_length(self) -> int:
        """The length of the longest sequence; 0 without any."""
        return int(self.sizes.max(initial=0))

    @property
    def cu_seqlens(self) -> Any:
        """``[0, l0, l0 + l1, ...]``, ``(N + 1,)`` int32 and beside the values, as FlashAttention's ``varlen`` takes it.

        Raises:
            SizeError: there are more rows than 32 bits count.
        """
        return self._beside(sequences.cu_seqlens(self._rows()))

    @property
    def position_ids(self) -> Any:
        """For each row of the values its place in its sequence, from 0; int64 and beside the values."""
        return self._beside(sequences.position_ids(self._rows()))

    def mask(self, side: Side = "right", *, multiple_of: int = 1, length: int | None = None) -> Any:
        """``(N, T)`` bools, beside the values: where :meth:`padded` with these arguments has a row.

        Raises:
            SizeError: as :meth:`padded`.
        """
        return self._beside(sequences.mask(self._rows(), length, side, multiple_of=multiple_of))

    def padded(
        self, side: Side = "right", *, value: Padding = 0, multiple_of: int = 1, length: int | None = None
    ) -> R_co:
        """The sequences side by side, ``(N, T, ...)`` in every field, filled up to one length. Data is copied.

        Args:
            side: where it is filled up.
            value: what with: a number for all fields of numbers, or by name, ``{"ids": pad_token_id}`` and zeros in
                the others. Fields of objects get ``None``.
            multiple_of: T is made larger until it is a multiple of this.
            length: T; None for the longest.

        Raises:
            SizeError: a sequence is longer than ``length``, ``multiple_of`` is below 1, or no such side.
            StructureError: ``value`` names a field that there is not.
            RowAssignmentError: the dtype of a field cannot hold ``value``.
        """
        sizes, values = self._rows(), self.values
        return sequences.pad(values, sizes, length=length, side=side, value=value, multiple_of=multiple_of)

    def to_nested(self) -> Batch:
        """A Batch with a jagged ``torch.nested`` tensor for each tensor of the values. Memory is shared.

        Raises:
            LeafError: a field is not a tensor; ``to_torch()`` first.
            MissingDependencyError: torch is not installed.
        """
        return _nested(self.values, torch_side().torch.from_numpy(self._offsets_of_rows()))

    def __len__(self) -> int:
        """The number of sequences.

        Raises:
            NoLengthError: it is a single sequence, as ``batch[i]`` gives it.
        """
        return len(self._rows())

    @overload
    def __getitem__(self, index: int | np.integer[Any], /) -> R_co: ...
    @overload
    def __getitem__(self, index: Rows, /) -> Ragged[R_co]: ...
    def __getitem__(self, index: Any, /) -> Any:
        """One sequence, as a batch, or several, as a ``Ragged``. Ints and slices without a step give views.

        Raises:
            RowIndexError: there is no such sequence, or the index has more than one dimension (an ``IndexError``).
        """
        taken: Ragged[R_co] = take_sequences(self, plain_index(index))
        return taken if taken.sizes.shape else taken.values

    def __iter__(self) -> Iterator[R_co]:
        """The sequences, as batches. Views."""
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object, /) -> bool:
        """Same lengths and equal values."""
        return same_leaf(self, other) if isinstance(other, Ragged) else NotImplemented

    def __repr__(self) -> str:
        fields = ", ".join(f"{path} {describe(leaf)}" for path, leaf in leaves(self.values.__dict__))
        return f"{describe(self)}({fields})"

    def __copy__(self) -> Ragged[R_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ragged[R_co]:
        values: Any = self.values
        copied: Ragged[R_co] = new_sequences(type(self), deep(values, memo), self.sizes)
        return copied

    def __reduce__(self) -> Any:
        return _checked, (type(self), self.values, self.sizes)

    def _rows(self) -> NDArray[np.intp]:
        if not self.sizes.shape:
            raise NoLengthError(f"{describe(self)} is a single sequence, so it has no rows; .values has what is in it")
        return self.sizes

    def _offsets_of_rows(self) -> NDArray[np.intp]:
        self._rows()
        return self.offsets.copy()

    def _beside(self, array: NDArray[Any]) -> Any:
        """An array; beside tensors as a tensor on their device."""
        values: Any = self.values
        found = (leaf for _, leaf in leaves(values.__dict__) if KINDS[type(leaf)] in (ARRAY, TENSOR))
        first: Any = next(found, None)
        return torch_side().torch.from_numpy(array).to(first.device) if KINDS[type(first)] is TENSOR else array


def _checked(cls: type[Ragged[Any]], values: Any, sizes: NDArray[np.intp]) -> Ragged[Any]:
    """Return the sequences that a pickle holds, of which one alone has no dimension for rows.

    Raises:
        SizeError: the lengths are no whole numbers from 0 up, or sum up to more than an array can have.
        StructureError: the values have other rows.
        LeafError: the values are not a batch.
    """
    made = cls(require_tree(values, "Ragged()"), np.atleast_1d(sizes))
    return made if np.ndim(sizes) else new_sequences(cls, made.values, made.sizes[0])


def _sequence(row: Any, number: int) -> Any:
    if KINDS[type(row)] is not MAPPING and not isinstance(row, Tree):
        raise LeafError(f"a sequence is a dict or a Batch with a list for each field, got {describe(row)} at {number}")
    return to_leaf(row)


def _from_columns(columns: Mapping[str, Iterable[Any]], into: Callable[..., Any]) -> Ragged[Any]:
    fields: dict[str, Any] = {}
    sizes: list[int] | None = None
    for name, column in columns.items():
        with under(name):
            if not isinstance(column, Iterable):
                raise LeafError(f"a field comes as a list with its rows for each sequence, got {describe(column)}")
            parts = [_part(part, number) for number, part in enumerate(column)]
            found = [len(part) for part in parts]
            if sizes is not None and found != sizes:
                raise StructureError(_other_lengths(found, sizes))
        fields[name], sizes = _end_to_end(parts, name), found
    return Ragged(into(**fields), sizes or [])


def _part(part: Any, number: int) -> Any:
    leaf = to_leaf(part)
    if not isinstance(leaf, Tree) and not leading_shape(leaf):
        raise LeafError(f"a sequence is a list, an array or a tensor, got {describe(leaf)} at {number}")
    return leaf


def _other_lengths(found: list[int], sizes: list[int]) -> str:
    if len(found) != len(sizes):
        return f"{len(found)} sequences, and {len(sizes)} in the fields before"
    number = next(i for i, (one, other) in enumerate(zip(found, sizes, strict=True)) if one != other)
    return f"sequence {number} has {found[number]} rows, and {sizes[number]} in the fields before"


def _end_to_end(parts: list[Any], name: str) -> Any:
    # Of an empty list nobody knows the dtype, so the others decide.
    there = [part for part in parts if len(part)] or parts[:1]
    if not there:
        return np.zeros(0)
    joined = cat_trees([new_tree(Batch, {name: part}) for part in there], "error", to_leaf).__dict__[name]
    if KINDS[type(joined)] is not ARRAY or len({part.dtype for part in there}) == 1:
        return joined
    rows = [row for part in there for row in part]
    return joined if keeps_whole_numbers(rows, joined) else np.concatenate([part.astype(object) for part in there])


def _nested(values: Any, offsets: Any) -> Batch:
    out: Batch = new_tree(Batch, {})
    for name, value in values.__dict__.items():
        with under(name):
            if isinstance(value, Tree):
                out.__dict__[name] = _nested(value, offsets)
            elif KINDS[type(value)] is TENSOR:
                where = offsets.to(value.device)
                out.__dict__[name] = torch_side().torch.nested.nested_tensor_from_jagged(value, where)
            else:
                raise LeafError(f"{describe(value)} is not a tensor; call to_torch() on the batch first")
    return out
