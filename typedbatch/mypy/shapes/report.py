"""What is said of a mistake in shapes or dtypes, and where."""

from __future__ import annotations

from typing import Any

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context

from typedbatch.mypy.shapes.values import MisfitError

SHAPE = ErrorCode("batch-shape", "Shapes that do not fit, or make something else than is meant", "typedbatch")
DTYPE = ErrorCode("batch-dtype", "dtypes that do not fit, or make something else than is meant", "typedbatch")


class Report:
    """Reports of one function, one at a place; quiet while something is only looked at.

    Args:
        api: mypy's checker.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self.quiet = 0
        self._said: set[Context] = set()

    def misfit(self, error: MisfitError, context: Context) -> None:
        """Say what does not fit."""
        if not self.quiet and context not in self._said:
            self._said.add(context)
            self._api.fail(str(error), context, code=DTYPE if error.dtype else SHAPE)

    def note(self, text: str, context: Context) -> None:
        """Say something that is not a mistake."""
        if not self.quiet and context not in self._said:
            self._said.add(context)
            self._api.note(text, context)
