"""Whether the rows that a collector adds go on where the last ones ended."""

from __future__ import annotations

from typing import Any

from typedbatch.buffers.state import State


class Following:
    """Knows which buffer has the rows up to which step.

    Whoever takes rows keeps the mark that is made with them; so neither a buffer that another collector has added to,
    nor a copy of one, nor one that was opened again, is taken for the one that has them. Beside the mark is the
    position behind the last row. So rows that were lost on the way, in whichever line, leave a gap that is seen.
    """

    def __init__(self) -> None:
        self._end: tuple[object, int] = (None, 0)

    def lose(self) -> None:
        """Forget who has the rows of before."""
        self._end = (None, 0)

    def taken(self, by: State, position: int = 0) -> None:
        """Take note that the rows up to a position are there now; the buffer's mark is last, as it makes it true."""
        mark = object()
        self._end = (mark, position)
        by.mark = mark

    def follows(self, other: Any, position: int = 0) -> bool:
        """Return whether the step at a position follows the last rows that ``other`` took."""
        mark, end = self._end
        return mark is not None and other.mark is mark and end == position
