"""What is said of a mistake in shapes or dtypes, and where."""

from __future__ import annotations

from typing import Any

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context

from typedbatch.mypy.shapes.values import MisfitError

SHAPE = ErrorCode("batch-shape", "Shapes that do not fit, or make something else than is meant", "typedbatch")
DTYPE = ErrorCode("batch-dtype", "dtypes that do not fit, or make something else than is meant", "typedbatch")


class Report:
    """Reports of one function; quiet while a loop is only looked through.

    Args:
        api: mypy's checker.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self.quiet = 0

    def misfit(self, error: MisfitError, context: Context) -> None:
        """Say what does not fit."""
        if not self.quiet:
            self._api.fail(str(error), context, code=DTYPE if error.dtype else SHAPE)

    def note(self, text: str, context: Context) -> None:
        """Say something that is not a mistake."""
        if not self.quiet:
            self._api.note(text, context)
