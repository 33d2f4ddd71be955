"""Declared shapes in the language of jaxtyping, and the shapes of fields that have a mark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from typedbatch._program.arrays.dtypes import BOOL, Dtypes
from typedbatch.schema.dims import Dim, Shape, Sort, shape_of_text

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
        shape: Its shape, or None if only the dtype is declared.
        dtypes: Names of the dtypes that it may have, or None for any.
        torch: Whether it is a tensor rather than a numpy array.
    """

    shape: Shape | None
    dtypes: Dtypes | None
    torch: bool

    @property
    def names(self) -> list[str]:
        """Names of single sizes in the shape."""
        dims = self.shape.dims if self.shape is not None else ()
        computed = [name for dim in dims if dim.sort is Sort.COMPUTED for name in dim.names]
        return [*(dim.text for dim in dims if dim.sort is Sort.NAMED), *computed]

    @property
    def runs(self) -> list[Dim]:
        """Named runs of axes in the shape."""
        return [dim for dim in self.shape.dims if dim.sort is Sort.SOME] if self.shape is not None else []

    def marked(self, mark: str) -> Declared:
        """Return the declaration of a field with a mark; a shape that its annotation declares takes precedence."""
        if self.shape is not None:
            return self
        flags = BOOL if mark == "Flag" and self.dtypes is None else self.dtypes
        return Declared(STEPS_FIRST if mark == "StepsFirst" else ONE_PER_STEP, flags, self.torch)


@lru_cache(maxsize=4096)
def shape_in(text: str) -> Shape:
    """Return a shape as it is read at run time; any shape for a text of functions or trees, with ``{`` or ``?``.

    Raises:
        DeclarationError: The text is not in the language of jaxtyping.
    """
    if "{" in text or "?" in text:
        return _ANY_SHAPE
    return shape_of_text(text)
