"""Where the steps of a sample batch are: one row each, or in sequences, end to end or each padded with zeros.

``seq_lens`` says how many steps each sequence has. A state of a network (``state_in_0``, ``state_out_0``, ``state_in``)
has one row per sequence, or one per step, as its length says. A batch is zero-padded when its rows are as many for each
sequence; nothing but the lengths says so, so nothing can go stale.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch.compression import Compressed
from typedbatch.errors import RowIndexError, SizeError, StructureError
from typedbatch.gathering import NO_ROW, gather, gather_leaf
from typedbatch.indexing import plain_index, select, select_basic
from typedbatch.leaves import BATCH, KINDS, TENSOR, Tree, new_tree
from typedbatch.rows import count_rows, equal_rows
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
        SizeError: ``seq_lens`` are no lengths.
        NoLengthError: a field is a scalar.
    """
    if SEQ_LENS not in fields:
        rows = _rows(fields)
        return Layout(rows, rows, None, frozenset())
    try:
        seq_lens = as_lengths(fields[SEQ_LENS])
    except SizeError as error:
        raise error.under(SEQ_LENS) from None
    states = frozenset(name for name in fields if _STATE.fullmatch(name) and _has_rows(fields[name], len(seq_lens)))
    columns = {name: value for name, value in fields.items() if name != SEQ_LENS and name not in states}
    steps = int(seq_lens.sum())
    layout = Layout(steps, _rows(columns) if columns else steps, seq_lens, states)
    if not layout.is_flat and layout.padded_to is None:
        raise StructureError(f"the lengths sum to {steps}, but there are {layout.rows} rows", SEQ_LENS)
    return layout


def _rows(columns: dict[str, Any]) -> int:
    whole = {name: value for name, value in columns.items() if type(value) is Compressed}
    if not whole:
        return equal_rows(columns)
    rows = next(iter(whole.values())).rows
    others = {name: value for name, value in columns.items() if name not in whole}
    counts = {name: value.rows for name, value in whole.items()} | (
        {"the others": equal_rows(others)} if others else {}
    )
    if set(counts.values()) != {rows}:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise StructureError(f"the fields have different lengths ({listed}); rows would be lost")
    return int(rows)


def _has_rows(value: Any, rows: int) -> bool:
    return count_rows({"state": value}) == rows


def split_fields(tree: Tree, layout: Layout) -> tuple[Tree, Tree]:
    """The columns, and the fields with one row per sequence."""
    per_sequence = {name: value for name, value in tree.__dict__.items() if name == SEQ_LENS or name in layout.states}
    columns = {name: value for name, value in tree.__dict__.items() if name not in per_sequence}
    return new_tree(Tree.plain, columns), new_tree(Tree.plain, per_sequence)


def joined(tree: T, columns: Tree, per_sequence: Tree, seq_lens: Any) -> T:
    """A batch of the class, and with the order of fields, of ``tree``."""
    fields = {**columns.__dict__, **per_sequence.__dict__, SEQ_LENS: like(seq_lens, tree.__dict__[SEQ_LENS])}
    out: T = new_tree(type(tree), {name: fields[name] for name in tree.__dict__})
    return out


def like(values: Any, leaf: Any) -> Any:
    """Integers as an array, or as a tensor, of the dtype that ``leaf`` has."""
    if KINDS[type(leaf)] is not TENSOR:
        return np.asarray(values).astype(leaf.dtype)[()]
    return leaf.new_tensor(values)


def flat(tree: T, layout: Layout) -> tuple[T, Layout]:
    """The batch without its padding, and the layout that it has then; the very batch if it has none."""
    if layout.is_flat:
        return tree, layout
    columns, per_sequence = split_fields(tree, layout)
    steps = select(columns, layout.positions())
    return joined(tree, steps, per_sequence, layout.seq_lens), layout._replace(rows=layout.steps)


