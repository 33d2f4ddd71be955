"""How deep batches may be nested, where that is asked: by ``validate``, by what writes files, and by bridges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from typedbatch._report import shorten
from typedbatch._tree.leaves import Tree
from typedbatch.errors import StructureError

DEEPEST: Final = 100
"""A batch may be within so many others. Deeper ones, and those that hold themselves, are refused."""

SAYS: Final = f"nested more than {DEEPEST} deep"
HINT: Final = "does a batch hold itself? store a copy, or what is needed of it"


def fields_of(value: object) -> Mapping[str, Any] | None:
    """What is in a batch; None for anything else."""
    return value.__dict__ if isinstance(value, Tree) else None


def require_depth(value: Any, contents: Callable[[Any], Mapping[Any, Any] | None] = fields_of) -> None:
    """Raise an error if containers are nested too deep.

    Args:
        value: the outermost one.
        contents: the names and values in a container, of a batch or of another library; None for what is none.

    Raises:
        StructureError: they are; the error names the first field that is too deep.
    """
    level: list[tuple[str, Mapping[Any, Any]]] = [("", contents(value) or {})]
    for _ in range(DEEPEST + 1):
        # what is in several places of a level is looked at once there
        found = {id(inner): (path, name, inner) for path, outer in level for name, inner in outer.items()}
        inside = [(f"{path}.{name}", contents(inner)) for path, name, inner in found.values()]
        level = [(path, fields) for path, fields in inside if fields is not None]
        if not level:
            return
    raise StructureError(f"{SAYS}; {HINT}", shorten(level[0][0].removeprefix(".")))
