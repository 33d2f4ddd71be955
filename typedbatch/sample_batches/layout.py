"""Where the steps of a sample batch are: one row each, or in sequences, end to end or each padded with zeros.

``seq_lens`` says how many steps each sequence has. A state of a network (``state_in_0``, ``state_out_0``, ``state_in``)
has one row per sequence, or one per step, as its length says. A batch is zero-padded when its rows are as many for each
sequence; nothing but the lengths says so, so nothing can go stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.indexing import plain_index, take, take_basic
from typedbatch._ops.padding import NO_ROW, after_zeros, take_or_zeros
from typedbatch._tree.leaves import KINDS, TENSOR, Tree, new_tree
from typedbatch._tree.rows import at_least, count_rows, equal_rows
from typedbatch.errors import NoLengthError, RowIndexError, StructureError, under
from typedbatch.sample_batches.compression import Compressed
from typedbatch.sequences import as_lengths, mask, padded_rows

T = TypeVar("T", bound=Tree)

SEQ_LENS: Final = "seq_lens"
_STATE = re.compile(r"state_(in|out)(_\d+)?")


class Layout(NamedTuple):
    """How the rows of a sample batch are laid out."""

    steps: int
    """Rows that are steps, not padding."""
    rows: int
    """Rows of the columns, padding included."""
    seq_lens: NDArray[np.intp] | None
    """The steps of each sequence; None without ``seq_lens``."""
    states: frozenset[str]
    """The fields with one row per sequence, ``seq_lens`` not among them."""

    @property
    def is_flat(self) -> bool:
        """True when there is no padding."""
        return self.steps == self.rows

    @property
    def padded_to(self) -> int | None:
        """The rows of every sequence, if they are the same."""
        if self.seq_lens is None or not len(self.seq_lens):
            return None
        length, rest = divmod(self.rows, len(self.seq_lens))
        return length if not rest and length >= self.seq_lens.max() else None

    def positions(self) -> NDArray[np.intp]:
        """The rows that are steps."""
        if self.is_flat or self.seq_lens is None:
            return np.arange(self.rows)
        return np.flatnonzero(mask(self.seq_lens, self.padded_to))


def layout_of(fields: dict[str, Any]) -> Layout:
    """The layout of a batch with these fields.

    Raises:
        StructureError: columns have different lengths, or not the rows that ``seq_lens`` says.
        SizeError: ``seq_lens`` are not lengths.
        NoLengthError: a field is a scalar.
    """
    if SEQ_LENS not in fields:
        rows = count_steps(fields)
        return Layout(rows, rows, None, frozenset())
    if not np.ndim(fields[SEQ_LENS]):
        raise NoLengthError("a scalar, so this is a step of a batch, and has no length", SEQ_LENS)
    with under(SEQ_LENS):
        seq_lens = as_lengths(_whole(fields[SEQ_LENS]))
    states = [name for name in fields if name[:6] == "state_" and _STATE.fullmatch(name)]
    per_sequence = frozenset(name for name in states if count_rows({name: fields[name]}) == len(seq_lens))
    columns = {name: value for name, value in fields.items() if name != SEQ_LENS and name not in per_sequence}
    steps = int(seq_lens.sum())
    rows = count_steps(columns)
    plain = {name: value for name, value in columns.items() if type(value) is not Compressed}
    if not rows and count_rows(plain) is None:
        rows = steps  # nothing has rows: only None, and fields that are reserved
    layout = Layout(steps, rows, seq_lens, per_sequence)
    if not layout.is_flat and layout.padded_to is None:
        raise StructureError(f"the lengths sum to {steps}, but there are {layout.rows} rows", SEQ_LENS)
    return layout


def _whole(seq_lens: Any) -> Any:
    """Whole numbers as integers: converting all of a batch to floating tensors leaves them what they are."""
    array = np.asarray(leaf_to_numpy(seq_lens))
    return array.astype(np.intp) if array.dtype.kind == "f" and (array == np.floor(array)).all() else array


def count_steps(columns: dict[str, Any]) -> int:
    """The one length of all columns; what is compressed as a whole knows its own.

    Raises:
        StructureError: the columns have different lengths.
        NoLengthError: a column is a scalar.
    """
    whole = {name: value.rows for name, value in columns.items() if type(value) is Compressed}
    if not whole:
        return equal_rows(columns)
    others = {name: value for name, value in columns.items() if name not in whole}
    if count_rows(others) is not None:
        whole["the others"] = equal_rows(others)
    if len(set(whole.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in whole.items())
        raise StructureError(f"the fields have different lengths ({listed}); rows would be lost")
    return int(next(iter(whole.values())))


def require_parts(parts: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to concatenate batches of which some are padded and others not, or to another length.

    Raises:
        StructureError: they are.
    """
    layouts = [layout_of(dict(part)) for part in parts if SEQ_LENS in part]
    layouts = [layout for layout in layouts if layout.rows]
    if all(layout.is_flat for layout in layouts) or len({layout.padded_to for layout in layouts}) < 2:
        return
    said = [f"padded to {layout.padded_to}" if layout.padded_to else "not padded" for layout in layouts]
    raise StructureError(f"batches that are {', '.join(dict.fromkeys(said))}; right_zero_pad() all to the same length")


