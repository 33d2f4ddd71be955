"""Whether the rows that a collector adds go on where the last ones ended."""

from __future__ import annotations

from typing import Any

from typedbatch.buffers.state import State


class Following:
    """Knows who has the rows that the next step follows.

    Whoever takes rows keeps the mark that is made with them; so neither a buffer that another collector has added to,
    nor a copy of one, nor one that was opened again, is taken for the one that has them.
    """

    def __init__(self) -> None:
        self.mark: object = None
        """With which rows the last step was handed on; None if the next one follows none."""

    def lose(self) -> None:
        """The next step follows nothing that somebody has."""
        self.mark = None

    def taken(self, by: State | Following) -> None:
        """The rows up to the next step are there now."""
        by.mark = self.mark = object()

    def follows(self, other: Any) -> bool:
        """Whether the next step follows the last rows that ``other`` took."""
        return self.mark is not None and other.mark is self.mark
