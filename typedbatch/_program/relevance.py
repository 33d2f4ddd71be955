"""Definitions of a program that may have to do with batches or shapes, by the names that they use.

Of a large program most functions have not. To run those that nothing calls would find nothing, and take long.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator

from typedbatch._program.source import Program, Source, counts

_Unit = tuple[Source, int]
"""A statement at the top of a file."""


class Relevance:
    """The statements at the tops of files that use typedbatch or jaxtyping, or what another such statement defines."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._starts = {source: [_first_line(one) for one in source.tree.body] for source in program.sources}
        self._defining: dict[tuple[Source, str], list[_Unit]] = {}
        for source in program.sources:
            for at, statement in enumerate(source.tree.body):
                for name in _defined(statement):
                    self._defining.setdefault((source, name), []).append((source, at))
        self._relevant: set[_Unit] = set()
        users: dict[_Unit, list[_Unit]] = {}
        todo: list[_Unit] = []
        for source in program.sources:
            for at, (names, imports) in enumerate(source.vocabulary.uses):
                if any(map(counts, imports)):
                    todo.append((source, at))
                used = [one for name in (*names, "*") for one in self._defining.get((source, name), ())]
                for other in [*used, *(one for name in imports for one in self._imported(name, source))]:
                    users.setdefault(other, []).append((source, at))
        while todo:
            unit = todo.pop()
            if unit not in self._relevant:
                self._relevant.add(unit)
                todo += users.get(unit, ())

    def _imported(self, name: str, near: Source) -> Iterator[_Unit]:
        """Yield the statements that define what a full name imports; all of a module that is imported whole."""
        source = self._program.find(name, near)
        module, _, member = name.rpartition(".")
        if source is None and (source := self._program.find(module, near)) is not None and member != "*":
            yield from self._defining.get((source, member), ())
            yield from self._defining.get((source, "*"), ())
        elif source is not None:
            yield from ((source, at) for at in range(len(source.tree.body)))

    def covers(self, source: Source, line: int) -> bool:
        """Return whether the statement at the top of a file that a line is in may have to do with batches."""
        return (source, bisect_right(self._starts[source], line) - 1) in self._relevant


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement sets; a star for those of another module."""
    todo: list[ast.AST] = [statement]
    while todo:
        match todo.pop():
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((one.asname or one.name).partition(".")[0] for one in aliases)
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case node:
                todo += ast.iter_child_nodes(node)
