"""``CachedReplayBuffer``: episodes are gathered beside each other, and moved into one buffer whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.leaves import describe
from typedbatch.buffers import bulk, incoming
from typedbatch.buffers.declared import Declared, library_class
from typedbatch.buffers.guard import changing
from typedbatch.buffers.options import BufferOptions, R, S
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Added, Slots
from typedbatch.buffers.settings import MOST_SLOTS, count_of, ring_count
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import LeafError, StructureError


class CachedReplayBuffer(ReplayBuffer[R, S]):
    """A main buffer, and a cache for each of ``cached_buffer_num`` environments, in one storage.

    Transitions go into the caches; when an episode ends, it moves to the main buffer, where it is in one piece. Slots
    are those of the main buffer, then those of each cache. Both are sampled from.

    Args:
        main_buffer: an empty ``ReplayBuffer``. It goes on being usable: it shares its rows with this one.
        cached_buffer_num: environments.
        max_episode_length: rows of each cache; of a longer episode only the last so many are kept.
        path: a folder to keep the rows in, instead of memory.

    Raises:
        LeafError: ``main_buffer`` is not a plain ``ReplayBuffer``.
        StructureError: it holds rows already, or is on disk.
        SizeError: no caches, or caches without rows.
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
        if main.columns.__dict__ or main.storage.durable:
            raise StructureError("the main buffer is empty and in memory; a path is given to the CachedReplayBuffer")
        caches = ring_count(cached_buffer_num, "cached_buffer_num")
        rows = count_of(max_episode_length, "max_episode_length", 1, MOST_SLOTS // caches)
        sizes = [main_buffer.maxsize] + [rows] * caches
        self._begin(CachedState(type(self), sizes, {**main.options, "path": path}, main.hint))
        self._parts = [main_buffer, *self.buffers[1:]]
        self._state.parts[0] = main
        self._state.share_columns()

    @property
    def cached_buffer_num(self) -> int:
        """How many caches there are."""
        return self.buffer_num - 1

    @property
    def main_buffer(self) -> ReplayBuffer[R, S]:
        """The buffer of finished episodes that was given, which shares its rows with this one."""
        return self._parts[0]

    @property
    def cached_buffers(self) -> list[ReplayBuffer[R, S]]:
        """The caches of episodes that go on, each as a buffer that shares its rows with this one."""
        return [*self._parts[1:]]

    @changing
    def add(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add a transition to each cache, or to each of ``buffer_ids``, and move the episodes that end.

        Returns:
            As :meth:`ReplayBuffer.add`; for an episode that ended, the slots of its last and first row in the main
            buffer, -1 when that has no room at all.

        Raises:
            StructureError: a cache that does not exist, or that comes twice; and what :meth:`ReplayBuffer.add` raises.
        """
        state = self._state
        caches, rows = incoming.ring_ids(self.cached_buffer_num, buffer_ids)
        if rows == 1 and buffer_ids is not None:
            batch = incoming.single_row(batch)
        ids = np.arange(self.cached_buffer_num)[caches] + 1
        if len(set(ids.tolist())) < rows:
            raise StructureError(f"an episode that ends is moved at once, so each cache comes once, got {buffer_ids}")
        fields, done, rew = incoming.to_store(state, batch, (rows,))
        plan = state.plan(batch, fields, (rows,))

        def add() -> Added:
            added = state.add_many(plan, ids, rew, done)
            for row in np.flatnonzero(done):
                added.ep_start[row], added.slots[row] = _move(state, ids[row])
            return added

        # if it is interrupted, episodes that have ended are moved all the same
        return state.change(state.on_reopened, add)

    @changing
    def extend(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add rows in the order of time, as :meth:`add` would one after the other; episodes move as they end.

        Rows are looked at before any is added. If it is interrupted, the first ones may be there. It is quickest where
        rows of different caches take turns.

        Args:
            batch: the rows: fields of shape ``(n, ...)``.
            buffer_ids: the cache of each row; it may be left out where there is only one.

        Returns:
            As :meth:`add`, with an entry for each row.

        Raises:
            StructureError: there are several caches, and not one is given for each row; and what
                :meth:`ReplayBuffer.extend` raises.
        """
        ids = incoming.ids_of_rows(self.cached_buffer_num, batch, buffer_ids)
        if not len(ids):
            return Added.nothing()
        fields, _, _ = incoming.to_store(self._state, batch, (len(ids),))
        self._state.plan(batch, fields, (len(ids),))  # all fit, or none is added
        rows: Any = batch
        added = [self.add(rows[now], ids[now]) for now in _without_repetition(ids)]
        return Added(*(np.concatenate(columns) for columns in zip(*added, strict=True)))

    def update(self, buffer: ReplayBuffer[Any, Any]) -> NDArray[np.intp]:
        """Add the rows of another buffer to the main buffer, as :meth:`ReplayBuffer.update`."""
        return bulk.update_ring(self._state, 0, state_of(buffer, "update()"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._parts = self.buffers


class CachedState(State):
    """Rows of which those of finished episodes are in the first ring.

    Args:
        cls: the class of the buffer.
        capacities: slots of the main buffer, and of each cache.
        options: what the main buffer was made with.
        main_hint: the class of the main buffer, with what it was declared to hold.
    """

    def __init__(self, cls: type, capacities: list[int], options: BufferOptions, main_hint: Any) -> None:
        super().__init__(cls, capacities, options, many=True)
        self.main_hint: Any = main_hint

    def declared_elsewhere(self) -> Declared:
        """What the main buffer is declared to hold."""
        return Declared(self.main_hint)

    def cut_episodes(self, ids: Slots) -> None:
        """As :meth:`State.cut_episodes`, for caches; their episodes are moved then."""
        super().cut_episodes(ids + 1)
        self.change(self.on_reopened, self.on_reopened)

    def on_reopened(self) -> None:
        """Move the episodes that have ended, if the process was killed before it did."""
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


def _without_repetition(ids: Slots) -> Iterator[slice]:
    """Ranges of rows, one after the other, in each of which a cache comes once: its episode may end, and move."""
    begin, met = 0, set[int]()
    for place, ring in enumerate(ids.tolist()):
        if ring in met:
            yield slice(begin, place)
            begin, met = place, set()
        met.add(ring)
    yield slice(begin, len(ids))


def _move(state: State, ring: int) -> tuple[int, int]:
    """Move the episode in a cache to the main buffer: the slots of its first and last row there."""
    slots = state.rings.part(ring).chronological() + state.rings.offset[ring]
    moved = bulk.move(state, 0, state, slots, emptied=ring)
    state.rings.reset(slice(ring, ring + 1))  # without a main buffer there is no move
    return (int(moved[0]), int(moved[-1])) if len(moved) else (-1, -1)