def split_fields(tree: Tree, layout: Layout) -> tuple[Tree, Tree]:
    """The columns, and the fields with one row per sequence."""
    per_sequence = {name: value for name, value in tree.__dict__.items() if name == SEQ_LENS or name in layout.states}
    columns = {name: value for name, value in tree.__dict__.items() if name not in per_sequence}
    return new_tree(Tree.__plain__, columns), new_tree(Tree.__plain__, per_sequence)


def joined(tree: T, columns: Tree, per_sequence: Tree, seq_lens: Any) -> T:
    """A batch of the class, and with the order of fields, of ``tree``."""
    fields = {**columns.__dict__, **per_sequence.__dict__, SEQ_LENS: like(seq_lens, tree.__dict__[SEQ_LENS])}
    out: T = new_tree(type(tree), {name: fields[name] for name in tree.__dict__})
    return out


def like(values: Any, leaf: Any) -> Any:
    """Integers as an array, or as a tensor, of the dtype that ``leaf`` has, if that holds them."""
    if KINDS[type(leaf)] is not TENSOR:
        array = np.asarray(values)
        cast = array.astype(leaf.dtype)
        return cast[()] if array.ndim == 0 or (cast == array).all() else array
    tensor = leaf.new_tensor(values)
    return tensor if (tensor.cpu().numpy() == values).all() else leaf.new_tensor(values, dtype=None).long()


def flat(tree: T, layout: Layout) -> tuple[T, Layout]:
    """The batch without its padding, and the layout that it has then; the very batch if it has none."""
    if layout.is_flat:
        return tree, layout
    columns, per_sequence = split_fields(tree, layout)
    steps = _take(columns, layout.positions())
    return joined(tree, steps, per_sequence, layout.seq_lens), layout._replace(rows=layout.steps)


def _take(tree: T, index: Any) -> T:
    return take(tree, index) if tree.__dict__ else tree


def take_steps(tree: T, index: Any) -> T:
    """Steps of a batch with ``seq_lens``; see :meth:`SampleBatch.__getitem__`."""
    tree, layout = flat(tree, layout_of(tree.__dict__))
    index = slice(None) if index is Ellipsis else index
    try:
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(layout.steps)
            return slice_steps(tree, layout, start, max(start, stop))
        numbers = np.arange(layout.steps)[plain_index(index)]
    except (IndexError, TypeError, ValueError) as error:
        raise RowIndexError(f"{layout.steps} steps cannot be indexed by {index!r}: {error}") from error
    if numbers.ndim > 1 or isinstance(index, tuple):
        raise RowIndexError("steps of sequences are taken by an int, a slice, a mask or a list of numbers")
    return _single_steps(tree, layout, numbers if numbers.ndim else int(numbers))


def each_step(tree: T) -> Iterator[T]:
    """The steps of a batch with ``seq_lens``, one after the other."""
    tree, layout = flat(tree, layout_of(tree.__dict__))
    columns, per_sequence = split_fields(tree, layout)
    for step, sequence in enumerate(sequence_of_steps(layout).tolist()):
        yield joined(tree, take_basic(columns, step), take_basic(per_sequence, sequence), 1)


