"""Places in a file that a run of its program came to: batches with their fields, arrays with their shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from typedbatch._program.arrays.values import Array, join

Node = ast.expr | ast.arg
"""A node with a value: an expression, a target of an assignment, or a parameter."""


class Span(NamedTuple):
    """The place of a node: lines from 1, columns in bytes from 0, the last column behind it."""

    line: int
    column: int
    end_line: int
    end_column: int

    def covers(self, line: int, column: int) -> bool:
        """Return whether a place is in the span, or right behind it."""
        return (self.line, self.column) <= (line, column) <= (self.end_line, self.end_column)


class Site(NamedTuple):
    """A node of a file that sets a field, or makes a batch."""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class Seen:
    """A value as it is known, however often the run came to it.

    Attributes:
        is_unknown: Whether it may be anything at all, too.
        kind: Name of its type, as ``int``; empty if it is not known, or one of several.
        array: The array that it is, if one is known.
        fields: Fields of a batch, in the order in which they were set; None for anything else.
        is_open: Whether the batch may have other fields, too.
        is_declared: Whether the batch is a record or protocol, or the parameter that it is given to.
        sites: Calls that made the batch.
        parameters: Names of the parameters of a function; None for anything else.
    """

    is_unknown: bool = False
    kind: str = ""
    array: Array | None = None
    fields: Mapping[str, Field] | None = None
    is_open: bool = False
    is_declared: bool = False
    sites: frozenset[Site] = frozenset()
    parameters: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a batch.

    Attributes:
        name: Name.
        value: What is known of its value.
        is_sure: Whether every way to the place has set it.
        sites: Nodes that may have set it.
        declared: Text of its annotation in a record or protocol; empty without one.
    """

    name: str
    value: Seen
    is_sure: bool = True
    sites: frozenset[Site] = frozenset()
    declared: str = ""

    @property
    def label(self) -> str:
        """Name, with a question mark behind that of a field which may be missing."""
        return self.name if self.is_sure else f"{self.name}?"


UNKNOWN = Seen(is_unknown=True)
NONE = Seen(kind="None")
OTHER = Seen()
"""Something that is known not to be a batch."""
BATCH, DECLARED, LIBRARY = "type[Batch]", "type[BatchRecord]", "library"
"""Kinds of the class of plain batches, of records and protocols, and of what numpy and torch have."""


def joined(one: Seen, other: Seen) -> Seen:
    """Return what holds for a value that may be either."""
    if one is other or other is NONE:
        return one
    if one is NONE:
        return other
    if one is UNKNOWN or other is UNKNOWN:
        # Functions that others may call with anything are run with unknown arguments, too.
        known = other if one is UNKNOWN else one
        array = None if known.array is None else Array(None, None, known.array.torch)
        return replace(known, is_unknown=True, array=array, is_open=True)
    found = join(one.array, other.array) if one.array is not None and other.array is not None else None
    return Seen(
        is_unknown=one.is_unknown or other.is_unknown or (one.fields is None) != (other.fields is None),
        kind=one.kind if one.kind == other.kind else "",
        array=found if isinstance(found, Array) else None,
        fields=_joined_fields(one.fields, other.fields),
        is_open=one.is_open or other.is_open,
        is_declared=one.is_declared or other.is_declared,
        sites=one.sites | other.sites,
        parameters=one.parameters & other.parameters if one.parameters and other.parameters else None,
    )


def _joined_fields(one: Mapping[str, Field] | None, other: Mapping[str, Field] | None) -> Mapping[str, Field] | None:
    if one is None or other is None or one is other:
        return other if one is None else one
    found = dict[str, Field]()
    for name in dict.fromkeys([*one, *other]):
        mine, theirs = one.get(name), other.get(name)
        if mine is None or theirs is None:
            known = mine or theirs
            assert known is not None
            found[name] = replace(known, is_sure=False)
        else:
            value, sites = joined(mine.value, theirs.value), mine.sites | theirs.sites
            found[name] = Field(name, value, mine.is_sure and theirs.is_sure, sites, mine.declared or theirs.declared)
    return found


def span_of(node: Node) -> Span:
    """Return the place of a node; of a parameter, that of its name."""
    if isinstance(node, ast.arg):
        return Span(node.lineno, node.col_offset, node.lineno, node.col_offset + len(node.arg.encode()))
    return Span(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def site_of(path: str, node: ast.AST) -> Site:
    """Return the place of a node of a file."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
    return Site(path, Span(line, column, end_line, end_column))


@dataclass
class Places:
    """The nodes of a file that a run came to.

    Attributes:
        tree: Syntax of the file.
        seen: What each of them was.
    """

    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    seen: dict[Node, Seen] = field(default_factory=dict[Node, Seen])

    def see(self, node: Node, seen: Seen) -> None:
        """Take what a node is, beside what it was before."""
        before = self.seen.get(node)
        self.seen[node] = seen if before is None else joined(before, seen)

    def declare(self, node: Node, array: Array | None) -> None:
        """Take the shape that an array has by declarations alone, where calls differ in its sizes."""
        seen = self.seen.get(node)
        known = seen.array if seen is not None else None
        if seen is None or known is None or array is None or known.axes is None or known.rank != array.rank:
            return
        axes = [other if axis.size is None else axis for axis, other in zip(known.axes, array.axes or (), strict=True)]
        self.seen[node] = replace(seen, array=known.shaped(axes))

    @cached_property
    def _sorted(self) -> list[tuple[Span, Node]]:
        return sorted(((span_of(node), node) for node in self.seen), key=lambda item: item[0])

    def all(self) -> Iterator[tuple[Span, Node, Seen]]:
        """Yield batches and arrays, in the order of the text."""
        for span, node in self._sorted:
            seen = self.seen[node]
            if seen.fields is not None or seen.array is not None:
                yield span, node, seen

    def at(self, line: int, column: int) -> tuple[Span, Node, Seen] | None:
        """Return the smallest batch or array at a place."""
        found = [one for one in self.all() if one[0].covers(line, column)]
        return max(found, key=lambda one: (one[0][:2], [-end for end in one[0][2:]]), default=None)

    def ending_at(self, line: int, column: int) -> Seen | None:
        """Return the longest batch or array that ends at a place."""
        return next((seen for span, _, seen in self.all() if span[2:] == (line, column)), None)

    def knows(self, line: int) -> bool:
        """Return whether the run came to anything in a line."""
        return any(span.line == line for span, _ in self._sorted)
