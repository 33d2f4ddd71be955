"""``Ragged``: a field whose rows are sequences of different lengths, stored end to end and never cut.

``Ragged[Tokens]`` has one batch of all tokens, and one length per sample. Operations on the rows of the batch that it
is a field of take whole sequences: indices, slices, masks, ``split`` and ``cat``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from typedbatch import sequences
from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Sequences, Tree, describe, leading_shape, new_sequences, new_tree
from typedbatch._core.lengths import leaves, require_rows, require_tree
from typedbatch._ops.casting import as_declared
from typedbatch._ops.combine import cat_trees, keeps_whole_numbers, require_names
from typedbatch._ops.construct import refuse_on_instances, to_leaf
from typedbatch._ops.conversion import torch_side
from typedbatch._ops.copying import deep
from typedbatch._ops.equality import same_leaf
from typedbatch._ops.indexing import plain_index
from typedbatch._ops.ragged_rows import sum_sequences, take_sequences, values_of_jagged
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, NoLengthError, StructureError, for_each, under
from typedbatch.pytree import register
from typedbatch.sequences import Lengths, Packed, Padding, Side

if TYPE_CHECKING:
    from types import EllipsisType

    from typedbatch._typing import TensorLike
    from typedbatch.protocols import BatchProtocol

    Rows = slice | EllipsisType | NDArray[Any] | TensorLike | Sequence[int] | Sequence[bool]

R_co = TypeVar("R_co", bound="BatchProtocol", covariant=True)
B = TypeVar("B", bound="BatchProtocol")
L = TypeVar("L", bound="TensorLike")


class Ragged(Sequences, Generic[R_co]):
    """Sequences of different lengths, end to end: tokens of samples, patches of images, turns of conversations.

    As a field of a batch it has one row for each sequence. ``batch[2:5]``, masks, ``split`` and ``cat`` take whole
    sequences; so does ``ragged[2:5]`` by itself. ``batch[i].tokens`` is a ``Ragged`` of a single sequence, without a
    dimension for rows, like every field of a single row; ``stack`` makes rows of such sequences again. ``ragged[i]``
    and iteration give the sequences themselves, as batches of the class of ``values``.

    ``values`` is shared. Its elements can be written to, but the numbers of rows and sequences do not change.

    Args:
        values: Batch or record of all rows, ``(sum of lengths, ...)`` in every field; a dict becomes a Batch.
        lengths: Number of rows of each sequence: whole numbers from 0 up, in one dimension. They are copied.

    Raises:
        SizeError: Lengths are not whole numbers from 0 up, or sum up to more than an array can have.
        StructureError: A field of the values has another number of rows than the sum of the lengths, or no rows.
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
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # Its elements can change.

    @overload
    def __init__(self, values: R_co, lengths: Lengths) -> None: ...
    @overload
    def __init__(self: Ragged[Batch], values: Mapping[str, Any], lengths: Lengths) -> None: ...
    def __init__(self, values: Any, lengths: Lengths) -> None:
        tree: Any = to_leaf(values) if KINDS[type(values)] is kinds.MAPPING else require_tree(values, "Ragged()")
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
        """Build a ``Ragged`` from separate sequences, as samplers and data sets return them. Data is copied.

        Args:
            rows: List with a dict or Batch for each sequence, ``[{"ids": [1, 2], "logp": [-0.1, -0.2]}, ...]``, or
                dict with a list for each field, ``{"ids": [[1, 2], [3]], "logp": [...]}``. The innermost values may be
                lists, arrays or tensors, with a row for each token.
            into: Record class of the values. They become the arrays or tensors, and get the dtypes, that it declares.

        Raises:
            StructureError: Sequences have different fields, fields have different lengths, or arrays do not fit
                together.
            LeafError: A value is not a sequence of rows.
            TypeError: A field that ``into`` requires is missing, or one is given that it does not declare.
            SchemaError: The values do not match ``into``, and no conversion that keeps them makes them match.
        """
        if isinstance(rows, Mapping):
            return _from_columns(rows, into)
        if not isinstance(rows, Iterable):
            raise LeafError(f"from_lists() takes a list of dicts, or a dict of lists, got {describe(rows)}")
        given: list[Mapping[str, Any]] = []
        for number, row in enumerate(rows):
            if KINDS[type(row)] is not kinds.MAPPING and not isinstance(row, Tree):
                what = f"a dict or a Batch of lists, one for each field, got {describe(row)} at {number}"
                raise LeafError(f"a sequence must be {what}")
            given.append(row.__dict__ if isinstance(row, Tree) else row)
        names = dict.fromkeys(chain.from_iterable(given))
        for number, fields in enumerate(given):
            if missing := [name for name in names if name not in fields]:
                raise StructureError(f"sequence {number} has no field {missing[0]!r}, which other sequences have")
        return _from_columns({name: [fields[name] for fields in given] for name in names}, into)

    @staticmethod
    def from_padded(batch: B, mask: Any) -> Ragged[B]:
        """Build a ``Ragged`` from padded sequences. Data is copied.

        Args:
            batch: Padded sequences, ``(N, T, ...)`` in every field.
            mask: ``(N, T)`` array or tensor of bools, or of the numbers 0 and 1, that is true where there is a row. The
                padding may be on either side, on both, or in between.

        Raises:
            StructureError: The mask does not have two dimensions, or has other numbers in it.
            RowIndexError: A field has other dimensions than the mask.
        """
        flags = sequences.as_flags(mask)
        ragged: Ragged[B] = new_sequences(Ragged, sequences.unpad(batch, flags), flags.sum(1))
        return ragged

    @overload
    @staticmethod
    def from_nested(batch: Mapping[str, Any]) -> Ragged[Batch]: ...
    @overload
    @staticmethod
    def from_nested(batch: B) -> Ragged[B]: ...
    @staticmethod
    def from_nested(batch: Any) -> Ragged[Any]:
        """Build a ``Ragged`` from jagged ``torch.nested`` tensors, as :meth:`to_nested` returns. Memory is shared.

        Args:
            batch: Batch or dict of tensors of the layout ``torch.jagged``, with the same lengths.

        Raises:
            LeafError: A field is not such a tensor, or has gaps between its sequences.
            StructureError: Sequences of one field have other lengths than those of another, or no field is a tensor.
        """
        tree: Any = to_leaf(batch) if KINDS[type(batch)] is kinds.MAPPING else require_tree(batch, "from_nested()")
        made: Ragged[Any] = new_sequences(Ragged, *values_of_jagged(tree))
        return made

    @overload
    @staticmethod
    def unpack(packed: Packed[B], batch: None = None) -> Ragged[B]: ...
    @overload
    @staticmethod
    def unpack(packed: Packed[Any], batch: B) -> Ragged[B]: ...
    @staticmethod
    def unpack(packed: Packed[Any], batch: Any = None) -> Ragged[Any]:
        """Build a ``Ragged`` from the sequences that :meth:`pack` has reordered. Data is copied.

        Args:
            packed: Packed sequences.
            batch: Other rows in their order, as the output of a network; None for those packed.

        Raises:
            StructureError: ``batch`` has another number of rows.
        """
        sizes = np.empty(len(packed.sorted_indices), np.intp)
        # At each time, batch_sizes counts the sequences that are longer; it never grows, so the search may count times.
        sizes[packed.sorted_indices] = np.searchsorted(-packed.batch_sizes, -np.arange(len(sizes)))
        ragged: Ragged[Any] = new_sequences(Ragged, packed.unpack(batch), sizes)
        return ragged

    @property
    def values(self) -> R_co:
        """Rows of all sequences, end to end; not a copy."""
        return self._values  # type: ignore[no-any-return]

    @property
    def lengths(self) -> Any:
        """Length of each sequence, ``(N,)`` int64, as a copy: an array, or a tensor on the device of the values."""
        return self._like_values(self.sizes.copy())

    @property
    def max_length(self) -> int:
        """Length of the longest sequence; 0 without sequences."""
        return int(self.sizes.max(initial=0))

    @property
    def cu_seqlens(self) -> Any:
        """Cumulative lengths ``[0, l0, l0 + l1, ...]``, ``(N + 1,)`` int32, on the device of the values.

        FlashAttention's ``varlen`` functions take it.

        Raises:
            SizeError: There are more rows than fit into 32 bits.
        """
        return self._like_values(sequences.cu_seqlens(self._rows()))

    @property
    def position_ids(self) -> Any:
        """Position of each row of the values in its sequence, from 0; int64, on the device of the values."""
        return self._like_values(sequences.position_ids(self._rows()))

    @property
    def sequence_ids(self) -> Any:
        """Number of the sequence of each row of the values; int64, on the device of the values."""
        return self._like_values(sequences.sequence_ids(self._rows()))

    @overload
    def sum(self, values: NDArray[Any]) -> NDArray[Any]: ...
    @overload
    def sum(self, values: L) -> L: ...
    def sum(self, values: Any) -> Any:
        """Return the sums of values over the rows of each sequence, ``(N, ...)``; 0 for a sequence without rows.

        ``ragged.sum(ragged.values.loss_mask)`` counts tokens. Gradients flow. Bools and integers become int64, half
        precision float32; other numbers keep their dtype, and are added up in double precision.

        Args:
            values: Array or tensor with the rows of the values, ``(sum of lengths, ...)``.

        Raises:
            LeafError: The values are not numbers in an array or a tensor.
            StructureError: They have another number of rows.
        """
        return sum_sequences(values, self._rows())

    def mask(self, side: Side = "right", *, multiple_of: int = 1, length: int | None = None) -> Any:
        """Return ``(N, T)`` bools, on the device of the values, that are true where :meth:`padded` has a row.

        Arguments and errors are those of :meth:`padded`.
        """
        return self._like_values(sequences.mask(self._rows(), length, side, multiple_of=multiple_of))

    def padded(
        self, side: Side = "right", *, value: Padding = 0, multiple_of: int = 1, length: int | None = None
    ) -> R_co:
        """Return the sequences padded to one length, ``(N, T, ...)`` in every field. Data is copied.

        Args:
            side: Side of the padding.
            value: Number in the padding of all fields of numbers, or numbers by field, ``{"ids": pad_token_id}``, with
                zeros in the others. Fields of objects get ``None``.
            multiple_of: Number that T is rounded up to a multiple of.
            length: T before rounding; None for the length of the longest sequence.

        Raises:
            SizeError: A sequence is longer than ``length``, ``multiple_of`` is below 1, or ``side`` is neither side.
            StructureError: ``value`` names a field that does not exist.
            RowAssignmentError: The dtype of a field cannot hold ``value``.
        """
        sizes, values = self._rows(), self.values
        return sequences.pad(values, sizes, length=length, side=side, value=value, multiple_of=multiple_of)

    def pack(self) -> Packed[R_co]:
        """Return the rows in the order of torch's RNNs, as in ``rnn(packed.sequence(packed.batch.x))``. Data is copied.

        Raises:
            SizeError: A sequence has no rows.
        """
        return sequences.pack(self.values, self._rows())

    def to_nested(self) -> Batch:
        """Return a Batch with a jagged ``torch.nested`` tensor for each tensor of the values. Memory is shared.

        Fields that are None are left out.

        Raises:
            LeafError: A field is not a tensor; call ``to_torch()`` first.
            MissingDependencyError: Torch is not installed.
        """
        self._rows()
        nested: Batch = _nested(self.values, torch_side().torch.from_numpy(self.offsets.copy()))
        return nested

    def __len__(self) -> int:
        """Return the number of sequences.

        Raises:
            NoLengthError: This is a single sequence, as in ``batch[i]``.
        """
        return len(self._rows())

    @overload
    def __getitem__(self, index: int | np.integer[Any], /) -> R_co: ...
    @overload
    def __getitem__(self, index: Rows, /) -> Ragged[R_co]: ...
    def __getitem__(self, index: Any, /) -> Any:
        """Return one sequence, as a batch, or several, as a ``Ragged``. Ints and slices without a step give views.

        Raises:
            RowIndexError: The index is out of range, or has more than one dimension (an ``IndexError``).
        """
        taken: Ragged[R_co] = take_sequences(self, plain_index(index))
        return taken if taken.sizes.shape else taken.values

    def __iter__(self) -> Iterator[R_co]:
        """Iterate over the sequences, as batches that are views."""
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object, /) -> bool:
        """Return whether lengths and values are equal."""
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
            raise NoLengthError(f"{describe(self)} is a single sequence, so it has no rows; .values has its contents")
        return self.sizes

    def _like_values(self, array: NDArray[Any]) -> Any:
        """Return an array, or if the values are tensors, a tensor on their device."""
        values: Any = self.values
        found = (leaf for _, leaf in leaves(values.__dict__) if KINDS[type(leaf)] in (kinds.ARRAY, kinds.TENSOR))
        first: Any = next(found, None)
        return torch_side().torch.from_numpy(array).to(first.device) if KINDS[type(first)] is kinds.TENSOR else array


