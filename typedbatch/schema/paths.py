"""Paths of fields inside a batch, in Python's syntax."""

from __future__ import annotations

import ast
import re

RETURN = "return"
"""The path of a result. No argument can have this name."""
_PART = re.compile(r"""\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|[^.\[]+""")


def child(path: str, name: str) -> str:
    """Return the path of the field ``name`` inside ``path``: ``obs.cam``, ``obs["agent 1"].mask``."""
    return f"{path}{_step(name)}" if path else _step(name).removeprefix(".")


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name!r}]"


def parts_of(path: str) -> tuple[str, ...]:
    """Return the names in a path, outermost first: ``("obs", "agent 1")``."""
    return tuple(ast.literal_eval(found[1:-1]) if found[0] == "[" else found for found in _PART.findall(path))


def top_of(path: str) -> str:
    """Return the argument that a path in a call begins with: ``xs`` of ``xs[0].obs``."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


class Path:
    """The path of a field: its name, and the path of the batch that contains it. The text is built only by ``str()``.

    Paths are compared by identity, so that creating and hashing one costs the same at every depth.

    Attributes:
        outer: Path of the batch that contains the field, or None for a field of the batch itself.
        name: Name of the field.
        top: First name in the path.
        depth: Number of names in the path.
    """

    __slots__ = ("depth", "name", "outer", "top")

    def __init__(self, outer: Path | None, name: str) -> None:
        self.outer: Path | None = outer
        self.name: str = name
        self.top: str = name if outer is None else outer.top
        self.depth: int = 1 if outer is None else outer.depth + 1

    def __str__(self) -> str:
        steps: list[str] = []
        path: Path | None = self
        while path is not None:
            steps.append(path.step())
            path = path.outer
        return "".join(reversed(steps)).removeprefix(".")

    def step(self) -> str:
        return _step(self.name)


class Argument(Path):
    """The path of an argument or a result, ``logp``, ``others[0]``, ``return``, shown without quoting."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(None, name)

    def step(self) -> str:
        return self.name
