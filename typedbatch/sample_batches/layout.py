"""Layout of the steps of a sample batch: one row each, or in sequences that are end to end or padded with zeros.

``seq_lens`` has the number of steps of each sequence. A network's state (``state_in_0``, ``state_out_0``, ``state_in``)
has one row per sequence or one per step, depending on its length. A batch is zero-padded if each sequence has the same
number of rows. This is derived from the lengths alone, so no flag can become stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import KINDS, TENSOR, Tree, new_tree
from typedbatch._core.lengths import count_rows, equal_rows, require_at_least
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.indexing import plain_index, take, take_basic
from typedbatch._ops.padding import NO_ROW, after_zeros, take_or_zeros
from typedbatch.errors import NoLengthError, RowIndexError, StructureError, under
from typedbatch.sample_batches.compression import Compressed
from typedbatch.sequences import as_lengths, mask, padded_rows

T = TypeVar("T", bound=Tree)

SEQ_LENS: Final = "seq_lens"
_STATE = re.compile(r"state_(in|out)(_\d+)?")


class Layout(NamedTuple):
    """Layout of the rows of a sample batch."""

    steps: int
    """Number of rows that are steps and not padding."""
    rows: int
    """Number of rows of the columns, padding included."""
    seq_lens: NDArray[np.intp] | None
    """Number of steps of each sequence, or None without ``seq_lens``."""
    states: frozenset[str]
    """Names of the fields with one row per sequence, except ``seq_lens``."""

    @property
    def is_flat(self) -> bool:
        """True if the batch has no padding."""
        return self.steps == self.rows

    @property
    def padded_to(self) -> int | None:
        """Number of rows of every sequence, or None if it differs."""
        if self.seq_lens is None or not len(self.seq_lens):
            return None
        length, rest = divmod(self.rows, len(self.seq_lens))
        return length if not rest and length >= self.seq_lens.max() else None

    def positions(self) -> NDArray[np.intp]:
        """Return the numbers of the rows that are steps."""
        if self.is_flat or self.seq_lens is None:
            return np.arange(self.rows)
        return np.flatnonzero(mask(self.seq_lens, self.padded_to))


def layout_of(fields: dict[str, Any]) -> Layout:
    """Return the layout of a batch with these fields."""
    if SEQ_LENS not in fields:
        rows = count_steps(fields)
        return Layout(rows, rows, None, frozenset())
    if not np.ndim(fields[SEQ_LENS]):
        raise NoLengthError("is a scalar, so the batch is a single step and has no length", SEQ_LENS)
    with under(SEQ_LENS):
        array = np.asarray(leaf_to_numpy(fields[SEQ_LENS]))
        # a conversion of the whole batch may have turned integers into floats
        is_whole = array.dtype.kind == "f" and (array == np.floor(array)).all()
        seq_lens = as_lengths(array.astype(np.intp) if is_whole else array)
    states = [name for name in fields if name[:6] == "state_" and _STATE.fullmatch(name)]
    per_sequence = frozenset(name for name in states if count_rows({name: fields[name]}) == len(seq_lens))
    columns = {name: value for name, value in fields.items() if name != SEQ_LENS and name not in per_sequence}
    steps = int(seq_lens.sum())
    rows = count_steps(columns)
    uncompressed = {name: value for name, value in columns.items() if type(value) is not Compressed}
    if not rows and count_rows(uncompressed) is None:
        rows = steps  # no field has rows, only None and reserved values exist
    layout = Layout(steps, rows, seq_lens, per_sequence)
    if not layout.is_flat and layout.padded_to is None:
        raise StructureError(f"the lengths sum to {steps}, but there are {layout.rows} rows", SEQ_LENS)
    return layout


def count_steps(columns: dict[str, Any]) -> int:
    """Return the length that all columns have. A column that is compressed as a whole stores its own."""
    counts = {name: value.rows for name, value in columns.items() if type(value) is Compressed}
    if not counts:
        return equal_rows(columns)
    others = {name: value for name, value in columns.items() if name not in counts}
    if count_rows(others) is not None:
        counts["the others"] = equal_rows(others)
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise StructureError(f"the fields have different lengths ({listed}); rows would be lost")
    return int(next(iter(counts.values())))


def guard_sequences(*batches: Tree, joining: bool = False) -> None:
    """Raise an error if the rows of a batch are divided into sequences, or batches to join differ in their padding."""
    if not joining:
        if any(SEQ_LENS in batch.__dict__ for batch in batches):
            raise StructureError("divides the rows into sequences, so they cannot be taken on their own", SEQ_LENS)
        return
    layouts = [layout_of(batch.__dict__) for batch in batches]
    layouts = [layout for layout in layouts if layout.rows and layout.seq_lens is not None]
    if all(layout.is_flat for layout in layouts) or len({layout.padded_to for layout in layouts}) < 2:
        return
    found = [f"padded to {layout.padded_to}" if layout.padded_to else "not padded" for layout in layouts]
    raise StructureError(
        f"batches must have the same padding, got {', '.join(dict.fromkeys(found))}; "
        "right_zero_pad() all to the same length"
    )


def split_fields(tree: Tree, layout: Layout) -> tuple[Tree, Tree]:
    """Return the columns, and the fields with one row per sequence."""
    per_sequence = {name: value for name, value in tree.__dict__.items() if name == SEQ_LENS or name in layout.states}
    columns = {name: value for name, value in tree.__dict__.items() if name not in per_sequence}
    return new_tree(Tree.__plain__, columns), new_tree(Tree.__plain__, per_sequence)


def joined(tree: T, columns: Tree, per_sequence: Tree, seq_lens: Any) -> T:
    """Return a batch with the class and the order of fields of ``tree``."""
    fields = {**columns.__dict__, **per_sequence.__dict__, SEQ_LENS: like(seq_lens, tree.__dict__[SEQ_LENS])}
    return new_tree(type(tree), {name: fields[name] for name in tree.__dict__})


def like(values: Any, leaf: Any) -> Any:
    """Return integers as an array or tensor with the dtype of ``leaf``, if that can hold them."""
    if KINDS[type(leaf)] is not TENSOR:
        array = np.asarray(values)
        cast = array.astype(leaf.dtype)
        return cast[()] if array.ndim == 0 or (cast == array).all() else array
    tensor = leaf.new_tensor(values)
    return tensor if (tensor.cpu().numpy() == values).all() else leaf.new_tensor(values, dtype=None).long()


def flat(tree: T, layout: Layout) -> tuple[T, Layout]:
    """Return the batch without padding, and its new layout. A batch without padding is returned as it is."""
    if layout.is_flat:
        return tree, layout
    columns, per_sequence = split_fields(tree, layout)
    steps = _take(columns, layout.positions())
    return joined(tree, steps, per_sequence, layout.seq_lens), layout._replace(rows=layout.steps)


def _take(tree: T, index: Any) -> T:
    return take(tree, index) if tree.__dict__ else tree


def take_steps(tree: T, index: Any) -> T:
    """Return steps of a batch with ``seq_lens``; see :meth:`SampleBatch.__getitem__`."""
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
        raise RowIndexError("steps of sequences can be indexed by an int, a slice, a mask or a list of numbers")
    rows = numbers if numbers.ndim else int(numbers)
    columns, per_sequence = split_fields(tree, layout)
    states = take(per_sequence, sequence_of_steps(layout)[rows])
    return joined(tree, _take(columns, rows), states, np.ones(numbers.shape, np.intp))  # sequences of one step each


def each_step(tree: T) -> Iterator[T]:
    """Iterate over the steps of a batch with ``seq_lens``."""
    tree, layout = flat(tree, layout_of(tree.__dict__))
    columns, per_sequence = split_fields(tree, layout)
    for step, sequence in enumerate(sequence_of_steps(layout).tolist()):
        yield joined(tree, take_basic(columns, step), take_basic(per_sequence, sequence), 1)


def sequence_of_steps(layout: Layout) -> NDArray[np.intp]:
    """Return the number of the sequence that each step belongs to."""
    assert layout.seq_lens is not None
    return np.repeat(np.arange(len(layout.seq_lens)), layout.seq_lens)


def slice_steps(tree: T, layout: Layout, start: int, stop: int) -> T:
    """Return the steps from ``start`` to ``stop`` of a batch without padding; a negative ``start`` puts zeros first."""
    if layout.seq_lens is None:
        return _slice_columns(tree, start, stop)
    columns, per_sequence = split_fields(tree, layout)
    first, last, lens = _sequences_of(layout.seq_lens, start, stop)
    if start < 0 and not len(lens):
        # zeros without a step behind them are a sequence as well, whose state is zero
        lens, states = np.array([-start]), take_or_zeros(per_sequence, np.array([NO_ROW]))
    else:
        states = take_basic(per_sequence, slice(first, last))
    return joined(tree, _slice_columns(columns, start, stop), states, lens)


def _slice_columns(columns: T, start: int, stop: int) -> T:
    return take_basic(columns, slice(start, stop)) if start >= 0 else after_zeros(columns, -start, stop)


def _sequences_of(seq_lens: NDArray[np.intp], start: int, stop: int) -> tuple[int, int, NDArray[np.intp]]:
    """Return the range of sequences that the steps belong to, and the number of these steps in each of them."""
    ends = seq_lens.cumsum()
    # empty sequences are included at the beginning and end of the batch
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
    """Raise an error unless the steps are those of the sequences from ``first`` to ``last``."""
    if layout.seq_lens is None:
        raise StructureError("state_start and state_end need a batch with seq_lens, which this batch lacks")
    *found, _ = _sequences_of(layout.seq_lens, start, stop)
    if [require_at_least(0, first, "state_start"), require_at_least(0, last, "state_end")] != found:
        raise StructureError(f"these steps belong to the sequences {found[0]} to {found[1]}, not {first} to {last}")


def zero_padded(tree: T, length: Any, exclude_states: bool) -> T:
    """Return the batch with ``length`` rows for each sequence; see :meth:`SampleBatch.right_zero_pad`."""
    if SEQ_LENS not in tree.__dict__:
        raise StructureError("right_zero_pad() needs a batch with seq_lens, which this batch lacks", SEQ_LENS)
    layout = layout_of(tree.__dict__)
    seq_lens: Any = layout.seq_lens
    columns, per_sequence = split_fields(tree, layout)
    rows = padded_rows(seq_lens, require_at_least(0, length, "max_seq_len")).ravel()
    if not layout.is_flat:
        rows = np.where(rows < 0, NO_ROW, layout.positions()[rows])
    if not exclude_states:
        firsts = np.full((len(seq_lens), length), NO_ROW)
        firsts[:, :1] = np.arange(len(seq_lens))[:, None]
        states = {name: per_sequence.__dict__[name] for name in layout.states}
        per_sequence.__dict__.update(take_or_zeros(new_tree(Tree.__plain__, states), firsts.ravel()).__dict__)
    return joined(tree, take_or_zeros(columns, rows), per_sequence, seq_lens)
