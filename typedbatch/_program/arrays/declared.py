"""Declared shapes, in jaxtyping's language, and the shapes of the fields that have a mark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from typedbatch._program.arrays.dtypes import BOOL, Dtypes
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort, shape_of_text

_REST: Final = Dim(Sort.REST, "")
_ANY_SHAPE: Final = Shape((_REST,), 0)

STEPS: Final = Dim(Sort.SOME, "steps", implied=True)
"""The axes of the steps of a batch, of which the first is that of the rows."""
ONE_PER_STEP: Final = Shape((STEPS,), 0)
STEPS_FIRST: Final = Shape((STEPS, _REST), 0)


@dataclass(frozen=True)
class Declared:
    """A declared array.

    Attributes:
        shape: in jaxtyping's language; None if only the dtype is declared.
        dtypes: those that it may have; None for any.
        torch: a tensor.
    """

    shape: Shape | None
    dtypes: Dtypes | None
    torch: bool

    @property
    def names(self) -> list[str]:
        """Every name of one size in it."""
        dims = self.shape.dims if self.shape is not None else ()
        computed = [name for dim in dims if dim.sort is Sort.COMPUTED for name in dim.names]
        return [*(dim.text for dim in dims if dim.sort is Sort.NAMED), *computed]

    @property
    def runs(self) -> list[Dim]:
        """Every run of axes with a name in it."""
        return [dim for dim in self.shape.dims if dim.sort is Sort.SOME] if self.shape is not None else []

    @property
    def rows(self) -> str | None:
        """The name of the first axis."""
        dims = self.shape.dims if self.shape is not None else ()
        if dims and dims[0] == STEPS:
            return ROWS
        return dims[0].text if dims and dims[0].sort is Sort.NAMED else None

    def marked(self, mark: str) -> Declared:
        """Return what is declared of a field with a mark; a shape that its kind of array declares goes first."""
        if self.shape is not None:
            return self
        flags = BOOL if mark == "Flag" and self.dtypes is None else self.dtypes
        return Declared(STEPS_FIRST if mark == "StepsFirst" else ONE_PER_STEP, flags, self.torch)


@lru_cache(maxsize=4096)
def shape_in(text: str) -> Shape:
    """Return a shape as the run-time side reads it; any shape for what is of functions and trees alone.

    Raises:
        DeclarationError: The text is not in jaxtyping's language.
    """
    if "{" in text or "?" in text:
        return _ANY_SHAPE
    return shape_of_text(text)
