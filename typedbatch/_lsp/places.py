"""Expressions as the engine of the plugin has seen them, by their places in the text of a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from mypy.nodes import Expression, MemberExpr, MypyFile
from mypy.types import Type

from typedbatch._program.arrays.values import Array, Value, join
from typedbatch.mypy.batches.content import Content, Object, Ref
from typedbatch.mypy.batches.objects import Objects
from typedbatch.mypy.engine.observing import Observe
from typedbatch.mypy.engine.reading import Reading
from typedbatch.mypy.internals import known_type
from typedbatch.mypy.types.fields import alternatives, is_batch


class Span(NamedTuple):
    """The place of an expression: lines from 1, columns from 0, the last column behind it."""

    line: int
    column: int
    end_line: int
    end_column: int

    def covers(self, line: int, column: int) -> bool:
        """Return whether a place is in the expression, or right behind it."""
        return (self.line, self.column) <= (line, column) <= (self.end_line, self.end_column)


@dataclass(frozen=True)
class Seen:
    """An expression, with what is known of it on its line.

    Attributes:
        node: The expression.
        value: What the engine knows of it.
        objects: The batches and lists that it leads to.
        type: Type that mypy has found.
        is_target: The expression is assigned to.
        elsewhere: Names of the fields that batches have in attributes of the same name, anywhere in the file.
    """

    node: Expression
    value: Value
    objects: dict[Object, Any]
    type: Type | None
    is_target: bool
    elsewhere: Collection[str] = ()

    @property
    def batch(self) -> Content | None:
        """The content of a plain batch; None for anything else."""
        if self.type is not None and not any(map(is_batch, alternatives(self.type))):
            return None
        return self.inner(self.value)

    def inner(self, value: Value) -> Content | None:
        """Return the content of a batch that the expression leads to; None for anything else."""
        found = Objects(join, self.objects).whole(value)
        return found if isinstance(found, Content) else None


class Places:
    """Expressions of each file as they were seen when mypy last checked it."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[Span, Seen]] = {}
        self._writes: dict[str, set[tuple[str, int]]] = {}
        self._attributes: dict[str, dict[str, set[str]]] = {}

    def observe(self, api: Any, tree: MypyFile) -> Observe:
        """Return the hook that takes what the engine sees in a file."""
        seen = self._seen.setdefault(tree.path, {})
        writes = self._writes.setdefault(tree.path, set())
        attributes = self._attributes.setdefault(tree.path, {})

        def see(node: Expression, value: Value, reading: Reading, is_target: bool) -> None:
            if isinstance(value, (Array, Ref)) and node.end_line is not None and node.end_column is not None:
                objects = reading.known.objects
                reached = {one: objects.of(one) for one in objects.reachable([value])}
                names: set[str] = set()
                if isinstance(node, MemberExpr) and isinstance(value, Ref) and not is_batch(known_type(api, node.expr)):
                    names = attributes.setdefault(node.name, names)
                    contents = [reached.get(one) for one in value.objects]
                    names.update(name for one in contents if isinstance(one, Content) for name in one.fields)
                span = Span(node.line, node.column, node.end_line, node.end_column)
                seen[span] = Seen(node, value, reached, known_type(api, node), is_target, names)
            if is_target and isinstance(node, MemberExpr) and is_batch(known_type(api, node.expr)):
                writes.add((node.name, node.line))

        return see

    def forget(self, path: str) -> None:
        """Forget a file, which is checked again."""
        self._seen.pop(path, None)
        self._writes.pop(path, None)
        self._attributes.pop(path, None)

    def writers(self, name: str) -> list[tuple[str, int]]:
        """Return the paths and lines that set a field of a plain batch."""
        found = {(path, line) for path, writes in self._writes.items() for one, line in writes if one == name}
        for path, seen in self._seen.items():
            contents = [one.batch for one in seen.values()]
            found |= {
                (path, made.fields[name].line)
                for made in contents
                if made is not None and name in made.fields and made.fields[name].line
            }
        return sorted(found)

    def all_in(self, path: str) -> Iterator[tuple[Span, Seen]]:
        """Yield what was seen in a file, in the order of its text."""
        yield from sorted(self._seen.get(path, {}).items(), key=lambda item: item[0])

    def at(self, path: str, line: int, column: int) -> tuple[Span, Seen] | None:
        """Return the smallest expression at a place."""
        found = [item for item in self._seen.get(path, {}).items() if item[0].covers(line, column)]
        return max(found, key=lambda item: (item[0][:2], [-end for end in item[0][2:]]), default=None)

    def ending_at(self, path: str, line: int, column: int) -> Seen | None:
        """Return the longest expression that ends at a place."""
        found = [item for item in self._seen.get(path, {}).items() if item[0][2:] == (line, column)]
        return min(found, key=lambda item: item[0])[1] if found else None
