"""The limit on how deep batches may be nested; ``validate``, writers of files and bridges check it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from typedbatch._core.kinds import Tree
from typedbatch._report import shorten
from typedbatch.errors import StructureError

DEEPEST: Final = 100
"""Number of batches that a batch may be nested in. Deeper ones, and those that hold themselves, are refused."""

SAYS: Final = f"nested more than {DEEPEST} deep"
HINT: Final = "does a batch hold itself? store a copy, or what is needed of it"


def fields_of(value: object) -> Mapping[str, Any] | None:
    """Return the fields of a batch, or None for anything else."""
    return value.__dict__ if isinstance(value, Tree) else None


def require_depth(value: Any, contents: Callable[[Any], Mapping[Any, Any] | None] = fields_of) -> None:
    """Raise an error if containers are nested too deep.

    Args:
        value: The outermost container.
        contents: Function that returns the names and values in a container, of a batch or of another library, and
            None for anything that is not a container.
    """
    level: list[tuple[str, Mapping[Any, Any]]] = [("", contents(value) or {})]
    for _ in range(DEEPEST + 1):
        # A container that occurs several times in a level is visited once there, or shared ones would multiply.
        found = {id(inner): (path, name, inner) for path, outer in level for name, inner in outer.items()}
        inside = [(f"{path}.{name}", contents(inner)) for path, name, inner in found.values()]
        level = [(path, fields) for path, fields in inside if fields is not None]
        if not level:
            return
    raise StructureError(f"{SAYS}; {HINT}", shorten(level[0][0].removeprefix(".")))
