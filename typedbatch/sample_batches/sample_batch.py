"""``SampleBatch``: a Batch with the members of RLlib's, and sequences that stay whole when rows are taken."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, overload

import numpy as np

from typedbatch._ops import conversion, copying
from typedbatch._ops.indexing import take_basic, take_rows
from typedbatch._ops.splitting import Rng, bounds, permutation
from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR, Tree, describe, new_tree
from typedbatch._tree.rows import at_least
from typedbatch._typing import Index
from typedbatch.batch import Batch
from typedbatch.episodes import EPISODE_ID, groups, is_flag, lengths_by
from typedbatch.errors import LeafError, RowIndexError, SettingError, StructureError, under
from typedbatch.sample_batches.compression import Compressed, compress_column, decompress_column, is_compressed
from typedbatch.sample_batches.input_dict import NEXT_OBS, OBS, ViewRequirementLike, single_step_input
from typedbatch.sample_batches.layout import (
    SEQ_LENS,
    Layout,
    count_steps,
    each_step,
    flat,
    layout_of,
    require_parts,
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


class SampleBatch(Batch):
    """Steps of trajectories under RLlib's names, in a :class:`~typedbatch.Batch` with all that a Batch can do.

    ``seq_lens`` cuts the steps into sequences for a recurrent network. Then a step is an element of every column, but
    ``state_in_0``, ``state_in_1``, ... (and ``state_out_...``) may have one row per sequence, and the columns may be
    padded with zeros. Slices cut sequences and keep their states; steps that are taken by an int, a mask or numbers are
    sequences of one step each, beside the state of the sequence that they were in.

    Unlike RLlib's, iteration is over rows, as in every Batch; all columns must have the same length; nothing is
    remembered beside the columns, so nothing is stale.

    Raises:
        StructureError: from any member that counts steps: columns of different lengths, or that do not fit
            ``seq_lens``.

    Modelled on ``ray.rllib.policy.sample_batch.SampleBatch``; docs/sample_batches.md lists where behaviour departs.
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

    _needs_equal_rows = True
    _require_parts: ClassVar[Callable[[Sequence[Mapping[str, Any]]], None] | None] = staticmethod(require_parts)

    def __len__(self) -> int:
        """The number of steps; padding is none."""
        fields = self.__dict__
        return layout_of(fields).steps if "seq_lens" in fields else count_steps(fields)

    @property
    def count(self) -> int:
        """The number of steps, as ``len(batch)``."""
        return len(self)

    def agent_steps(self) -> int:
        """The number of steps, as ``len(batch)``; in a MultiAgentBatch there are more of them than env steps."""
        return len(self)

    def env_steps(self) -> int:
        """The number of steps, as ``len(batch)``."""
        return len(self)

    @property
    def zero_padded(self) -> bool:
        """True when every sequence has :attr:`max_seq_len` rows, those behind its steps being zeros."""
        return layout_of(self.__dict__).padded_to is not None

    @property
    def max_seq_len(self) -> int | None:
        """The rows of every sequence if zero-padded, else the steps of the longest; None without sequences."""
        layout = layout_of(self.__dict__)
        if layout.seq_lens is None or not len(layout.seq_lens):
            return None
        return int(layout.seq_lens.max()) if layout.padded_to is None else layout.padded_to

    @overload
    def __getitem__(self, key: str, /) -> Any: ...
    @overload
    def __getitem__(self: S, index: Index, /) -> S: ...
    def __getitem__(self, index: Any, /) -> Any:
        """A column by its name, or steps: views for slices of what is not padded, else copies.

        Raises:
            MissingFieldError: no such column (a ``KeyError``).
            RowIndexError: there are no such steps, or a column is compressed as a whole.
        """
        if isinstance(index, str) or not self._has_sequences():
            return super().__getitem__(index)
        return take_steps(self, index)

    def __iter__(self: S) -> Iterator[S]:
        """The steps ``batch[0]``, ``batch[1]`` ..., not the names."""
        return each_step(self) if self._has_sequences() else (take_basic(self, i) for i in range(len(self)))

    def __setitem__(self, index: str | Index, value: Any, /) -> None:
        """Set a column by its name, or write steps; see :meth:`set_rows`."""
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
            raise RowIndexError(
                f"compressed as a whole, so it has no rows to take; decompress_if_needed([{names!r}])", names
            )

    def _flat(self: S) -> tuple[S, Layout]:
        """The batch without padding, and its layout."""
        self._require_uncompressed()
        return flat(self, layout_of(self.__dict__))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dict per step; nested columns are dicts too, and ``seq_lens`` is 1."""
        for row in self:
            yield Batch.to_dict(row)

    def to_list_of_dicts(self) -> list[dict[str, Any]]:
        """One dict per step."""
        return list(self.rows())

    def columns(self, keys: Sequence[str]) -> list[Any]:
        """The columns of these names, in this order; they are shared.

        Raises:
            MissingFieldError: no such column.
        """
        return [Batch.__getitem__(self, key) for key in keys]

    def split(self: S, size: int, shuffle: bool = True, merge_last: bool = False, *, rng: Rng = None) -> Iterator[S]:
        """As :meth:`~typedbatch.Batch.split`; sequences are cut where a minibatch ends, and cannot be shuffled.

        Raises:
            StructureError: ``shuffle`` with ``seq_lens``.
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
        """As :meth:`~typedbatch.Batch.set_rows`.

        Raises:
            StructureError: there are ``seq_lens``; steps of sequences are written column by column.
        """
        self._require_rows("set_rows()")
        super().set_rows(index, value, strict=strict)

    def empty_(self: S, index: Index = None) -> S:
        """As :meth:`~typedbatch.Batch.empty_`; ``seq_lens`` stay, and there must not be any if there is an index.

        Raises:
            StructureError: ``index`` with ``seq_lens``.
        """
        if index is not None:
            self._require_rows("empty_(index)")
            return super().empty_(index)
        columns: Batch = new_tree(Batch, {name: v for name, v in self.__dict__.items() if name != SEQ_LENS})
        self.__dict__.update(columns.empty_().__dict__)
        return self

    @staticmethod
    def empty(batch: B, index: Index = None) -> B:
        """As :meth:`~typedbatch.Batch.empty`; ``seq_lens`` stay."""
        made = Batch.empty(batch, index)
        if SEQ_LENS in batch and isinstance(batch, SampleBatch):
            made.__dict__[SEQ_LENS] = copying.deep_leaf(batch.__dict__[SEQ_LENS], {})
        return made

    def set_array_at_key(self, arr: Any, key: str, index: Index = None, default_value: float | None = None) -> None:
        """As :meth:`~typedbatch.Batch.set_array_at_key`.

        Raises:
            StructureError: there are ``seq_lens``; ``batch[key] = arr`` sets a column.
        """
        self._require_rows("set_array_at_key()")
        super().set_array_at_key(arr, key, index, default_value)

    def _require_rows(self, who: str) -> None:
        if self._has_sequences():
            raise StructureError(f"{who} is for batches without sequences; set a column instead", SEQ_LENS)

    # ---- together and apart ---------------------------------------------------------------------------------------

    def concat(self: S, other: S) -> S:
        """The steps of this batch, then those of the other, in a new one. Data is copied.

        Raises:
            LeafError: ``other`` is not a SampleBatch.
            StructureError: other columns, or columns that do not fit; one is zero-padded and the other is not, or to
                another length (a ``ValueError``).
        """
        if not isinstance(other, SampleBatch):
            raise LeafError(f"concat() takes a SampleBatch, got {describe(other)}")
        return Batch.cat([self, other])

    def shuffle(self: S, *, rng: Rng = None) -> S:
        """Put the steps into random order, in this very batch, every column alike; the arrays it had stay as they were.

        Args:
            rng: generator of numpy or torch, or seed, for the order; None uses numpy's global state.

        Raises:
            StructureError: there are ``seq_lens`` (a ``ValueError``).
        """
        if self._has_sequences():
            raise StructureError("sequences cannot be shuffled step by step", SEQ_LENS)
        conversion.adopt(self, take_rows(self, permutation(len(self), rng), None))
        return self

    def split_by_episode(self: S, key: str | None = None) -> list[S]:
        """One batch per episode, in the order in which they begin; views where the steps stand one after the other.

        Args:
            key: the column that tells; None for ``eps_id``, or else ``terminateds``, ``truncateds`` and ``dones``. Of
                an id, all steps with the same value are one episode; flags are true at the last step of one.

        Raises:
            MissingFieldError: no such column, or none of these (a ``KeyError``).
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
        """The steps from ``start`` to ``end``. Views, unless there are zeros in front or the batch is padded.

        Args:
            start: the first step; if negative, so many steps of zeros (``None`` for objects) come first.
            end: the step to stop before; the end of the batch if that comes first.
            state_start: the first sequence that these steps are of, to be checked.
            state_end: the sequence to stop before.

        Raises:
            SizeError: ``end`` is negative, or one of the numbers is not a whole number.
            StructureError: only one of ``state_start`` and ``state_end``, or sequences that the steps are not of.
        """
        start, end = at_least(-sys.maxsize, start, "start"), at_least(0, end, "end")
        if (state_start is None) != (state_end is None):
            raise StructureError("slice() takes state_start and state_end together, or neither")
        tree, layout = self._flat()
        stop = max(min(end, layout.steps), start) if start >= 0 else min(end, layout.steps)
        if state_start is not None:
            require_sequences(layout, start, stop, state_start, state_end)
        return slice_steps(tree, layout, start, stop)

    def timeslices(self: S, size: int | None = None, num_slices: int | None = None, k: int | None = None) -> list[S]:
        """The steps in pieces, in order, every step in one of them. Views, unless the batch is padded.

        Args:
            size: steps of a piece; the last one has what is left.
            num_slices: the number of pieces, whose sizes differ by one at most, the longer ones last; empty ones if
                there are too few steps.
            k: RLlib's older name of ``size`` (deprecated).

        Raises:
            SettingError: not exactly one of the three is given.
            SizeError: it is below 1.
        """
        if k is not None:
            warnings.warn("timeslices(k=...) is deprecated, use size=", DeprecationWarning, stacklevel=2)
        given = [number for number in (size, num_slices, k) if number is not None]
        if len(given) != 1:
            raise SettingError("timeslices() takes either size or num_slices")
        number = at_least(1, given[0], "size" if num_slices is None else "num_slices")
        tree, layout = self._flat()
        if num_slices is None:
            pieces = list(bounds(layout.steps, number, False))
        else:
            least, more = divmod(layout.steps, number)
            ends = [i * least + max(0, i - number + more) for i in range(number + 1)]
            pieces = list(pairwise(ends))
        return [slice_steps(tree, layout, start, stop) for start, stop in pieces]

    def right_zero_pad(self: S, max_seq_len: int, exclude_states: bool = True) -> S:
        """Put zeros (``None`` for objects) behind every sequence, in this very batch; data is copied.

        Args:
            max_seq_len: the rows that every sequence then has; :attr:`max_seq_len` says so from then on.
            exclude_states: leave the fields with one row per sequence as they are; otherwise zeros come behind these
                rows too.

        Raises:
            StructureError: there are no ``seq_lens`` (a ``ValueError``).
            SizeError: a sequence is longer (a ``ValueError``).
        """
        self._require_uncompressed()
        self.__dict__.update(zero_padded(self, max_seq_len, exclude_states).__dict__)
        return self

    # ---- representation -------------------------------------------------------------------------------------------

    def copy(self: S, shallow: bool = False) -> S:  # as RLlib has it; Batch.copy() shares the arrays
        """A new batch with copies of all columns; with ``shallow`` it shares them, as that of a Batch does."""
        return copying.shallow(self) if shallow else copying.deep(self, {})

    def to_device(self: S, device: Device, framework: Literal["torch"] = "torch") -> S:
        """Turn numeric columns into tensors on a device, in this very batch. Dtypes stay; objects stay on the CPU.

        Raises:
            SettingError: another framework.
        """
        if framework != "torch":
            raise SettingError(f"to_device() makes tensors of torch, and knows no framework {framework!r}")
        Batch.to_torch_(self, device=device)
        return self

    def size_bytes(self) -> int:
        """Bytes of all columns: of the buffers of arrays and tensors, of anything else what ``sys.getsizeof`` says."""
        return sum(map(_size, self.__dict__.values()))

    def as_multi_agent(self, module_id: str | None = None) -> MultiAgentBatch:
        """A MultiAgentBatch that holds this very batch, for the default policy if no other is named."""
        from typedbatch.sample_batches.multi_agent import of_one_policy

        return of_one_policy(module_id or DEFAULT_POLICY_ID, self)

    def compress(self: S, bulk: bool = False, columns: Collection[str] = OBSERVATIONS) -> S:
        """Compress columns of numbers with LZ4, in this very batch; names that it lacks do not matter.

        Args:
            bulk: a column as a whole, which is smaller; but then no rows can be taken. Otherwise every row by itself.
            columns: the names.

        Raises:
            LeafError: a column of objects; nothing is compressed then.
            MissingDependencyError: lz4 is not installed.
        """
        return self._replace(columns, lambda column: compress_column(column, bulk))

    def decompress_if_needed(self: S, columns: Collection[str] = OBSERVATIONS) -> S:
        """Undo :meth:`compress`, in this very batch; columns that are not compressed stay."""
        return self._replace(columns, decompress_column)

    def get_single_step_input_dict(
        self: S, view_requirements: Mapping[str, ViewRequirementLike], index: int | Literal["last"] = "last"
    ) -> S:
        """What a model reads at one step: a batch of one row, with ``seq_lens`` 1.

        Args:
            view_requirements: for each column which one it shows, of which steps; RLlib's own or
                ``typedbatch.sample_batches.input_dict.ViewRequirement``. Steps before the first are zeros.
            index: the step; ``"last"`` for the one after the last, whose observation is the last of ``new_obs``.

        Raises:
            MissingFieldError: a column is not there.
            RowIndexError: there is no such step.
        """
        tree, layout = self._flat()
        columns = single_step_input(tree, layout, view_requirements, index)
        columns[SEQ_LENS] = np.ones(1, np.int32)
        one_step: S = new_tree(type(self), columns)
        return one_step

    def _replace(self: S, columns: Collection[str], function: Callable[[Any], Any]) -> S:
        """What the function makes of the columns of these names, in their place; on an error all stay."""
        self.__dict__.update(replaced(self, columns, function))
        return self


def replaced(batch: SampleBatch, columns: Collection[str], function: Callable[[Any], Any]) -> dict[str, Any]:
    """What the function makes of the columns of these names that there are."""
    new = {}
    for name in [columns] if isinstance(columns, str) else columns:
        if name in batch.__dict__:
            with under(name):
                new[name] = function(batch.__dict__[name])
    return new


def _size(leaf: Any) -> int:
    if type(leaf) is np.ndarray and leaf.dtype != object:
        return leaf.nbytes
    if isinstance(leaf, Tree):
        return sum(map(_size, leaf.__dict__.values()))
    kind = KINDS[type(leaf)]
    if is_compressed(leaf):
        return sum(map(_size, leaf)) + leaf.nbytes if kind is ARRAY else len(leaf.data)
    return int(leaf.nbytes) if kind in (ARRAY, TENSOR) else sys.getsizeof(leaf)
