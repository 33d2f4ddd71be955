"""Rings: where the next row goes in each of the rings that lie one after the other in a buffer, and what is next to it.

Slots are numbered through all rings. The rows of a ring are the ``length`` slots before ``insertion``, wrapping around
at its capacity. Everything is kept in arrays, so that n environments are one operation, part of the rings a view, and
the state of all of them one copy when it goes to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typedbatch.errors import RowIndexError, SizeError

Slots = NDArray[np.intp]
Ids = Any
"""Which rings: an array of numbers, or ``slice(None)`` for all of them."""


_ZERO, _NONE = np.zeros(1), np.zeros(1, np.intp)
_ONE = np.ones(1, np.int64)  # an array, as numpy takes longer for a number


class Added(NamedTuple):
    """What became of rows that were added, one entry per row, as Tianshou's ``add`` returns it."""

    slots: Slots
    """The slot of each row."""
    ep_return: NDArray[Any]
    """Sum of the rewards of the episode that the row ended, 0 if it goes on; shape ``(n, *rew)``."""
    ep_len: NDArray[np.intp]
    """Steps of the episode that the row ended, 0 if it goes on."""
    ep_start: Slots
    """The slot in which the row's episode began."""

    @classmethod
    def nothing(cls) -> Added:
        """What became of no rows."""
        none = np.zeros(0, np.intp)
        return cls(none, np.zeros(0), none.copy(), none.copy())