def sequence_of_steps(layout: Layout) -> NDArray[np.intp]:
    """The number of the sequence that each step is of."""
    assert layout.seq_lens is not None
    return np.repeat(np.arange(len(layout.seq_lens)), layout.seq_lens)


def _single_steps(tree: T, layout: Layout, numbers: Any) -> T:
    """Steps that are sequences of their own."""
    columns, per_sequence = split_fields(tree, layout)
    sequence = sequence_of_steps(layout)[numbers]
    ones = np.ones(np.shape(numbers), np.intp)
    return joined(tree, _take(columns, numbers), take(per_sequence, sequence), ones)


def slice_steps(tree: T, layout: Layout, start: int, stop: int) -> T:
    """Steps from ``start`` to ``stop`` of a batch without padding; zeros before the first if ``start`` is negative."""
    if layout.seq_lens is None:
        return _slice_columns(tree, start, stop)
    columns, per_sequence = split_fields(tree, layout)
    first, last, lens = _sequences_of(layout.seq_lens, start, stop)
    if start < 0 and not len(lens):  # zeros before nothing are a sequence too, which has no state yet
        lens, states = np.array([-start]), take_or_zeros(per_sequence, np.array([NO_ROW]))
    else:
        states = take_basic(per_sequence, slice(first, last))
    return joined(tree, _slice_columns(columns, start, stop), states, lens)


def _slice_columns(columns: T, start: int, stop: int) -> T:
    if start >= 0:
        return take_basic(columns, slice(start, stop))
    return after_zeros(columns, -start, stop)


def _sequences_of(seq_lens: NDArray[np.intp], start: int, stop: int) -> tuple[int, int, NDArray[np.intp]]:
    """The sequences that steps are of, from one to before the other, and how many of the steps each has."""
    ends = seq_lens.cumsum()
    # sequences without steps count where the batch begins and ends
    first = 0 if start <= 0 else int(ends.searchsorted(start, "right"))
    last = len(ends) if not len(ends) or stop >= ends[-1] else int(ends.searchsorted(stop, "left")) + 1
    if stop <= start:
        last = first
    lens = seq_lens[first:last].copy()
    if len(lens):
        lens[-1] -= max(0, ends[last - 1] - stop)
        lens[0] -= start - (ends[first] - seq_lens[first])
    return first, last, lens


def require_sequences(layout: Layout, start: int, stop: int, first: Any, last: Any) -> None:
    """Check that steps are those of the sequences from ``first`` to ``last``.

    Raises:
        StructureError: they are not.
    """
    if layout.seq_lens is None:
        raise StructureError("state_start and state_end are for batches with seq_lens, which this one has not")
    *found, _ = _sequences_of(layout.seq_lens, start, stop)
    if [at_least(0, first, "state_start"), at_least(0, last, "state_end")] != found:
        raise StructureError(f"these steps are of the sequences {found[0]} to {found[1]}, not {first} to {last}")


def zero_padded(tree: T, length: Any, exclude_states: bool) -> T:
    """The batch with ``length`` rows for each sequence; see :meth:`SampleBatch.right_zero_pad`."""
    if SEQ_LENS not in tree.__dict__:
        raise StructureError("there are no seq_lens, so there are no sequences to pad", SEQ_LENS)
    layout = layout_of(tree.__dict__)
    seq_lens: Any = layout.seq_lens
    columns, per_sequence = split_fields(tree, layout)
    rows = padded_rows(seq_lens, at_least(0, length, "max_seq_len")).ravel()
    if not layout.is_flat:
        rows = np.where(rows < 0, NO_ROW, layout.positions()[rows])
    if not exclude_states:
        firsts = np.full((len(seq_lens), length), NO_ROW)
        firsts[:, :1] = np.arange(len(seq_lens))[:, None]
        states = {name: per_sequence.__dict__[name] for name in layout.states}
        per_sequence.__dict__.update(take_or_zeros(new_tree(Tree.__plain__, states), firsts.ravel()).__dict__)
    return joined(tree, take_or_zeros(columns, rows), per_sequence, seq_lens)
