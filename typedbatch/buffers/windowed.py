"""``WindowedBuffer``: buffers that windows of consecutive rows are sampled from, for recurrent policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeForm

from typedbatch._core.lengths import MOST_ROWS, require_at_least, require_at_most
from typedbatch._ops.padding import zero_absent
from typedbatch._validation.convert import convert
from typedbatch.buffers.arguments import count_of, require_into
from typedbatch.buffers.guard import locked
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State
from typedbatch.errors import EmptyBufferError, StructureError
from typedbatch.protocols import BatchProtocol

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype

T = TypeVar("T")
S_co = TypeVar("S_co", bound=BatchProtocol, covariant=True)

_OF_FIRST_ROWS: Final = "state_in"
"""Field of which a window has the value of its first row alone: the state that a recurrent policy began with."""

_OF_WINDOWS: Final = ("mask", "is_pad", "is_first")
"""Fields of windows that rows do not have."""


class WindowedBuffer(Generic[S_co]):
    """The method of a buffer that samples windows of rows."""

    _state: State

    @overload
    def sample_sequences(
        self, batch_size: int, length: int, *, burn_in: int = 0, stride: int = 1, pad: bool = True
    ) -> tuple[S_co, Slots]: ...
    @overload
    def sample_sequences(
        self, batch_size: int, length: int, *, burn_in: int = 0, stride: int = 1, pad: bool = True,
        into: TypeForm[T], device: Device | None = None, dtype: Dtype | None = None,
    ) -> tuple[T, Slots]: ...  # fmt: skip
    @overload  # for jedi, which does not support TypeForm; type checkers never reach this overload
    def sample_sequences(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
        self, batch_size: int, length: int, *, burn_in: int = 0, stride: int = 1, pad: bool = True,
        into: type[T], device: Device | None = None, dtype: Dtype | None = None,
    ) -> tuple[T, Slots]: ...  # fmt: skip
    def sample_sequences(
        self, batch_size: int, length: int, *, burn_in: int = 0, stride: int = 1, pad: bool = True,
        into: Any = None, device: Device | None = None, dtype: Dtype | None = None,
    ) -> Any:  # fmt: skip
        """Sample windows of consecutive rows of one episode at random, with replacement.

        Every window has T = ``burn_in + length`` rows, in fields of shape ``(n, T, ...)``: those to learn from begin at
        ``[:, burn_in]``, and those before them are there to compute a state. Rows that the episode lacks, before its
        beginning and behind its end, are zeros (``None`` for objects). Windows have three more fields, bool ``(n, T)``:
        ``mask`` is true for the rows to learn from, ``is_pad`` for zeros, and ``is_first`` for the first row of an
        episode, except for the oldest row of a full ring, before which others may have been overwritten. A field
        ``state_in``, as collectors record it, is that of the first row that is there, ``(n, ...)``.

        Windows begin to learn at every ``stride``-th row of an episode, counted from its oldest stored row, and all are
        equally likely. In a prioritized buffer, they are as likely as this row: ``update_weight(slots[:, burn_in],
        priorities)`` sets the priorities of windows, and ``weight`` has one for each, ``(n,)``.

        Args:
            batch_size: Number of windows, n; 0 for all in time order, ring by ring.
            length: Number of rows to learn from, at least 1.
            burn_in: Number of rows before them, from which a recurrent policy computes its state.
            stride: Number of rows between the beginnings of windows.
            pad: Whether windows reach beyond the end of their episode, and of its stored rows; False for those alone
                that have ``length`` rows to learn from.
            into: Protocol or record to convert the sample to, as :meth:`ReplayBuffer.sample` does; a record of windows
                derives from that of rows, and has ``mask`` and what else is used.
            device: Device of the tensors of ``into``; None to leave them where they are.
            dtype: Dtype of floating values of ``into``; None to leave it unchanged.

        Returns:
            The windows, whose values are copied, and their slots, ``(n, T)``. The slot of a row of zeros is that of the
            row next to it that is there.

        Raises:
            EmptyBufferError: The buffer is empty; or, without ``pad``, no episode has ``length`` stored rows.
            StructureError: The rows have a field ``mask``, ``is_pad`` or ``is_first``.
            SizeError: ``batch_size``, ``length``, ``burn_in`` or ``stride`` is too low or no whole number, or windows
                are larger than arrays can be.
            SettingError: The buffer changes goals row by row, as a ``HERReplayBuffer`` does; or ``device`` or ``dtype``
                is passed without ``into``. Errors of :func:`typedbatch.convert` are raised too.
            SchemaError: The windows do not match ``into``.

        As in R2D2 (Kapturowski et al., 2019), where ``stride`` is half of ``length``.
        """
        require_into(into, device, dtype)
        windows, slots = self._sample_windows(batch_size, length, burn_in, stride, pad)
        return windows if into is None else convert(windows, into, device=device, dtype=dtype), slots

    @locked
    def _sample_windows(self, batch_size: int, length: int, burn_in: int, stride: int, pad: bool) -> tuple[S_co, Slots]:
        state = self._state
        count, length = count_of(batch_size, "batch_size"), require_at_least(1, length, "length")
        burn_in, stride = require_at_least(0, burn_in, "burn_in"), require_at_least(1, stride, "stride")
        require_at_most(MOST_ROWS // max(count, 1), burn_in + length, "burn_in + length")
        if not state.columns.__dict__ or not len(state.rings):
            raise state.empty()
        if taken := [name for name in _OF_WINDOWS if name in state.columns.__dict__]:
            raise StructureError(f"windows have a field {taken[0]} of their own; rename that of the rows", taken[0])
        windows = _drawn(state, count, length, burn_in, stride, pad)
        slots = state.rings.hand_out(windows.slots)
        batch = state.rows(slots, {_OF_FIRST_ROWS: slots[:, 0]})  # Before the first row, its slot is repeated.
        fields = batch.__dict__
        zero_absent({name: value for name, value in fields.items() if name != _OF_FIRST_ROWS}, windows.is_pad)
        fields.update(state.fields_of_windows(slots[:, burn_in]))
        fields.update(mask=windows.mask, is_pad=windows.is_pad, is_first=windows.is_first)
        return batch, slots


class _Windows(NamedTuple):
    slots: Slots
    """Slots of the rows, ``(n, T)``, with those of the first and last one repeated where there is none."""
    mask: NDArray[np.bool_]
    is_pad: NDArray[np.bool_]
    is_first: NDArray[np.bool_]


def _drawn(state: State, count: int, length: int, burn_in: int, stride: int, pad: bool) -> _Windows:
    """Draw windows, or return all if ``count`` is 0."""
    rings = state.rings
    firsts, sizes = rings.episodes(state.flags())
    counts = -(-sizes // stride) if pad else np.maximum((sizes - length) // stride + 1, 0)
    ends = counts.cumsum()
    if not (total := int(ends[-1])):
        longest = int(sizes.max())
        text = f"no stored episode has {length} rows, the longest has {longest}; pad=True samples what there is"
        raise EmptyBufferError(text)

    def placed(numbers: Slots) -> tuple[Slots, Slots]:
        """Return the number of the episode of each window, and its first row to learn from there."""
        episodes = ends.searchsorted(numbers, side="right")
        return episodes, (numbers - (ends - counts)[episodes]) * stride

    def begins_of(numbers: Slots) -> Slots:
        episodes, rows = placed(numbers)
        return rings.nth(firsts[episodes] + rows)

    numbers = state.draw_windows(total, count, begins_of)
    episodes, learned = placed(numbers)
    rows = learned[:, None] + np.arange(-burn_in, length)
    last = sizes[episodes][:, None] - 1
    is_pad = (rows < 0) | (rows > last)
    slots = rings.nth(firsts[episodes][:, None] + np.clip(rows, 0, last))
    is_first = (rows == 0) & ~rings.may_be_cut(slots[:, :1])
    mask = ~is_pad
    mask[:, :burn_in] = False
    return _Windows(slots, mask, is_pad, is_first)
