"""Buffers of several environments: ``VectorReplayBuffer``, with a ring for each, and ``CachedReplayBuffer``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import describe
from typedbatch.buffers import incoming, transfer
from typedbatch.buffers.arguments import MOST_RINGS, MOST_SLOTS, BufferOptions, R, S, count_of
from typedbatch.buffers.declared import DeclaredTypes, library_class
from typedbatch.buffers.guard import locked_for_writing
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Added, Slots
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import LeafError, StructureError


def capacities(total_size: int, buffer_num: int) -> list[int]:
    """Return the capacities of ``buffer_num`` equal rings for ``total_size`` rows, rounded up."""
    total_size, buffer_num = count_of(total_size, "total_size"), count_of(buffer_num, "buffer_num", 1, MOST_RINGS)
    return [-(-total_size // buffer_num)] * buffer_num


class VectorReplayBuffer(ReplayBuffer[R, S]):
    """The last transitions of ``buffer_num`` environments, with a ring for each, so that episodes are contiguous.

    ``add`` takes a row for each environment, or for each of ``buffer_ids``, and writes all of them at once.

    Args:
        total_size: Number of transitions to store, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: Number of environments.
        **options: Options of :class:`ReplayBuffer`.
    """

    def __init__(self, total_size: int, buffer_num: int, **options: Unpack[BufferOptions]) -> None:
        self._begin(State(type(self), capacities(total_size, buffer_num), options, many=True))


class CachedReplayBuffer(ReplayBuffer[R, S]):
    """A main buffer, and a cache for each of ``cached_buffer_num`` environments, in one storage.

    Transitions are added to the caches. When an episode ends, it moves to the main buffer, where its rows follow one
    another. Slots are numbered through the main buffer first, then through each cache. Both are sampled from.

    Args:
        main_buffer: Empty ``ReplayBuffer``, which remains usable: it shares its rows with this buffer.
        cached_buffer_num: Number of environments.
        max_episode_length: Capacity of each cache in rows; only the last rows of a longer episode are stored.
        path: Folder to store the rows in, instead of memory.

    Raises:
        LeafError: ``main_buffer`` is not a plain ``ReplayBuffer``.
        StructureError: ``main_buffer`` holds rows already, or is on disk.
        SizeError: ``cached_buffer_num`` or ``max_episode_length`` is below 1, or too high.
    """

    def __init__(
        self,
        main_buffer: ReplayBuffer[R, S],
        cached_buffer_num: int,
        max_episode_length: int,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if library_class(type(main_buffer)) is not ReplayBuffer:
            raise LeafError(f"the main buffer is a ReplayBuffer, got {describe(main_buffer)}")
        main = state_of(main_buffer)
        if main.columns.__dict__:
            raise StructureError("the main buffer must be empty; pass a new ReplayBuffer")
        if main.storage.durable:
            raise StructureError("the main buffer must be in memory; pass path= to the CachedReplayBuffer instead")
        caches = count_of(cached_buffer_num, "cached_buffer_num", 1, MOST_RINGS)
        rows = count_of(max_episode_length, "max_episode_length", 1, MOST_SLOTS // caches)
        sizes = [main_buffer.maxsize] + [rows] * caches
        self._begin(CachedState(main.hint, type(self), sizes, {**main.options, "path": path}))
        self._parts = [main_buffer, *self.buffers[1:]]
        self._state.parts[0] = main
        self._state.share_columns()

    @property
    def cached_buffer_num(self) -> int:
        """Number of caches."""
        return self.buffer_num - 1

    @property
    def main_buffer(self) -> ReplayBuffer[R, S]:
        """Buffer of finished episodes, which is the one that was passed in and shares its rows with this one."""
        return self._parts[0]

    @property
    def cached_buffers(self) -> list[ReplayBuffer[R, S]]:
        """Caches of unfinished episodes, each as a buffer that shares its rows with this one."""
        return [*self._parts[1:]]

    @locked_for_writing
    def add(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add a transition to each cache, or to each of ``buffer_ids``, and move the episodes that end.

        Returns:
            The same as :meth:`ReplayBuffer.add`. For an episode that ended, ``slots`` and ``ep_start`` are the slots
            of its last and first row in the main buffer, or -1 when that has a capacity of 0.

        Raises:
            StructureError: A cache does not exist, or is named twice. All errors of :meth:`ReplayBuffer.add`
                are raised too.
        """
        state = self._state
        caches, rows = incoming.ring_ids(self.cached_buffer_num, buffer_ids)
        if rows == 1 and buffer_ids is not None:
            batch = incoming.single_row(state, batch)
        ids = np.arange(self.cached_buffer_num)[caches] + 1
        if len(set(ids.tolist())) < rows:
            text = f"add() takes at most one row for each cache, got buffer_ids {buffer_ids}; extend() takes several"
            raise StructureError(text)
        plan, rew, done = incoming.check_rows(state, batch, (rows,))

        def add() -> Added:
            added = incoming.add_many(state, plan, ids, rew, done)
            for row in np.flatnonzero(done):
                added.ep_start[row], added.slots[row] = _move(state, ids[row])
            return added

        # The rollback finishes the moves: after an interruption, episodes that have ended are moved all the same.
        return state.transaction(state.on_reopened, add)

    @locked_for_writing
    def extend(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add rows in time order, as repeated calls of :meth:`add` would; episodes move as they end.

        All rows are checked before the first is added. A call that is interrupted may have added the first rows.
        Rows that alternate between the caches are added fastest.

        Args:
            batch: Rows, with fields of shape ``(n, ...)``.
            buffer_ids: Number of the cache of each row; optional if there is only one cache.

        Returns:
            The same as :meth:`add`, with an entry for each row.

        Raises:
            StructureError: There are several caches, and ``buffer_ids`` does not name one for each row. All errors of
                :meth:`ReplayBuffer.extend` are raised too.
        """
        ids = incoming.ids_of_rows(self.cached_buffer_num, batch, buffer_ids)
        if not len(ids):
            return Added.nothing()
        incoming.check_rows(self._state, batch, (len(ids),))  # raises before the first row is added
        # Each part of the rows has at most one for each cache, as add() requires.
        begins, seen = [0], set[int]()
        for row, ring in enumerate(ids.tolist()):
            if ring in seen:
                begins.append(row)
                seen.clear()
            seen.add(ring)
        rows: Any = batch
        added = [self.add(rows[begin:end], ids[begin:end]) for begin, end in pairwise([*begins, len(ids)])]
        return Added(*(np.concatenate(columns) for columns in zip(*added, strict=True)))

    def update(self, buffer: ReplayBuffer[Any, Any]) -> NDArray[np.intp]:
        """Add the rows of another buffer to the main buffer, as :meth:`ReplayBuffer.update` does."""
        return transfer.update(self._state, state_of(buffer, "update()"), ring=0)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._parts = self.buffers


class CachedState(State):
    """State of a cached buffer, whose first ring is the main buffer. :class:`State` describes the other arguments."""

    def __init__(self, main_hint: Any, cls: type, capacities: list[int], options: BufferOptions) -> None:
        super().__init__(cls, capacities, options, many=True)
        self.main_hint: Any = main_hint
        """Class of the main buffer, with its type arguments."""

    @property
    def inputs(self) -> int:
        return len(self.rings.capacity) - 1

    def declared_elsewhere(self) -> DeclaredTypes:
        """Return the declaration of the main buffer, for a cached buffer without type arguments of its own."""
        return DeclaredTypes(self.main_hint)

    def cut_episodes(self, ids: Slots | None = None) -> None:
        """Truncate the episodes of some caches, by default all, as :meth:`State.cut_episodes` does, and move them."""
        super().cut_episodes(None if ids is None else ids + 1)
        self.transaction(self.on_reopened, self.on_reopened)

    def on_reopened(self) -> None:
        """Move the episodes that have ended and are still in a cache, because the process was killed before."""
        if self.columns.__dict__:
            for ring in range(1, len(self.rings.capacity)):
                if self.rings.length[ring] and self.done[self.rings.last[ring]]:
                    _move(self, ring)

    def arguments(self) -> dict[str, Any]:
        main, *caches = self.rings.capacity.tolist()
        return {
            "main_buffer": {"size": main, **self.options},
            "cached_buffer_num": len(caches),
            "max_episode_length": caches[0],
        }


def _move(state: State, ring: int) -> tuple[int, int]:
    """Move the episode in a cache to the main buffer, and return its first and last slot there, -1 without capacity."""
    slots = state.rings.part(ring).chronological() + state.rings.offset[ring]
    moved = transfer.move(state, 0, state, slots, emptied=ring)
    state.rings.reset(slice(ring, ring + 1))  # move() does nothing if the main buffer has a capacity of 0
    return (int(moved[0]), int(moved[-1])) if len(moved) else (-1, -1)
