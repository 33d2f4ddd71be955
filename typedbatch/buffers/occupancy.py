"""``Occupancy``: the slots of rings that hold a row, computed once for all calls between two changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.intp]

_NONE_BEFORE = np.zeros(1, np.intp)


class Occupancy:
    """Slots that hold a row. Arrays have an entry for each ring, and must not be modified.

    Args:
        edges: First slot of each ring, and the number of all slots.
        capacity: Number of slots of each ring.
        insertion: Slot that the next row of each ring goes into, numbered from the beginning of the ring.
        length: Number of rows of each ring.
    """

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
        self.before = _NONE_BEFORE

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