def select_steps(tree: T, index: Any) -> T:
    """Steps of a batch with ``seq_lens``; see :meth:`SampleBatch.__getitem__`."""
    tree, layout = flat(tree, layout_of(tree.__dict__))
    if isinstance(index, slice) and index.step in (None, 1):
        start, stop, _ = index.indices(layout.steps)
        return slice_steps(tree, layout, start, max(start, stop))
    try:
        numbers = np.arange(layout.steps)[plain_index(index)]
    except IndexError as error:
        raise RowIndexError(f"{layout.steps} steps cannot be indexed by {index!r}: {error}") from error
    if numbers.ndim > 1 or isinstance(index, tuple):
        raise RowIndexError("steps of sequences are taken by an int, a slice, a mask or a list of numbers")
    assert layout.seq_lens is not None
    columns, per_sequence = split_fields(tree, layout)
    sequence = np.repeat(np.arange(len(layout.seq_lens)), layout.seq_lens)[numbers]
    if not numbers.ndim:
        numbers, sequence = int(numbers), int(sequence)
    ones = np.ones(np.shape(numbers), np.intp)
    return joined(tree, select(columns, numbers), select(per_sequence, sequence), ones)


def slice_steps(tree: T, layout: Layout, start: int, stop: int) -> T:
    """Steps from ``start`` to ``stop`` of a batch without padding; zeros before the first if ``start`` is negative."""
    zeros = max(0, -start)
    columns, per_sequence = (tree, None) if layout.seq_lens is None else split_fields(tree, layout)
    if zeros:
        steps = gather(columns, np.concatenate([np.full(zeros, NO_ROW), np.arange(stop)]))
    else:
        steps = select_basic(columns, slice(start, stop)) if columns.__dict__ else columns
    if per_sequence is None:
        return steps  # type: ignore[return-value]  # the columns are the whole tree then
    assert layout.seq_lens is not None
    ends = np.concatenate([[0], np.cumsum(layout.seq_lens)])
    first = int(np.searchsorted(ends, max(start, 0), "right")) - 1
    last = max(int(np.searchsorted(ends, stop, "left")), first) if stop > start else first
    lens = np.diff(np.clip(ends[first : last + 1], max(start, 0), stop))
    if zeros:
        last = max(last, 1)
        lens = lens if len(lens) else np.zeros(1, np.intp)
        lens[0] += zeros
    return joined(tree, steps, select_basic(per_sequence, slice(first, last)), lens)


def slice_with_states(tree: T, layout: Layout, start: int, stop: int, first: int, last: int) -> T:
    """As :func:`slice_steps`, with the sequences from ``first`` to ``last``, the last one cut to the steps there are.

    Raises:
        StructureError: these sequences are not the ones that the steps are of.
    """
    if layout.seq_lens is None:
        raise StructureError("state_start and state_end are for batches with seq_lens, which this one has not")
    sliced = slice_steps(tree, layout, start, stop)
    _, per_sequence = split_fields(tree, layout)
    steps = max(stop, 0) - start if stop > start else 0
    lens = layout.seq_lens[first:last].copy()
    surplus = int(lens.sum()) - steps
    if surplus < 0 or (len(lens) and surplus >= lens[-1] > 0) or (steps and not len(lens)):
        raise StructureError(f"{steps} steps cannot be the sequences {first} to {last}, of lengths {lens.tolist()}")
    if len(lens):
        lens[-1] -= surplus
    columns, _ = split_fields(sliced, layout)
    return joined(tree, columns, select_basic(per_sequence, slice(first, last)), lens)


def zero_padded(tree: T, length: int, exclude_states: bool) -> T:
    """The batch with ``length`` rows for each sequence; see :meth:`SampleBatch.right_zero_pad`."""
    tree, layout = flat(tree, layout_of(tree.__dict__))
    if layout.seq_lens is None:
        raise StructureError("there are no seq_lens, so there are no sequences to pad", SEQ_LENS)
    columns, per_sequence = split_fields(tree, layout)
    padded = gather(columns, padded_rows(layout.seq_lens, length).ravel())
    if not exclude_states:
        rows = np.full((len(layout.seq_lens), length), NO_ROW)
        rows[:, :1] = np.arange(len(rows))[:, None]
        for name in layout.states:
            per_sequence.__dict__[name] = _gathered(per_sequence.__dict__[name], rows.ravel())
    return joined(tree, padded, per_sequence, layout.seq_lens)


def _gathered(value: Any, rows: NDArray[np.intp]) -> Any:
    return gather(value, rows) if KINDS[type(value)] is BATCH else gather_leaf(value, rows, rows < 0)
