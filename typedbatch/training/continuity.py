"""Continuity of the rows that a collector adds: the check that they follow the last rows in the buffer."""

from __future__ import annotations

from typing import Any

from typedbatch.buffers.state import State


class ContinuityToken:
    """A record of the buffer that holds the last rows, and of the position after them.

    Each time rows are added, the buffer gets a new mark, which is also recorded here. Therefore a buffer does not count
    as continued if another collector has added to it, if it is a copy, or if it was reopened. The recorded position
    shows gaps: rows that were lost between two calls, for whatever reason.
    """

    def __init__(self) -> None:
        self._end: tuple[object, int] = (None, 0)

    def lose(self) -> None:
        """Forget the last rows, so that no later row follows them."""
        self._end = (None, 0)

    def taken(self, by: State, position: int = 0) -> None:
        """Record that the rows up to a position have been added to the buffer with this state."""
        mark = object()
        self._end = (mark, position)
        by.guard.mark = mark  # set last: if anything interrupts this method, the rows do not count as continued

    def follows(self, other: Any, position: int = 0) -> bool:
        """Return whether the step at a position follows the last rows that were added to ``other``."""
        mark, end = self._end
        return mark is not None and other.guard.mark is mark and end == position