class Rings:
    """The positions of one or more rings, and the statistics of the episode that each is in.

    Args:
        capacities: slots of each ring.
    """

    def __init__(self, capacities: Sequence[int]) -> None:
        self.edges: Slots = np.concatenate([[0], np.cumsum(capacities, dtype=np.intp)]).astype(np.intp)
        self.capacity: Slots = np.asarray(capacities, np.intp)
        self.counts: NDArray[np.int64] = np.zeros((4, len(capacities)), np.int64)
        self.ep_return: NDArray[np.float64] = np.zeros(len(capacities))
        self._name_counts()

    def _name_counts(self) -> None:
        self.offset: Slots = self.edges[:-1]
        self.insertion: Slots = self.counts[0]
        self.length: Slots = self.counts[1]
        self.ep_len: Slots = self.counts[2]
        self.ep_start: Slots = self.counts[3]
        ones = np.ones_like(self.length)
        self._row: Slots = np.stack([ones, ones, ones, ones * 0])
        """What a row in each ring adds to the counts: as many numbers as those, which numpy takes to most quickly."""
        self._row_if_full: Slots = np.stack([ones, ones * 0, ones, ones * 0])
        equal = len(self.capacity) and (self.capacity == self.capacity[0]).all()
        self.size: int = int(self.edges[-1])
        """Slots of all rings."""
        self.equal: int = int(self.capacity[0]) if equal else 0
        """The capacity that all rings have; 0 if they differ."""

    def part(self, ring: int) -> Rings:
        """One ring by itself, its slots numbered from 0; what happens to it happens to this one."""
        out = object.__new__(Rings)
        out.edges = np.array([0, self.capacity[ring]], np.intp)
        out.capacity = self.capacity[ring : ring + 1]
        out.counts = self.counts[:, ring : ring + 1]
        out.ep_return = self.ep_return[ring : ring + 1]
        out._name_counts()
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {"edges": self.edges, "capacity": self.capacity, "counts": self.counts, "ep_return": self.ep_return}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_counts()

    # ---- rows in and out ------------------------------------------------------------------------------------------

    @property
    def last(self) -> Slots:
        """The slot that was written last in each ring; its first slot while it is empty."""
        if len(self.capacity) == 1:  # in numbers, for it is asked for most
            length = self.length.item()
            return np.array([(self.insertion.item() - 1) % self.size if length else 0])
        newest: Slots = np.where(self.length > 0, (self.insertion - 1) % np.maximum(self.capacity, 1), 0)
        return newest + self.offset

    @property
    def oldest(self) -> Slots:
        """The slot of the oldest row of each ring."""
        return self.offset + self._start()

    def _start(self) -> Slots:
        if len(self.capacity) == 1:
            return np.array([(self.insertion.item() - self.length.item()) % max(self.size, 1)])
        start: Slots = (self.insertion - self.length) % np.maximum(self.capacity, 1)
        return start

    def target(self, ids: Ids) -> Slots:
        """The slot that the next row of each ring goes into."""
        target: Slots = self.offset[ids] + self.insertion[ids]
        return target

    def place(self, ids: Ids) -> Any:
        """:meth:`target` as numpy writes to it most quickly: a slice, where all rings are equally full."""
        if self.equal and type(ids) is slice:
            first, *others = self.insertion.tolist()
            if others.count(first) == len(others):
                return slice(first, None, self.equal)
        return self.target(ids)

    def advance(self, ids: Ids, place: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Count in one row for each of the rings ``ids``, which must differ, at what :meth:`place` said."""
        if type(place) is slice:
            slots, began = np.arange(place.start, self.size, self.equal), self.offset + self.ep_start
            self._advance_in_step(place.start + 1)
            self.ep_return += rew
        else:
            slots, began = place, self.offset[ids] + self.ep_start[ids]
            counts = self.counts[:3, ids]  # insertion, length and ep_len
            counts += _ONE
            counts[0] %= self.capacity[ids]
            np.minimum(counts[1], self.capacity[ids], out=counts[1])
            self.counts[:3, ids] = counts
            self.ep_return[ids] += rew
        added = Added(slots, np.zeros(rew.shape), np.zeros(len(rew), np.intp), began)
        if True in done.tolist():
            self._end(ids, done.nonzero()[0], added)
        return added

    def _advance_in_step(self, following: int) -> None:
        """Count in a row of each ring, all of which go on at the same place: one sum, where it can be."""
        lengths = self.length.tolist()
        full = lengths.count(self.equal)
        if full == len(lengths):
            self.counts += self._row_if_full
        else:
            self.counts += self._row
            if full:
                np.minimum(self.length, self.equal, out=self.length)
        if following == self.equal:
            self.insertion.fill(0)

    def _end(self, ids: Ids, places: Slots, added: Added) -> None:
        """End the episodes of the rings at some places of ``ids``, and say so in what was added."""
        ended = places if type(ids) is slice else ids[places]
        added.ep_return[places], added.ep_len[places] = self.ep_return[ended], self.ep_len[ended]
        self.ep_return[ended], self.ep_len[ended], self.ep_start[ended] = 0, 0, self.insertion[ended]

    def advance_one(self, rew: NDArray[Any], done: bool) -> Added:
        """:meth:`advance` for one row of a single ring: asked for most, so in numbers and not in arrays."""
        slots, start = self.insertion.copy(), self.ep_start.copy()
        following, size = slots.item() + 1, self.size
        following = following if following < size else 0
        self.insertion[0] = following
        if (length := self.length.item()) < size:
            self.length[0] = length + 1
        total = self.ep_return.item() + rew.item() if not rew.ndim else self.ep_return[0] + rew
        steps = self.ep_len.item() + 1
        if done:
            self.ep_return[0] = self.ep_len[0] = 0
            self.ep_start[0] = following
            return Added(slots, np.array([total]), np.array([steps]), start)
        self.ep_return[0], self.ep_len[0] = total, steps
        return Added(slots, _ZERO.copy() if not rew.ndim else np.zeros((1, *rew.shape)), _NONE.copy(), start)

    def advance_block(self, ids: Slots, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Count in several rows for each of some rings; ``ids`` is the ring of each row, in rising order."""
        first = np.append(True, ids[1:] != ids[:-1])  # of its ring
        begins = np.flatnonzero(first | np.append(False, done[:-1]))
        counts = np.bincount(ids, minlength=len(self.capacity))
        rank = np.arange(len(ids)) - (np.cumsum(counts) - counts)[ids]
        local = (self.insertion[ids] + rank) % self.capacity[ids]
        goes_on = np.flatnonzero(first[begins])  # the episodes that the rings are in
        rings = ids[begins[goes_on]]
        total = np.array(rew, np.float64)
        total[begins[goes_on]] += self.ep_return[rings]
        returns = np.add.reduceat(total, begins)
        steps = np.diff(np.append(begins, len(ids)))
        steps[goes_on] += self.ep_len[rings]
        starts = local[begins]
        starts[goes_on] = self.ep_start[rings]
        episode = np.cumsum(first | np.append(False, done[:-1])) - 1
        last = np.flatnonzero(np.append(first[1:], True))
        over, now = done[last], episode[last]
        self.insertion[:] = (self.insertion + counts) % np.maximum(self.capacity, 1)
        self.length[:] = np.minimum(self.length + counts, self.capacity)
        self.ep_return[rings], self.ep_len[rings] = returns[now], steps[now]
        self.ep_return[rings[over]] = self.ep_len[rings[over]] = 0
        self.ep_start[rings] = np.where(over, self.insertion[rings], starts[now])
        ended = np.flatnonzero(done)
        added = Added(
            local + self.offset[ids],
            np.zeros(rew.shape),
            np.zeros(len(ids), np.intp),
            starts[episode] + self.offset[ids],
        )
        added.ep_return[ended], added.ep_len[ended] = returns[episode[ended]], steps[episode[ended]]
        return added

    def push(self, ring: int, count: int) -> Slots:
        """The slots of ``count`` more rows of one ring, oldest first, which are counted in; episodes are not."""
        capacity = self.capacity.item(ring)
        slots: Slots = (self.insertion[ring] + np.arange(count)) % max(capacity, 1) + self.offset[ring]
        self.insertion[ring] = (self.insertion[ring] + count) % max(capacity, 1)
        self.length[ring] = min(self.length[ring] + count, capacity)
        return slots

    def drop_oldest(self, ids: Ids, count: Any = 1) -> None:
        """Let the rows go that ``count`` more in each ring will overwrite; one number for all, or one for each."""
        self.length[ids] = np.minimum(self.length[ids], self.capacity[ids] - count)

    def reset(self, ids: Ids = slice(None), *, keep_statistics: bool = False) -> None:
        """Forget all rows; the episode that is going on starts anew, unless its statistics are kept."""
        self.insertion[ids] = self.length[ids] = self.ep_start[ids] = 0
        if not keep_statistics:
            self.ep_return[ids] = self.ep_len[ids] = 0

    def numbers(self) -> NDArray[np.float64]:
        """Everything that changes."""
        return np.concatenate([self.counts.ravel().astype(np.float64), self.ep_return.ravel()])

    def restore(self, numbers: NDArray[np.float64], rew_shape: tuple[int, ...]) -> None:
        """Take over what ``numbers`` gave, for rewards of a shape.

        Raises:
            SizeError: more or fewer numbers, or positions that cannot be.
        """
        returns = np.zeros((len(self.capacity), *rew_shape))
        if numbers.shape != (self.counts.size + returns.size,):
            raise SizeError(f"{numbers.size} numbers for {len(self.capacity)} rings")
        counts = numbers[: self.counts.size].reshape(self.counts.shape)
        insertion, length, ep_len, ep_start = counts
        ends = np.maximum(self.capacity, 1)
        inside = (insertion < ends) & (length <= self.capacity) & (ep_start < ends) & (ep_len < 2**53)
        if not ((counts >= 0) & (counts == np.floor(counts)) & inside).all():
            raise SizeError("positions outside of the buffer")
        self.counts[...] = counts
        returns.ravel()[:] = numbers[self.counts.size :]
        self.ep_return = returns

    # ---- which slots have rows ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.length.sum())

    def ring_of(self, slots: Slots) -> Any:
        """The ring of each slot."""
        if len(self.capacity) == 1:
            return 0
        return slots // self.equal if self.equal else np.searchsorted(self.edges, slots, side="right") - 1

    def has_row(self, slots: Slots) -> NDArray[np.bool_]:
        """True for slots that hold a row."""
        ring = self.ring_of(slots)
        age = (slots - self.offset[ring] - self._start()[ring]) % self.capacity[ring]
        return np.asarray(age < self.length[ring])

    def stored(self, places: slice = slice(None)) -> Slots:
        """The slots that hold a row, in the order of the slots; or those at some places of that list."""
        return self._in_order(np.arange(*places.indices(len(self))))

    def free(self) -> list[slice]:
        """The slots that hold no row, as ranges: at most two for each ring."""
        ranges = []
        for offset, start, length, capacity in zip(
            self.offset.tolist(), self._start().tolist(), self.length.tolist(), self.capacity.tolist(), strict=True
        ):
            end = start + length
            if end < capacity:
                ranges += [slice(offset, offset + start), slice(offset + end, offset + capacity)]
            else:
                ranges.append(slice(offset + end - capacity, offset + start))
        return ranges

    def from_the_end(self, places: Slots) -> Slots:
        """The slots at negative places of :meth:`stored`.

        Raises:
            RowIndexError: there are not so many rows.
        """
        rows = len(self)
        if places.size and places.min() < -rows:
            raise RowIndexError(f"{int(places.min())} of {rows} rows")
        return self._in_order(places + rows)

    def _in_order(self, places: Slots) -> Slots:
        """The slots at places of the list of all slots with a row, which is not made: a buffer may have billions."""
        before = np.cumsum(self.length) - self.length
        ring = np.searchsorted(before + self.length, places, side="right")
        start, capacity = self._start()[ring], self.capacity[ring]
        place = places - before[ring]
        wrapped = start + self.length[ring] - capacity  # rows in the first slots of the ring, newer than the others
        slots: Slots = place + np.where(place < wrapped, 0, start - np.maximum(wrapped, 0)) + self.offset[ring]
        return slots

    def chronological(self) -> Slots:
        """The slots that hold a row, ring by ring, the oldest row first."""
        return self.nth(np.arange(len(self)))

    def nth(self, places: Slots) -> Slots:
        """The slots of the rows at ``places``, counted through all rings from the oldest row of each."""
        slots: Slots
        start = self._start()
        if len(self.capacity) == 1:
            slots = places + start[0]
            return np.where(slots < self.size, slots, slots - self.size) if start[0] else slots
        before: Slots = np.cumsum(self.length) - self.length
        ring = np.searchsorted(before + self.length, places, side="right")
        slots = (places - before[ring] + start[ring]) % self.capacity[ring] + self.offset[ring]
        return slots

    def draw(self, rng: np.random.Generator, count: int) -> Slots:
        """``count`` slots that hold a row, at random, each as likely as the other, with repetition."""
        rows = len(self)
        places: Slots = rng.integers(0, rows, count)
        return places if rows == self.size else self.nth(places)  # in full rings every slot has a row

    # ---- neighbours in time ---------------------------------------------------------------------------------------

    def prev(self, slots: Slots, done: NDArray[np.bool_]) -> Slots:
        """The slot of the row before; the slot itself where the row begins an episode, or is the oldest."""
        if len(self.capacity) == 1:
            first, size, oldest = 0, self.size, self.oldest.item()
        else:
            ring = self.ring_of(slots)
            first, size, oldest = self.offset[ring], self.capacity[ring], self.oldest[ring]
        before = np.where(slots == first, first + size, slots) - 1
        return np.where(done.take(before) | (slots == oldest), slots, before)

    def next(self, slots: Slots, done: NDArray[np.bool_]) -> Slots:
        """The slot of the row after; the slot itself where the row ends an episode, or was written last."""
        if len(self.capacity) == 1:
            last = self.last.item()
            after: Slots = slots + ~(done.take(slots) | (slots == last))
            return after if last == self.size - 1 else np.where(after == self.size, 0, after)
        ring = self.ring_of(slots)
        end = self.edges[1:][ring]
        after = slots + ~(done.take(slots) | (slots == self.last[ring]))
        return np.where(after == end, end - self.capacity[ring], after)

    def frames(self, slots: Any, count: int, done: NDArray[np.bool_]) -> Slots:
        """The slots of the last ``count`` rows up to each of ``slots``, along a new last dimension."""
        frames = np.empty((*np.shape(slots), count), np.intp)
        frames[..., -1] = slots
        for place in range(count - 2, -1, -1):
            frames[..., place] = self.prev(frames[..., place + 1], done)
        return frames

    def with_frames(self, count: int, done: NDArray[np.bool_]) -> Slots:
        """The slots of rows that have ``count - 1`` rows before them in their episode, in the order of time."""
        slots = self.chronological()
        frames = self.frames(slots, count, done)
        complete: Slots = slots[frames[:, 0] != frames[:, 1]]
        return complete