refuse_on_instances(Ragged, "from_lists", "from_nested", "from_padded", "unpack")


def _checked(cls: type[Ragged[Any]], values: Any, sizes: NDArray[np.intp]) -> Ragged[Any]:
    """Return the sequences from a pickle; a single sequence has no dimension for rows."""
    ragged = cls(require_tree(values, "Ragged()"), np.atleast_1d(sizes))
    return ragged if np.ndim(sizes) else new_sequences(cls, ragged.values, ragged.sizes[0])


def _from_columns(columns: Mapping[str, Iterable[Any]], into: Callable[..., Any]) -> Ragged[Any]:
    require_names(columns)
    fields: dict[str, Any] = {}
    sizes: list[int] | None = None
    for name, column in columns.items():
        with under(name):
            if not isinstance(column, Iterable):
                raise LeafError(f"a field must be a list with the rows of each sequence, got {describe(column)}")
        fields[name], found = _end_to_end(name, list(column))
        if sizes is not None and found != sizes:
            raise _other_lengths(found, sizes).under(name)
        sizes = found
    return Ragged(_made(fields, into), sizes or [])


def _end_to_end(name: str, column: list[Any]) -> tuple[Any, list[int]]:
    """Return the sequences of one field end to end, and their lengths."""
    if (numbers := _numbers(column)) is not None:
        return numbers, [*map(len, column)]
    with under(name):
        parts: list[Any] = [to_leaf(part) for part in column]
        shapes = [(len(part),) if isinstance(part, Batch) else leading_shape(part) for part in parts]
        if () in shapes:
            number = shapes.index(())
            got = f"{describe(parts[number])} at {number}"
            raise LeafError(f"a sequence must be a list, an array or a tensor, got {got}")
    sizes = [shape[0] for shape in shapes]
    # The dtype of an empty list is unknown, so empty ones are left out if there are others.
    there = [part for part, size in zip(parts, sizes, strict=True) if size] or parts[:1]
    joined: Any = np.zeros(0)
    if there:
        joined = cat_trees([new_tree(Batch, {name: part}) for part in there], "error", to_leaf).__dict__[name]
    if KINDS[type(joined)] is kinds.ARRAY and len({part.dtype for part in there}) > 1:
        rows = [row for part in there for row in part]
        if not keeps_whole_numbers(rows, joined):
            joined = np.concatenate([part.astype(object) for part in there])
    return joined, sizes


