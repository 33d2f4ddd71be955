"""Rings: positions of the rows in one or more rings, which follow one another in a buffer.

Slots are numbered through all rings. The rows of a ring are in the ``length`` slots before ``insertion``, wrapping
around at its capacity. All numbers are in arrays with an entry for each ring: n environments are one operation, a
single ring is a view, and writing the positions to disk is one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from typedbatch.errors import RowIndexError, SizeError

Slots = NDArray[np.intp]
Ids = Any
"""Index of rings: an array of numbers, or ``slice(None)`` for all of them."""

_ZERO, _NONE = np.zeros(1), np.zeros(1, np.intp)
_MOST_HANDED_OUT = 256
_ONE = np.ones(1, np.int64)  # an array, as adding a Python number takes numpy longer


def _sum(rew: NDArray[Any], start: Any) -> Any:
    """Return the sum of rewards over the first dimension, and of ``start``, in float64."""
    if rew.ndim == 1 and len(rew) <= 32:  # with more numbers, numpy takes less time
        total = float(start)
        for reward in rew.tolist():  # sum() of Python 3.12 rounds differently
            total += reward
        return total
    return np.add.reduce(rew, 0, np.float64) + start


class Added(NamedTuple):
    """Result of adding rows, with one entry for each row, as Tianshou's ``add`` returns it."""

    slots: Slots
    """Slot of each row."""
    ep_return: NDArray[Any]
    """Sum of the rewards of the episode that the row ended, 0 if it did not end one; shape ``(n, *rew)``."""
    ep_len: NDArray[np.intp]
    """Number of steps of the episode that the row ended, 0 if it did not end one."""
    ep_start: Slots
    """Slot in which the row's episode began."""

    @classmethod
    def nothing(cls) -> Added:
        """Return the result of adding no rows."""
        none = np.zeros(0, np.intp)
        return cls(none, np.zeros(0), none.copy(), none.copy())


