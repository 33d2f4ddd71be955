"""Paths of fields inside a batch, as Python writes them."""

from __future__ import annotations

import ast
import re

RETURN = "return"
"""What a result is called beside arguments; no argument can be."""


def child(path: str, name: str) -> str:
    """The path of a field inside ``path``, as Python writes it: ``obs.cam``, ``obs["agent 1"].mask``."""
    return f"{path}{_step(name)}" if path else _step(name).removeprefix(".")


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name!r}]"


def parts_of(path: str) -> tuple[str, ...]:
    """The names in a path, outermost first: ``("obs", "agent 1")``."""
    return tuple(ast.literal_eval(found[1:-1]) if found[0] == "[" else found for found in _PART.findall(path))


_PART = re.compile(r"""\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|[^.\[]+""")


def top_of(path: str) -> str:
    """The argument that a path in a call begins with: ``xs`` of ``xs[0].obs``."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


class Path:
    """Where a field is: its name, and the path of the batch that it is in. As text it is written when asked for.

    A path is equal to itself alone, so that it costs the same at every depth.

    Attributes:
        top: the field of the batch itself that it goes through.
        depth: how many names it has.
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
    """Where an argument or a result is, ``logp``, ``others[0]``, ``return``: its name is shown as it is."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(None, name)

    def step(self) -> str:
        return self.name
