"""Reports of a function, one at most for each place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context, Expression

from typedbatch._program.arrays.sizes import Ranks
from typedbatch._program.arrays.values import Value
from typedbatch.mypy.batches.summaries import Summaries

if TYPE_CHECKING:
    from typedbatch.mypy.engine.observing import Observe
    from typedbatch.mypy.engine.reading import Reading

SHAPE = ErrorCode("batch-shape", "Shapes that do not fit, or make something else than is meant", "typedbatch")
DTYPE = ErrorCode("batch-dtype", "dtypes that do not fit, or make something else than is meant", "typedbatch")


Send = Callable[[], None]
"""Tells mypy of a report."""


class Report:
    """Reports of one function, one at a place; quiet while something is only looked at.

    Args:
        api: mypy's checker.
    """

    def __init__(self, api: Any, *, shapes: bool = True) -> None:
        self._api = api
        self.shapes = shapes
        self.summaries: Summaries | None = None
        self.is_deaf = False
        """Whether reports about batches are dropped, as those of a function that is only summed up are."""
        self.observe: Observe | None = None
        self.quiet = 0
        self.ranks: Ranks = Ranks()
        self._said: dict[Context, Send] = {}

    def fail(self, text: str, context: Context, code: ErrorCode) -> None:
        """Say what is wrong."""
        if not self.quiet:
            self._said.setdefault(context, lambda: self._api.fail(text, context, code=code))

    def note(self, text: str, context: Context) -> None:
        """Say something that is not a mistake."""
        if not self.quiet and self.shapes:
            self._said.setdefault(context, lambda: self._api.note(text, context))

    def see(self, node: Expression, value: Value, reading: Reading, *, is_target: bool = False) -> None:
        """Tell who observes what an expression is, or becomes if it is assigned to."""
        if self.observe is not None:
            self.observe(node, value, reading, is_target)

    def mark(self) -> int:
        """How much has been said so far."""
        return len(self._said)

    def take_back(self, mark: int) -> None:
        """Say nothing of what came after a mark."""
        for context in list(self._said)[mark:]:
            del self._said[context]

    def taken(self) -> dict[Context, Send]:
        """Return all reports, and forget them."""
        said, self._said = self._said, {}
        return said