class Rings:
    """Positions of one or more rings, and statistics of their current episodes."""

    def __init__(self, capacities: Sequence[int]) -> None:
        self.edges: Slots = np.concatenate([[0], np.cumsum(capacities, dtype=np.intp)]).astype(np.intp)
        self.capacity: Slots = np.asarray(capacities, np.intp)
        self.counts: NDArray[np.int64] = np.zeros((4, len(capacities)), np.int64)
        self.ep_return: NDArray[np.float64] = np.zeros(len(capacities))
        self.turns: Slots = np.zeros(len(capacities), np.intp)
        """Number of times that each ring has begun again at its first slot; a reset counts as two."""
        self._name_counts()

    def _name_counts(self) -> None:
        """Set the attributes that are views of ``edges`` and ``counts``, or computed from the capacities."""
        self.offset: Slots = self.edges[:-1]
        self.insertion: Slots = self.counts[0]
        self.length: Slots = self.counts[1]
        self.ep_len: Slots = self.counts[2]
        self.ep_start: Slots = self.counts[3]
        self._extent: NDArray[np.int64] = self.counts[:2]
        """Insertion and length, of which the occupancy is computed."""
        self._occupancy: tuple[bytes, Occupancy] | None = None
        self.handed_out: dict[int, tuple[ref[Slots], bytes, bytes]] = {}
        """Sampled slots by the ``id`` of their array, with the insertion and turns of each ring at that time."""
        ones = np.ones_like(self.length)
        self._row: Slots = np.stack([ones, ones, ones, ones * 0])
        """Increment of the counts for one row in each ring, in their shape, as numpy is slower if it broadcasts."""
        self._row_if_full: Slots = np.stack([ones, ones * 0, ones, ones * 0])
        """The same for rings that are full, whose length stays."""
        equal = len(self.capacity) and (self.capacity == self.capacity[0]).all()
        self.size: int = int(self.edges[-1])
        """Number of slots of all rings."""
        self.equal: int = int(self.capacity[0]) if equal else 0
        """Capacity of every ring, or 0 if they differ."""

    def part(self, ring: int) -> Rings:
        """Return a view of one ring, with slots numbered from 0; it shares its numbers with this object."""
        out = object.__new__(Rings)
        out.edges = np.array([0, self.capacity[ring]], np.intp)
        out.capacity = self.capacity[ring : ring + 1]
        out.counts = self.counts[:, ring : ring + 1]
        out.ep_return = self.ep_return[ring : ring + 1]
        out.turns = self.turns[ring : ring + 1]
        out._name_counts()
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("edges", "capacity", "counts", "ep_return", "turns")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_counts()

    # ---- adding and dropping rows ---------------------------------------------------------------------------------

    @property
    def occupancy(self) -> Occupancy:
        """Slots that hold a row, which are computed only after a change."""
        extent = self._extent.tobytes()  # compared, as the arrays may be changed through a view, such as a part's
        if self._occupancy is None or self._occupancy[0] != extent:
            insertion, length = np.frombuffer(extent, np.int64).reshape(2, -1)
            self._occupancy = extent, Occupancy(self.edges, self.capacity, insertion, length)
        return self._occupancy[1]

    @property
    def last(self) -> Slots:
        """Slot of the newest row of each ring; its first slot while the ring is empty."""
        return self.occupancy.newest.copy()

    def target(self, ids: Ids) -> Any:
        """Return the slots that the next row of each ring goes into; a slice, which is fastest, if these permit it."""
        if self.equal and type(ids) is slice:
            first = self.insertion.item(0)
            if not np.count_nonzero(self.insertion != first):  # faster than any()
                return slice(first, None, self.equal)
        return self.offset[ids] + self.insertion[ids]

    def advance(self, ids: Ids, target: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Advance the positions by one row in each of some rings, whose :meth:`target` is given."""
        if type(target) is slice:
            slots, began = np.arange(target.start, self.size, self.equal), self.offset + self.ep_start
            full = np.count_nonzero(self.length == self.equal)
            if full == len(slots):
                self.counts += self._row_if_full
            else:
                self.counts += self._row
                if full:
                    np.minimum(self.length, self.equal, out=self.length)
            if target.start + 1 == self.equal:
                self.insertion.fill(0)
                self.turns += 1
            self.ep_return += rew
        else:
            slots, began = target, self.offset[ids] + self.ep_start[ids]
            counts = self.counts[:3, ids]  # insertion, length and ep_len
            counts += _ONE
            counts[0] %= self.capacity[ids]
            if 0 in counts[0].tolist():
                self.turns[ids] += counts[0] == 0
            np.minimum(counts[1], self.capacity[ids], out=counts[1])
            self.counts[:3, ids] = counts
            self.ep_return[ids] += rew
        added = Added(slots, np.zeros(rew.shape), np.zeros(len(rew), np.intp), began)
        if np.count_nonzero(done):
            rows = done.nonzero()[0]
            ended = rows if type(ids) is slice else ids[rows]
            added.ep_return[rows], added.ep_len[rows] = self.ep_return[ended], self.ep_len[ended]
            self.ep_return[ended], self.ep_len[ended], self.ep_start[ended] = 0, 0, self.insertion[ended]
        return added

    def advance_one(self, rew: NDArray[Any], done: bool) -> Added:
        """Advance a single ring by one row. This is the hot path, so it uses Python scalars instead of arrays."""
        slots, start = self.insertion.copy(), self.ep_start.copy()
        following, size = slots.item() + 1, self.size
        if following >= size:
            following = 0
            self.turns[0] += 1
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

    def advance_run(self, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Advance a single ring by rows in time order, at most as many as it has slots; faster than for any rings."""
        count, size, first = len(rew), self.size, self.insertion.item()
        slots = np.arange(first, first + count)
        if first + count > size:
            slots[size - first :] -= size
        added = Added(slots, np.zeros(rew.shape), *np.zeros((2, count), np.intp))
        total, steps, began, begin = self.ep_return[0], self.ep_len.item(), self.ep_start.item(), 0
        for end in done.nonzero()[0].tolist():
            stop = end + 1
            added.ep_return[end], added.ep_len[end] = _sum(rew[begin:stop], total), steps + stop - begin
            added.ep_start[begin:stop] = began
            total, steps, began, begin = 0.0, 0, (first + stop) % size, stop
        added.ep_start[begin:] = began
        self.ep_return[0] = _sum(rew[begin:], total)
        self.ep_len[0], self.ep_start[0] = steps + count - begin, began
        self.length[0] = min(self.length.item() + count, size)
        self.turns[0] += (first + count) // size
        self.insertion[0] = (first + count) % size
        return added

    def advance_block(self, ids: Slots, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Advance rings by any number of rows each; ``ids`` is the ring of each row, in ascending order."""
        first = np.append(True, ids[1:] != ids[:-1])  # rows that are the first of their ring
        begins = np.flatnonzero(first | np.append(False, done[:-1]))
        counts = np.bincount(ids, minlength=len(self.capacity))
        rank = np.arange(len(ids)) - (np.cumsum(counts) - counts)[ids]
        local = (self.insertion[ids] + rank) % self.capacity[ids]
        current = np.flatnonzero(first[begins])  # the episodes that had begun before in each ring
        rings = ids[begins[current]]
        total = np.array(rew, np.float64)
        total[begins[current]] += self.ep_return[rings]
        returns = np.add.reduceat(total, begins)
        steps = np.diff(np.append(begins, len(ids)))
        steps[current] += self.ep_len[rings]
        starts = local[begins]
        starts[current] = self.ep_start[rings]
        episode = np.cumsum(first | np.append(False, done[:-1])) - 1
        last = np.flatnonzero(np.append(first[1:], True))
        over, now = done[last], episode[last]
        turns, self.insertion[:] = np.divmod(self.insertion + counts, np.maximum(self.capacity, 1))
        self.turns += turns
        self.length[:] = np.minimum(self.length + counts, self.capacity)
        self.ep_return[rings], self.ep_len[rings] = returns[now], steps[now]
        self.ep_return[rings[over]] = self.ep_len[rings[over]] = 0
        self.ep_start[rings] = np.where(over, self.insertion[rings], starts[now])
        ended, offset = np.flatnonzero(done), self.offset[ids]
        added = Added(local + offset, np.zeros(rew.shape), np.zeros(len(ids), np.intp), starts[episode] + offset)
        added.ep_return[ended], added.ep_len[ended] = returns[episode[ended]], steps[episode[ended]]
        return added

    def push(self, ring: int, count: int) -> Slots:
        """Advance one ring, without the statistics of its episode, by ``count`` rows; return their slots in order."""
        capacity = self.capacity.item(ring)
        slots: Slots = (self.insertion[ring] + np.arange(count)) % max(capacity, 1) + self.offset[ring]
        turns, self.insertion[ring] = divmod(self.insertion[ring] + count, max(capacity, 1))
        self.turns[ring] += turns
        self.length[ring] = min(self.length[ring] + count, capacity)
        return slots

    def drop_oldest(self, ids: Ids, count: Any = 1) -> None:
        """Drop the rows that the next ``count`` rows of each ring will overwrite."""
        self.length[ids] = np.minimum(self.length[ids], self.capacity[ids] - count)

    def reset(self, ids: Ids = slice(None), *, keep_statistics: bool = False) -> None:
        """Remove all rows. The current episodes start again at 0 steps, unless ``keep_statistics`` is set."""
        self.insertion[ids] = self.length[ids] = self.ep_start[ids] = 0
        self.turns[ids] += 2
        if not keep_statistics:
            self.ep_return[ids] = self.ep_len[ids] = 0

    def numbers(self) -> NDArray[np.float64]:
        """Return all numbers that change when rows are added, for storage."""
        return np.concatenate([self.counts.ravel().astype(np.float64), self.ep_return.ravel()])

    def restore(self, numbers: NDArray[np.float64], rew_shape: tuple[int, ...]) -> None:
        """Restore the result of :meth:`numbers` for rewards of a shape, or raise a SizeError if it does not fit."""
        returns = np.zeros((len(self.capacity), *rew_shape))
        if numbers.shape != (self.counts.size + returns.size,):
            wanted = self.counts.size + returns.size
            raise SizeError(f"{wanted} positions of {len(self.capacity)} rings are expected, got {numbers.size}")
        counts = numbers[: self.counts.size].reshape(self.counts.shape)
        insertion, length, ep_len, ep_start = counts
        ends = np.maximum(self.capacity, 1)
        inside = (insertion < ends) & (length <= self.capacity) & (ep_start < ends) & (ep_len < 2**53)
        if not ((counts >= 0) & (counts == np.floor(counts)) & inside).all():
            raise SizeError("positions must be inside of the buffer, and some are not")
        self.turns += insertion < self.insertion
        self.counts[...] = counts
        returns.ravel()[:] = numbers[self.counts.size :]
        self.ep_return = returns

    # ---- slots that were sampled ----------------------------------------------------------------------------------

    def hand_out(self, slots: Slots) -> Slots:
        """Return new slots after recording that they mean the rows that are in them now."""
        self.handed_out[id(slots)] = ref(slots), self.insertion.tobytes(), self.turns.tobytes()
        if len(self.handed_out) > _MOST_HANDED_OUT:
            del self.handed_out[next(iter(self.handed_out))]
        return slots

    def overwritten(self, index: Any) -> NDArray[np.bool_] | None:
        """Return a mask of the slots whose rows were overwritten or removed since ``hand_out`` returned them.

        Return None if no row was, or if ``index`` is neither that array nor a view of it.
        """
        owner = None if type(index) is not np.ndarray else index if index.base is None else index.base
        known = self.handed_out.get(id(owner))
        now = self.insertion.tobytes(), self.turns.tobytes()
        if known is None or known[0]() is not owner or known[1:] == now:
            return None
        insertion, turns = (np.frombuffer(part, np.int64) for part in known[1:])
        written = (self.turns - turns) * self.capacity + self.insertion - insertion
        ring = self.ring_of(index)
        gone = np.asarray((index - self.offset[ring] - insertion[ring]) % self.capacity[ring] < written[ring])
        return gone if gone.any() else None

    # ---- slots that hold a row ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.length.item() if len(self.capacity) == 1 else self.length.sum())

    def ring_of(self, slots: Slots) -> Any:
        """Return the number of the ring of each slot; the scalar 0 if there is only one ring."""
        if len(self.capacity) == 1:
            return 0
        return slots // self.equal if self.equal else np.searchsorted(self.edges, slots, side="right") - 1

    def has_row(self, slots: Slots) -> NDArray[np.bool_]:
        """Return a mask that is true for slots that hold a row."""
        ring, occupancy = self.ring_of(slots), self.occupancy
        if occupancy.in_order:
            return np.asarray(slots < occupancy.end[ring])
        age = (slots - occupancy.oldest[ring]) % self.capacity[ring]
        return np.asarray(age < self.length[ring])

    def stored(self, index: slice = slice(None)) -> Slots:
        """Return the slots that hold a row, in slot order, or a slice of that list."""
        return self._in_order(np.arange(*index.indices(len(self))))

    def free(self) -> list[slice]:
        """Return the slots that hold no row as slices, at most two for each ring."""
        ranges = []
        columns = np.stack([self.offset, self.occupancy.start, self.length, self.capacity], 1)
        for offset, start, length, capacity in columns.tolist():
            end = start + length
            if end < capacity:
                ranges += [slice(offset, offset + start), slice(offset + end, offset + capacity)]
            else:
                ranges.append(slice(offset + end - capacity, offset + start))
        return ranges

    def from_the_end(self, positions: Slots) -> Slots:
        """Return the slots at negative positions of :meth:`stored`, or raise a RowIndexError if there are fewer."""
        rows = len(self)
        if positions.size and positions.min() < -rows:
            raise RowIndexError(f"row {int(positions.min())} does not exist; {rows} rows are stored")
        return self._in_order(positions + rows)

    def _in_order(self, positions: Slots) -> Slots:
        """Return the slots at positions of the list of all slots with a row, in slot order.

        The list itself is not created, since a buffer may have billions of slots.
        """
        occupancy = self.occupancy
        ring = occupancy.up_to.searchsorted(positions, side="right")
        start, capacity = occupancy.start[ring], self.capacity[ring]
        local = positions - occupancy.before[ring]
        wrapped = start + self.length[ring] - capacity  # number of rows in the first slots, newer than the others
        slots: Slots = local + np.where(local < wrapped, 0, start - np.maximum(wrapped, 0)) + self.offset[ring]
        return slots

    def chronological(self) -> Slots:
        """Return the slots that hold a row, ring by ring, oldest row first."""
        return self.nth(np.arange(len(self)))

    def nth(self, positions: Slots) -> Slots:
        """Return the slots at positions of :meth:`chronological`, without creating that list."""
        slots: Slots
        occupancy = self.occupancy
        if len(self.capacity) == 1:
            if occupancy.in_order:
                return positions
            slots = positions + occupancy.start[0]
            return np.where(slots < self.size, slots, slots - self.size)
        ring = occupancy.up_to.searchsorted(positions, side="right")
        slots = positions + (occupancy.oldest - occupancy.before)[ring]
        return np.where(slots < self.edges[1:][ring], slots, slots - self.capacity[ring]) if occupancy.wraps else slots

    def rank(self, slots: Slots) -> Slots:
        """Return the positions of slots in :meth:`chronological`; the inverse of :meth:`nth`."""
        ring, occupancy = self.ring_of(slots), self.occupancy
        ranks: Slots = (slots - occupancy.oldest[ring]) % self.capacity[ring] + occupancy.before[ring]
        return ranks

    def episodes(self, done: NDArray[np.bool_]) -> tuple[Slots, Slots]:
        """Return the position of the first row of each episode, as :meth:`rank` does, and the number of its rows."""
        ended = np.flatnonzero(done)
        newest = self.occupancy.up_to[self.length > 0] - 1
        last = np.union1d(self.rank(ended[self.has_row(ended)]), newest)
        sizes = np.diff(last, prepend=-1)
        return last - sizes + 1, sizes

    def may_be_cut(self, slots: Slots) -> NDArray[np.bool_]:
        """Return a mask of the rows before which rows of the same episode may have been overwritten."""
        ring = self.ring_of(slots)
        return np.asarray((slots == self.occupancy.oldest[ring]) & (self.length[ring] == self.capacity[ring]))

    def draw(self, rng: np.random.Generator, count: int) -> Slots:
        """Draw ``count`` slots that hold a row, uniformly and with replacement."""
        rows = self.occupancy.rows
        positions: Slots = rng.integers(0, rows, count)
        return positions if rows == self.size else self.nth(positions)  # in full rings every slot holds a row

    # ---- neighbors in time ----------------------------------------------------------------------------------------

    def prev(self, slots: Slots, done: NDArray[np.bool_]) -> Slots:
        """Return the slot of the row before each one, or its own if it begins an episode or is the oldest."""
        ring = self.ring_of(slots)
        first, oldest = self.offset[ring], self.occupancy.oldest[ring]
        before = np.where(slots == first, first + self.capacity[ring], slots) - 1
        return np.where(done.take(before) | (slots == oldest), slots, before)

    def next(self, slots: Slots, done: NDArray[np.bool_]) -> Slots:
        """Return the slot of the row after each one, or its own if it ends an episode or is the newest."""
        return self.step(slots, done)[0]

    def step(self, slots: Slots, done: NDArray[np.bool_]) -> tuple[Slots, NDArray[np.bool_]]:
        """Return the result of :meth:`next`, and a mask of the slots that have a next one."""
        ring = self.ring_of(slots)
        return self._step(slots, ring, self.occupancy.newest[ring], done)

    def ahead(self, slots: Slots, done: NDArray[np.bool_], steps: int) -> tuple[list[Slots], list[NDArray[np.bool_]]]:
        """Return the slots of ``steps`` steps, and a mask of the slots that have a next one for each step but the last.

        The first slots are the given ones. After the end of an episode, its last slot is repeated. There are fewer
        steps if no slot has a next one.
        """
        ring = self.ring_of(slots)
        newest = self.occupancy.newest[ring]
        ahead, continues = [slots], []
        while len(ahead) < steps:
            following, go_on = self._step(ahead[-1], ring, newest, done)
            if not np.count_nonzero(go_on):  # faster than any()
                break
            ahead.append(following)
            continues.append(go_on)
        return ahead, continues

    def _step(self, slots: Slots, ring: Any, newest: Any, done: NDArray[np.bool_]) -> tuple[Slots, NDArray[np.bool_]]:
        """Return the result of :meth:`step` for slots whose rings, and the newest row of each, are known."""
        continues = ~(done.take(slots) | (slots == newest))
        after: Slots = slots + continues
        if self.occupancy.wraps:  # only then is a row of a ring followed by one in the ring's first slot
            end = self.edges[1:][ring]
            after = np.where(after == end, end - self.capacity[ring], after)
        return after, continues

    def frames(self, slots: Any, count: int, done: NDArray[np.bool_]) -> Slots:
        """Return the slots of the last ``count`` rows up to each of ``slots``, along a new last dimension."""
        frames = np.empty((*np.shape(slots), count), np.intp)
        frames[..., -1] = slots
        for position in range(count - 2, -1, -1):
            frames[..., position] = self.prev(frames[..., position + 1], done)
        return frames


class Occupancy:
    """Slots that hold a row, computed once for all calls between two changes; arrays must not be modified."""

    rows: int
    """Number of rows in all rings."""
    start: Slots
    """Slot of the oldest row of each ring, numbered from the beginning of the ring."""
    oldest: Slots
    """Slot of the oldest row of each ring."""
    newest: Slots
    """Slot of the newest row of each ring; its first slot if the ring is empty."""
    in_order: bool
    """True if the oldest row of each ring is in its first slot."""
    wraps: bool
    """True if the rows of a ring may continue from its last slot to its first one."""
    end: Slots
    """Slot after the newest row of each ring. It is valid only if the rows are in order."""
    before: Slots
    """Number of rows in the rings before each one."""
    up_to: Slots
    """Number of rows in the rings up to each one, itself included."""
    filled: int
    """Number of slots from 0 on that all hold a row; 0 if that is not known."""

    def __init__(self, edges: Slots, capacity: Slots, insertion: Slots, length: Slots) -> None:
        if len(capacity) == 1:
            self._describe_one(capacity.item(), insertion.item(), length.item())
        else:
            self._describe_many(edges[:-1], capacity, insertion, length)
        size = int(edges[-1])
        self.filled = size if self.rows == size else int(length[0]) if self.in_order else 0

    def _describe_one(self, capacity: int, insertion: int, length: int) -> None:
        """Set the attributes for a single ring. This is a hot path, so it uses Python numbers instead of arrays."""
        start = (insertion - length) % max(capacity, 1)
        newest = (insertion - 1) % capacity if length else 0
        self.rows = length
        self.start = self.oldest = np.array([start])
        self.newest = np.array([newest])
        self.in_order, self.wraps = not start, start > newest
        self.end = self.up_to = np.array([length])
        self.before = _NONE

    def _describe_many(self, offset: Slots, capacity: Slots, insertion: Slots, length: Slots) -> None:
        capacity = np.maximum(capacity, 1)
        self.start = (insertion - length) % capacity
        self.in_order, self.wraps = not self.start.any(), False
        self.end = offset + length
        self.up_to = length.cumsum()
        self.before = self.up_to - length
        self.rows = int(self.up_to[-1]) if len(length) else 0
        if self.in_order:
            self.oldest, self.newest = offset, np.maximum(self.end - 1, offset)
        else:
            self.oldest = offset + self.start
            self.newest = np.where(length > 0, (insertion - 1) % capacity, 0) + offset
            self.wraps = bool((self.oldest > self.newest).any())
