"""A Batch with the members of RLlib's ``SampleBatch``, whose sequences stay whole when rows are taken."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, overload

import numpy as np

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, Tree, describe, new_tree
from typedbatch._core.lengths import require_at_least
from typedbatch._ops import conversion, copying
from typedbatch._ops.indexing import take_basic, take_rows
from typedbatch._ops.splitting import Rng, bounds, permutation
from typedbatch._typing import Index
from typedbatch.batch import Batch
from typedbatch.episodes import EPISODE_ID, groups, is_flag, lengths_by
from typedbatch.errors import LeafError, RowIndexError, SettingError, StructureError, for_each
from typedbatch.records import ClosedBatch
from typedbatch.sample_batches.compression import Compressed, compress_column, decompress_column, is_compressed
from typedbatch.sample_batches.input_dict import NEXT_OBS, OBS, ViewRequirementLike, single_step_input
from typedbatch.sample_batches.layout import (
    SEQ_LENS,
    Layout,
    count_steps,
    each_step,
    flat,
    guard_sequences,
    layout_of,
    require_sequences,
    slice_steps,
    take_steps,
    zero_padded,
)

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device
    from typedbatch.sample_batches.multi_agent import MultiAgentBatch

S = TypeVar("S", bound="SampleBatch")
B = TypeVar("B", bound=Batch)

OBSERVATIONS: Final = frozenset({OBS, NEXT_OBS})
DEFAULT_POLICY_ID: Final = "default_policy"


class SampleBatch(ClosedBatch):
    """Steps of trajectories with RLlib's names, in a :class:`~typedbatch.Batch`.

    It has all members of a Batch. ``seq_lens`` divides the steps into sequences for a recurrent network. A step is then
    an element of every column, but ``state_in_0``, ``state_in_1``, ... (and ``state_out_...``) may have one row per
    sequence, and the columns may be padded with zeros. Slices cut sequences and preserve their states. Steps that are
    taken by an int, a mask or numbers become sequences of one step each, with the state of their original sequence.

    In contrast to RLlib's class, iteration goes over rows as in every Batch, and all columns must have the same length.
    No state is stored besides the columns, so none can become stale.

    Raises:
        StructureError: raised by any member that counts steps if columns have different lengths, or lengths that do not
            match ``seq_lens``.

    Modeled on ``ray.rllib.policy.sample_batch.SampleBatch``; docs/sample_batches.md lists the differences.
    """

    OBS: ClassVar[str] = "obs"
    NEXT_OBS: ClassVar[str] = "new_obs"
    ACTIONS: ClassVar[str] = "actions"
    REWARDS: ClassVar[str] = "rewards"
    TERMINATEDS: ClassVar[str] = "terminateds"
    TRUNCATEDS: ClassVar[str] = "truncateds"
    DONES: ClassVar[str] = "dones"
    INFOS: ClassVar[str] = "infos"
    EPS_ID: ClassVar[str] = "eps_id"
    ENV_ID: ClassVar[str] = "env_id"
    AGENT_INDEX: ClassVar[str] = "agent_index"
    UNROLL_ID: ClassVar[str] = "unroll_id"
    SEQ_LENS: ClassVar[str] = "seq_lens"
    T: ClassVar[str] = "t"
    PREV_ACTIONS: ClassVar[str] = "prev_actions"
    PREV_REWARDS: ClassVar[str] = "prev_rewards"
    ACTION_DIST_INPUTS: ClassVar[str] = "action_dist_inputs"
    ACTION_PROB: ClassVar[str] = "action_prob"
    ACTION_LOGP: ClassVar[str] = "action_logp"
    VF_PREDS: ClassVar[str] = "vf_preds"
    VALUES_BOOTSTRAPPED: ClassVar[str] = "values_bootstrapped"

    # ---- steps ----------------------------------------------------------------------------------------------------

    _row_guard = staticmethod(guard_sequences)

    def __len__(self) -> int:
        """Return the number of steps, without padding."""
        fields = self.__dict__
        return layout_of(fields).steps if "seq_lens" in fields else count_steps(fields)

    @property
    def count(self) -> int:
        """Number of steps, as ``len(batch)``."""
        return len(self)

    def agent_steps(self) -> int:
        """Return the number of steps, as ``len(batch)``. A MultiAgentBatch can have more agent steps than env steps."""
        return len(self)

    def env_steps(self) -> int:
        """Return the number of steps, as ``len(batch)``."""
        return len(self)

    @property
    def zero_padded(self) -> bool:
        """True if every sequence has :attr:`max_seq_len` rows, with zeros after its steps."""
        return layout_of(self.__dict__).padded_to is not None

    @property
    def max_seq_len(self) -> int | None:
        """Number of rows of every sequence if zero-padded, or else number of steps of the longest sequence.

        None without sequences.
        """
        layout = layout_of(self.__dict__)
        if layout.seq_lens is None or not len(layout.seq_lens):
            return None
        return int(layout.seq_lens.max()) if layout.padded_to is None else layout.padded_to

    @overload
    def __getitem__(self, key: str, /) -> Any: ...
    @overload
    def __getitem__(self: S, index: Index, /) -> S: ...
    def __getitem__(self, index: Any, /) -> Any:
        """Return a column by its name, or steps. Slices of a batch without padding are views; otherwise data is copied.

        Raises:
            MissingFieldError: the column does not exist (a ``KeyError``).
            RowIndexError: the steps do not exist, or a column is compressed as a whole.
        """
        if isinstance(index, str) or not self._has_sequences():
            return super().__getitem__(index)
        return take_steps(self, index)

    def __iter__(self: S) -> Iterator[S]:
        """Iterate over the steps ``batch[0]``, ``batch[1]``, ..., and not over the names."""
        return each_step(self) if self._has_sequences() else (take_basic(self, i) for i in range(len(self)))

    def __setitem__(self, index: str | Index, value: Any, /) -> None:
        """Set a column by its name, or assign steps; see :meth:`set_rows`."""
        if isinstance(index, str):
            super().__setitem__(index, value)
        else:
            self.set_rows(index, value)

    def _has_sequences(self) -> bool:
        self._require_uncompressed()
        return SEQ_LENS in self.__dict__

    def _require_uncompressed(self) -> None:
        fields = self.__dict__
        if Compressed in map(type, fields.values()):
            names = ", ".join(name for name, value in fields.items() if type(value) is Compressed)
            text = f"is compressed as a whole, so rows cannot be taken; call decompress_if_needed([{names!r}]) first"
            raise RowIndexError(text, names)

    def _flat(self: S) -> tuple[S, Layout]:
        """Return the batch without padding, and its layout."""
        self._require_uncompressed()
        return flat(self, layout_of(self.__dict__))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the steps as dicts. Nested columns are dicts too, and ``seq_lens`` is 1."""
        for row in self:
            yield Batch.to_dict(row)

    def to_list_of_dicts(self) -> list[dict[str, Any]]:
        """Return one dict per step."""
        return list(self.rows())

    def columns(self, keys: Sequence[str]) -> list[Any]:
        """Return the columns of these names, in this order. They are shared.

        Raises:
            MissingFieldError: a column does not exist.
        """
        return [Batch.__getitem__(self, key) for key in keys]

    def split(self: S, size: int, shuffle: bool = True, merge_last: bool = False, *, rng: Rng = None) -> Iterator[S]:
        """Split the steps as :meth:`~typedbatch.Batch.split` does.

        Sequences are cut at the end of each minibatch, and cannot be shuffled.

        Raises:
            StructureError: ``shuffle`` is True and the batch has ``seq_lens``.
            SizeError: ``size`` is 0 or below -1.
        """
        if not self._has_sequences():
            len(self)
            return super().split(size, shuffle, merge_last, rng=rng)
        if shuffle:
            raise StructureError("sequences cannot be shuffled step by step; split(size, shuffle=False)", SEQ_LENS)
        tree, layout = self._flat()
        pieces = list(bounds(layout.steps, size, merge_last))
        return (slice_steps(tree, layout, *piece) for piece in pieces)

    def set_rows(self, index: Index, value: object, *, strict: bool = False) -> None:
        """Assign rows as :meth:`~typedbatch.Batch.set_rows` does.

        Raises:
            StructureError: the batch has ``seq_lens``. Assign steps of sequences column by column.
        """
        self._require_rows("set_rows()")
        super().set_rows(index, value, strict=strict)

    def empty_(self: S, index: Index = None) -> S:
        """Set columns to zero as :meth:`~typedbatch.Batch.empty_` does, except ``seq_lens``.

        Raises:
            StructureError: ``index`` is passed and the batch has ``seq_lens``.
        """
        if index is not None:
            self._require_rows("empty_(index)")
            return super().empty_(index)
        columns: Batch = new_tree(Batch, {name: v for name, v in self.__dict__.items() if name != SEQ_LENS})
        self.__dict__.update(columns.empty_().__dict__)
        return self

    @staticmethod
    def empty(batch: B, index: Index = None) -> B:
        """Return a copy with zeros as :meth:`~typedbatch.Batch.empty` does, except in ``seq_lens``."""
        emptied = Batch.empty(batch, index)
        if SEQ_LENS in batch and isinstance(batch, SampleBatch):
            emptied.__dict__[SEQ_LENS] = copying.deep_leaf(batch.__dict__[SEQ_LENS], {})
        return emptied

    def set_array_at_key(self, arr: Any, key: str, index: Index = None, default_value: float | None = None) -> None:
        """Assign to a column as :meth:`~typedbatch.Batch.set_array_at_key` does.

        Raises:
            StructureError: the batch has ``seq_lens``. Use ``batch[key] = arr`` to set a column.
        """
        self._require_rows("set_array_at_key()")
        super().set_array_at_key(arr, key, index, default_value)

    def _require_rows(self, caller: str) -> None:
        if self._has_sequences():
            raise StructureError(f"{caller} does not support batches with sequences; set a column instead", SEQ_LENS)

    # ---- together and apart ---------------------------------------------------------------------------------------

    def concat(self: S, other: S) -> S:
        """Return a new batch with the steps of this batch and then those of the other. Data is copied.

        Raises:
            LeafError: ``other`` is not a SampleBatch.
            StructureError: the batches have different columns, columns that cannot be concatenated, or different
                padding (a ``ValueError``).
        """
        if not isinstance(other, SampleBatch):
            raise LeafError(f"concat() takes a SampleBatch, got {describe(other)}")
        return Batch.cat([self, other])

    def shuffle(self: S, *, rng: Rng = None) -> S:
        """Shuffle the steps of this batch. The previous arrays are not modified.

        Args:
            rng: A numpy or torch generator, or a seed. None uses numpy's global state.

        Raises:
            StructureError: the batch has ``seq_lens`` (a ``ValueError``).
        """
        if self._has_sequences():
            raise StructureError("sequences cannot be shuffled step by step", SEQ_LENS)
        conversion.adopt(self, take_rows(self, permutation(len(self), rng), None))
        return self

    def split_by_episode(self: S, key: str | None = None) -> list[S]:
        """Return one batch per episode, in the order in which they begin.

        An episode whose steps are contiguous is a view.

        Args:
            key: Name of the column that distinguishes episodes: either an id, which is the same at all steps of an
                episode, or a flag, which is True at an episode's last step. None means ``eps_id`` if it exists, or else
                ``terminateds``, ``truncateds`` and ``dones``.

        Raises:
            MissingFieldError: the column, or all of the default ones, do not exist (a ``KeyError``).
        """
        by = key or (EPISODE_ID if EPISODE_ID in self.__dict__ else None)
        tree, layout = self._flat()
        ends = np.cumsum(lengths_by(tree.__dict__, by, layout.steps))
        pieces = [slice_steps(tree, layout, start, stop) for start, stop in zip([0, *ends], ends, strict=False)]
        ids = None if by is None else np.asarray(conversion.leaf_to_numpy(tree.__dict__[by]))
        if ids is None or is_flag(str(by), ids):
            return pieces
        same = [[pieces[i] for i in numbers] for numbers in groups(ids[ends - 1], str(by))]
        return [parts[0] if len(parts) == 1 else Batch.cat(parts) for parts in same]

    def slice(self: S, start: int, end: int, state_start: int | None = None, state_end: int | None = None) -> S:
        """Return the steps from ``start`` to ``end``, as views unless zeros are added in front or the batch is padded.

        Args:
            start: Number of the first step. If negative, ``-start`` steps of zeros (``None`` for objects) come first.
            end: Number of the step to stop before, at most the number of steps.
            state_start: Number of the first sequence of these steps, which is checked.
            state_end: Number of the sequence to stop before, which is checked.

        Raises:
            SizeError: ``end`` is negative, or an argument is not a whole number.
            StructureError: only one of ``state_start`` and ``state_end`` is passed, or the steps belong to other
                sequences.
        """
        start, end = require_at_least(-sys.maxsize, start, "start"), require_at_least(0, end, "end")
        if (state_start is None) != (state_end is None):
            raise StructureError("slice() takes state_start and state_end together, or neither")
        tree, layout = self._flat()
        stop = max(min(end, layout.steps), start) if start >= 0 else min(end, layout.steps)
        if state_start is not None:
            require_sequences(layout, start, stop, state_start, state_end)
        return slice_steps(tree, layout, start, stop)

    def timeslices(self: S, size: int | None = None, num_slices: int | None = None, k: int | None = None) -> list[S]:
        """Return the steps in consecutive pieces, as views unless the batch is padded.

        Args:
            size: Number of steps of a piece; the last piece may have fewer.
            num_slices: Number of pieces. Their sizes differ by at most one, longer pieces last; with too few steps some
                are empty.
            k: RLlib's older name of ``size`` (deprecated).

        Raises:
            SettingError: not exactly one of the three is passed.
            SizeError: it is below 1.
        """
        if k is not None:
            warnings.warn("timeslices(k=...) is deprecated, use size=", DeprecationWarning, stacklevel=2)
        given = [number for number in (size, num_slices, k) if number is not None]
        if len(given) != 1:
            raise SettingError("timeslices() takes either size or num_slices")
        number = require_at_least(1, given[0], "size" if num_slices is None else "num_slices")
        tree, layout = self._flat()
        if num_slices is None:
            pieces = list(bounds(layout.steps, number, False))
        else:
            size_of_each, rest = divmod(layout.steps, number)
            ends = [i * size_of_each + max(0, i - number + rest) for i in range(number + 1)]
            pieces = list(pairwise(ends))
        return [slice_steps(tree, layout, start, stop) for start, stop in pieces]

    def right_zero_pad(self: S, max_seq_len: int, exclude_states: bool = True) -> S:
        """Put zeros (``None`` for objects) after every sequence of this batch. Data is copied.

        Args:
            max_seq_len: New number of rows of every sequence, and new value of :attr:`max_seq_len`.
            exclude_states: Whether to leave fields with one row per sequence unchanged. Otherwise zeros are put after
                each of their rows as well.

        Raises:
            StructureError: the batch has no ``seq_lens`` (a ``ValueError``).
            SizeError: a sequence is longer than ``max_seq_len`` (a ``ValueError``).
        """
        self._require_uncompressed()
        self.__dict__.update(zero_padded(self, max_seq_len, exclude_states).__dict__)
        return self

    # ---- representation -------------------------------------------------------------------------------------------

    def copy(self: S, shallow: bool = False) -> S:  # like RLlib's; Batch.copy() shares the arrays
        """Return a new batch with copies of all columns. With ``shallow`` it shares them, like ``Batch.copy()``."""
        return copying.shallow(self) if shallow else copying.deep(self, {})

    def to_device(self: S, device: Device, framework: Literal["torch"] = "torch") -> S:
        """Convert numeric columns of this batch to tensors on a device. Dtypes are preserved; objects stay on the CPU.

        Raises:
            SettingError: ``framework`` is not ``"torch"``.
        """
        if framework != "torch":
            raise SettingError(f"to_device() supports only framework='torch', got {framework!r}")
        Batch.to_torch_(self, device=device)
        return self

    def size_bytes(self) -> int:
        """Return the number of bytes of all columns.

        It counts the buffers of arrays and tensors, and ``sys.getsizeof`` of anything else.
        """
        return sum(map(_count_bytes, self.__dict__.values()))

    def as_multi_agent(self, module_id: str | None = None) -> MultiAgentBatch:
        """Return a MultiAgentBatch that holds this batch itself.

        Its policy is ``module_id``, or the default policy.
        """
        from typedbatch.sample_batches.multi_agent import of_one_policy

        return of_one_policy(module_id or DEFAULT_POLICY_ID, self)

    def compress(self: S, bulk: bool = False, columns: Collection[str] = OBSERVATIONS) -> S:
        """Compress columns of numbers of this batch with LZ4. Names that the batch lacks are ignored.

        Args:
            bulk: Whether to compress a column as a whole, which is smaller, but rows cannot be taken. Otherwise each
                row is compressed individually.
            columns: Names of the columns.

        Raises:
            LeafError: a column has objects. No column is compressed then.
            MissingDependencyError: lz4 is not installed.
        """
        return self._replace(columns, lambda column: compress_column(column, bulk))

    def decompress_if_needed(self: S, columns: Collection[str] = OBSERVATIONS) -> S:
        """Decompress columns of this batch. Columns that are not compressed are left unchanged."""
        return self._replace(columns, decompress_column)

    def get_single_step_input_dict(
        self: S, view_requirements: Mapping[str, ViewRequirementLike], index: int | Literal["last"] = "last"
    ) -> S:
        """Return a model's input at one step: a batch of one row, with ``seq_lens`` 1.

        Args:
            view_requirements: Source column and steps of each column of the input, as RLlib's view requirements or
                ``typedbatch.sample_batches.input_dict.ViewRequirement``. Steps before the first are zeros.
            index: Number of the step, or ``"last"`` for the step after the last, whose observation is the last of
                ``new_obs``.

        Raises:
            MissingFieldError: a column does not exist.
            RowIndexError: the step does not exist.
        """
        tree, layout = self._flat()
        columns = single_step_input(tree, layout, view_requirements, index)
        columns[SEQ_LENS] = np.ones(1, np.int32)
        return new_tree(type(self), columns)

    def _replace(self: S, columns: Collection[str], function: Callable[[Any], Any]) -> S:
        """Replace the columns of these names by the function's results. On an error no column changes."""
        self.__dict__.update(replaced(self, columns, function))
        return self


def replaced(batch: SampleBatch, columns: Collection[str], function: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the function's results for those of the named columns that exist."""
    names = [columns] if isinstance(columns, str) else columns
    return for_each({name: batch.__dict__[name] for name in names if name in batch.__dict__}, function)


def _count_bytes(leaf: Any) -> int:
    if type(leaf) is np.ndarray and leaf.dtype != object:
        return leaf.nbytes
    if isinstance(leaf, Tree):
        return sum(map(_count_bytes, leaf.__dict__.values()))
    kind = KINDS[type(leaf)]
    if is_compressed(leaf):
        return sum(map(_count_bytes, leaf)) + leaf.nbytes if kind is ARRAY else len(leaf.data)
    return int(leaf.nbytes) if kind in (ARRAY, TENSOR) else sys.getsizeof(leaf)
