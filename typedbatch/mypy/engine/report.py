"""What is said of a mistake in shapes or dtypes, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context

from typedbatch.mypy.arrays.ranks import Ranks
from typedbatch.mypy.arrays.values import MisfitError
from typedbatch.mypy.batches.summaries import Summaries

if TYPE_CHECKING:
    from typedbatch.mypy.batches.owned import Owned
    from typedbatch.mypy.batches.program import Program
    from typedbatch.mypy.engine.members import Members

SHAPE = ErrorCode("batch-shape", "Shapes that do not fit, or make something else than is meant", "typedbatch")
DTYPE = ErrorCode("batch-dtype", "dtypes that do not fit, or make something else than is meant", "typedbatch")


class Report:
    """Reports of one function, one at a place; quiet while something is only looked at.

    Args:
        api: mypy's checker.
    """

    def __init__(self, api: Any, *, shapes: bool = True) -> None:
        self._api = api
        self.shapes = shapes
        self.summaries: Summaries | None = None
        self.owned: Owned | None = None
        self.program: Program | None = None
        self.members: Members | None = None
        self.quiet = 0
        self.ranks: Ranks = Ranks()
        self._said: dict[Context, Callable[[], None]] = {}
        self._misfits: set[Context] = set()

    def misfit(self, error: MisfitError, context: Context) -> None:
        """Say what does not fit."""
        if self.shapes:
            if not self.quiet and context not in self._said:
                self._misfits.add(context)
            self.fail(str(error), context, DTYPE if error.dtype else SHAPE)

    def fail(self, text: str, context: Context, code: ErrorCode) -> None:
        """Say what is wrong."""
        if not self.quiet:
            self._said.setdefault(context, lambda: self._api.fail(text, context, code=code))

    def note(self, text: str, context: Context) -> None:
        """Say something that is not a mistake."""
        if not self.quiet and self.shapes:
            self._said.setdefault(context, lambda: self._api.note(text, context))

    def mark(self) -> int:
        """How much has been said so far."""
        return len(self._said)

    def take_back(self, mark: int) -> None:
        """Say nothing of what came after a mark."""
        for context in list(self._said)[mark:]:
            del self._said[context]
            self._misfits.discard(context)

    def read(self, read: Callable[[], None]) -> None:
        """Read a function, and keep the misfits that do not depend on the number of axes of its runs."""
        self.ranks = Ranks()
        read()
        ranks, said, kept = self.ranks, self._said, set(self._misfits)
        dropped: set[Context] = set()
        for other in ranks.others() if kept else ():
            self.ranks, self._said, self._misfits = other, {}, set()
            read()
            first = min((context.line for context in self._misfits), default=None)
            fails = None if ranks.asked_rank else first  # what is behind it was not read with these numbers
            dropped |= {one for one in kept if one not in self._misfits and (fails is None or one.line < fails)}
        self._said = {one: say for one, say in said.items() if one not in dropped}
        self._misfits = set()

    def send(self) -> None:
        """Tell mypy all of it."""
        for send in self._said.values():
            send()
        self._said.clear()
