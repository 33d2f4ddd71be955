"""What is said of a mistake in shapes or dtypes, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context, Expression

from typedbatch._program.arrays.sizes import Ranks
from typedbatch._program.arrays.values import MismatchError, Value
from typedbatch.mypy.batches.summaries import Summaries

if TYPE_CHECKING:
    from typedbatch.mypy.engine.inside import Inside
    from typedbatch.mypy.engine.members import Members
    from typedbatch.mypy.engine.observing import Observe
    from typedbatch.mypy.engine.reading import Reading

SHAPE = ErrorCode("batch-shape", "Shapes that do not fit, or make something else than is meant", "typedbatch")
DTYPE = ErrorCode("batch-dtype", "dtypes that do not fit, or make something else than is meant", "typedbatch")


class Said(NamedTuple):
    """A report.

    Attributes:
        send: Tell mypy.
        origin: The line in the function that is called, if it is there; its own report says enough.
    """

    send: Callable[[], None]
    origin: int | None


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
        self.members: Members | None = None
        self.inside: Inside | None = None
        self.observe: Observe | None = None
        self.quiet = 0
        self.ranks: Ranks = Ranks()
        self._said: dict[Context, Said] = {}
        self._mismatches: set[Context] = set()

    def mismatch(self, error: MismatchError, context: Context) -> None:
        """Say what does not fit."""
        if self.shapes:
            if not self.quiet and context not in self._said:
                self._mismatches.add(context)
            self.fail(str(error), context, DTYPE if error.dtype else SHAPE, error.origin)

    def fail(self, text: str, context: Context, code: ErrorCode, origin: int | None = None) -> None:
        """Say what is wrong."""
        if not self.quiet:
            self._said.setdefault(context, Said(lambda: self._api.fail(text, context, code=code), origin))

    def note(self, text: str, context: Context) -> None:
        """Say something that is not a mistake."""
        if not self.quiet and self.shapes:
            self._said.setdefault(context, Said(lambda: self._api.note(text, context), None))

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
            self._mismatches.discard(context)

    def read(self, read: Callable[[], None]) -> None:
        """Read a function, and keep the mismatches that do not depend on the number of axes of its runs."""
        self._read_with(Ranks(), read)
        ranks, said, kept = self.ranks, self._said, set(self._mismatches)
        dropped: set[Context] = set()
        observe, self.observe = self.observe, None
        for other in ranks.others() if kept else ():
            self._said, self._mismatches = {}, set()
            self._read_with(other, read)
            first = min((context.line for context in self._mismatches - kept), default=None)
            fails = None if ranks.asked_rank else first  # what is behind it was not read with these numbers
            dropped |= {one for one in kept if one not in self._mismatches and (fails is None or one.line < fails)}
        self.observe = observe
        self._said = {one: say for one, say in said.items() if one not in dropped}
        self._mismatches = set()

    def _read_with(self, ranks: Ranks, read: Callable[[], None]) -> None:
        self.ranks = ranks
        if self.inside is not None:
            self.inside.begin(ranks)
        read()

    def taken(self) -> dict[Context, Said]:
        """Return all reports, and forget them."""
        said, self._said = self._said, {}
        return said