def _numbers(column: list[Any]) -> NDArray[Any] | None:
    """Return the numbers of lists end to end if they are of one class of Python's, which is fastest for all at once."""
    if set(map(type, column)) != {list}:
        return None
    flat = list(chain.from_iterable(column))
    classes = set(map(type, flat))
    kind = {int: "i", float: "f", bool: "b"}.get(classes.pop()) if len(classes) == 1 else None
    numbers = np.array(flat) if kind else None
    return numbers if numbers is not None and numbers.dtype.kind == kind else None  # an int may not fit int64


def _other_lengths(sizes: list[int], others: list[int]) -> StructureError:
    if len(sizes) != len(others):
        return StructureError(f"has {len(sizes)} sequences, but the fields before it have {len(others)}")
    number = next(number for number, size in enumerate(sizes) if size != others[number])
    return StructureError(f"sequence {number} has {sizes[number]} rows, but {others[number]} in the fields before")


def _made(fields: dict[str, Any], into: Any) -> Any:
    """Return the values in a batch of the class ``into``, as it declares them."""
    from typedbatch._validation.convert import convert  # these are layers above this module
    from typedbatch.schema import schema_of

    declared = schema_of(into).fields if isinstance(into, type) and issubclass(into, Batch) else ()
    if not fields:
        fields = {field.name: np.zeros(0) for field in declared if not field.optional}
    made: Any = into(**fields)
    for field in declared:
        if field.name in fields:
            made.__dict__[field.name] = as_declared(made.__dict__[field.name], field)
    return convert(made, into) if declared else made


def _nested(value: Any, offsets: Any) -> Any:
    if isinstance(value, Tree):
        there = {name: inner for name, inner in value.__dict__.items() if inner is not None}
        return new_tree(Batch, for_each(there, partial(_nested, offsets=offsets)))
    if KINDS[type(value)] is not kinds.TENSOR:
        raise LeafError(f"{describe(value)} is not a tensor; call to_torch() on the batch first")
    return torch_side().torch.nested.nested_tensor_from_jagged(value, offsets.to(value.device))


register()
