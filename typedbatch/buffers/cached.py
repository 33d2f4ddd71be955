"""``CachedReplayBuffer``: episodes are gathered beside each other, and moved into one buffer whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.leaves import describe
from typedbatch._tree.rows import at_least
from typedbatch.buffers import bulk, incoming, restore
from typedbatch.buffers.declared import Declared
from typedbatch.buffers.guard import changing
from typedbatch.buffers.options import BufferOptions, R, S
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Added, Rings
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

    _many = True

    def __init__(
        self,
        main_buffer: ReplayBuffer[R, S],
        cached_buffer_num: int,
        max_episode_length: int,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if restore.library_class(type(main_buffer)) is not ReplayBuffer:
            raise LeafError(f"the main buffer is a ReplayBuffer, got {describe(main_buffer)}")
        if main_buffer._columns.__dict__ or main_buffer._storage.durable:
            raise StructureError("the main buffer is empty and in memory; a path is given to the CachedReplayBuffer")
        at_least(1, cached_buffer_num, "cached_buffer_num")
        at_least(1, max_episode_length, "max_episode_length")
        options: BufferOptions = {**main_buffer._options, "path": path}
        super().__init__(0, **options)
        self.cached_buffer_num: int = cached_buffer_num
        self._max_episode_length: int = max_episode_length
        self._rings = Rings([main_buffer.maxsize] + [max_episode_length] * cached_buffer_num)
        self._adopt(main_buffer)
        self._begin(CachedReplayBuffer)

    def _adopt(self, main_buffer: ReplayBuffer[R, S]) -> None:
        """Make a buffer the one that finished episodes are in."""
        self._parts = [main_buffer, *self.buffers[1:]]
        self._share_columns()

    def _declaration(self) -> Declared:
        declared = super()._declaration()
        if not declared.says and (main := Declared(self.main_buffer)).says:
            declared = self._declared = main
        return declared

    @property
    def main_buffer(self) -> ReplayBuffer[R, S]:
        """What finished episodes are in: the buffer that was given, which shares its rows with this one."""
        return self._parts[0]

    @property
    def cached_buffers(self) -> list[ReplayBuffer[R, S]]:
        """What episodes that go on are in: each cache as a buffer that shares its rows with this one."""
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
        caches, rows = incoming.ring_ids(self.cached_buffer_num, buffer_ids)
        if rows == 1 and buffer_ids is not None:
            batch = incoming.single_row(batch)
        ids = np.arange(self.cached_buffer_num)[caches] + 1
        if len(set(ids.tolist())) < rows:
            raise StructureError(f"an episode that ends is moved at once, so each cache comes once, got {buffer_ids}")
        fields, done, rew = incoming.to_store(self, batch, (rows,))
        plan = self._plan(batch, fields, (rows,))

        def add() -> Added:
            added = self._add_many(plan, ids, rew, done)
            for row in np.flatnonzero(done):
                added.ep_start[row], added.slots[row] = self._move(ids[row])
            return added

        # if it is interrupted, episodes that have ended are moved all the same
        return self._change(self._on_reopened, add)

    def _move(self, ring: int) -> tuple[int, int]:
        slots = self._rings.part(ring).chronological() + self._rings.offset[ring]
        moved = bulk.move(self, 0, self, slots, emptied=ring)
        self._rings.reset(slice(ring, ring + 1))  # without a main buffer there is no move
        return (int(moved[0]), int(moved[-1])) if len(moved) else (-1, -1)

    def _on_reopened(self) -> None:
        if not self._columns.__dict__:
            return
        for ring in range(1, self.cached_buffer_num + 1):
            if self._rings.length[ring] and self.done[self._rings.last[ring]]:
                self._move(ring)  # it was killed between the end of the episode and its move

    def update(self, buffer: ReplayBuffer[Any, Any]) -> NDArray[np.intp]:
        """Add the rows of another buffer to the main buffer, as :meth:`ReplayBuffer.update`."""
        return bulk.update_ring(self, 0, buffer)

    def _arguments(self) -> dict[str, Any]:
        return {
            "main_buffer": {"size": self.main_buffer.maxsize, **self._options},
            "cached_buffer_num": self.cached_buffer_num,
            "max_episode_length": self._max_episode_length,
        }

    @classmethod
    def _make_empty(cls, arguments: dict[str, Any]) -> Any:
        return super()._make_empty({**arguments, "main_buffer": ReplayBuffer[R, S](**arguments["main_buffer"])})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._parts = self.buffers
