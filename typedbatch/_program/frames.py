"""Calls, loops and ``try`` statements that a run is in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from typedbatch._program.arrays.declared import Declared
from typedbatch._program.arrays.sizes import Size
from typedbatch._program.heap import Changes, Field
from typedbatch._program.source import Source
from typedbatch._program.values import Code, Ref, Value


@dataclass(slots=True)
class Call:
    """Arguments of a call.

    Attributes:
        node: The call in the source, for reports; None if there is none.
        has_more: Whether there may be other keywords, of a ``**``.
        is_starred: Whether there may be other positional arguments, of a ``*``.
    """

    args: list[Value] = field(default_factory=list[Value])
    named: dict[str, Value] = field(default_factory=dict[str, Value])
    node: ast.AST | None = None
    has_more: bool = False
    is_starred: bool = False

    @property
    def first(self) -> Value | None:
        """The first positional argument."""
        return self.args[0] if self.args else None

    def get(self, at: int, name: str) -> Value | None:
        """Return an argument by its position or name."""
        return self.args[at] if len(self.args) > at else self.named.get(name)

    def argument(self, at: int | None, name: str) -> ast.AST | None:
        """Return the expression of an argument in the source, or the call if there is none."""
        if not isinstance(self.node, ast.Call):
            return self.node
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
        is_listed = at is not None and not any(isinstance(one, ast.Starred) for one in self.node.args)
        return self.node.args[at] if is_listed and at is not None and 0 <= at < len(self.node.args) else self.node

    def values(self) -> Iterator[Value]:
        """Yield all arguments."""
        yield from self.args
        yield from self.named.values()


@dataclass(slots=True)
class Loop:
    """A loop that the run is in, with the changes at each ``break`` and ``continue``."""

    mark: int
    round_mark: int = 0
    breaks: list[Changes] = field(default_factory=list[Changes])
    continues: list[Changes] = field(default_factory=list[Changes])


@dataclass(slots=True)
class Frame:
    """A call that the run is in, or the top of a module.

    Attributes:
        code: The function; None for a module.
        number: Number of the call.
        mark: Mark of the heap where it begins.
        returns: Values that it returned, each with the changes there.
        yields: Values that it yielded.
        yielded: Batches that it yielded, with their fields at that moment.
        handles: Number of ``try`` statements around that handle a missing field, with any other exception.
        asks: Number of those that name the exception of a missing field, and so ask whether there is one. The functions
            that are called there may be about nothing else.
        around: The scope around the comprehensions that the run is in, where ``:=`` sets variables, or None.
        guarded: Number of conditions that the call is behind.
        exits: Number of exits of its callers that were behind the run when it began.
        is_result: Whether the annotation of a result is read, which says nothing of runs that no argument has.
        guessed: Runs of axes in the parameters' shapes of which the call does not say how many axes they have.
        declared: Declared shapes of the parameters.
        sizes: Sizes of the names in the shapes that the function declares.
        catches: Number of those that handle an error of shapes by its name.
        varying: Variables that vary together with each round of a loop, for each loop around.
        dispatches: Number of conditions around that ask for the class of a value. Other values may be of another class
            there than they are elsewhere.
    """

    code: Code | None
    source: Source
    scope: Ref
    number: int
    mark: int = 0
    call: ast.AST | None = None
    loops: list[Loop] = field(default_factory=list[Loop])
    returns: list[tuple[Value, Changes]] = field(default_factory=list[tuple[Value, Changes]])
    yields: list[Value] = field(default_factory=list[Value])
    yielded: list[tuple[Ref, dict[str, Field]]] = field(default_factory=list[tuple[Ref, dict[str, Field]]])
    varying: list[set[str]] = field(default_factory=list[set[str]])
    around: Ref | None = None
    guarded: int = 0
    exits: int = 0
    is_result: bool = False
    guessed: set[str] = field(default_factory=set[str])
    declared: dict[str, Declared] = field(default_factory=dict[str, Declared])
    sizes: dict[str, Size | None] = field(default_factory=dict[str, Size | None])
    handles: int = 0
    asks: int = 0
    catches: int = 0
    dispatches: int = 0

    @property
    def may_have_left(self) -> bool:
        """True if an exit lies behind: a return, or a break or continue of a loop that the run is in."""
        return bool(self.returns) or any(loop.breaks or loop.continues for loop in self.loops)


@dataclass(slots=True)
class Attempt:
    """A ``try`` that the run is in, whether it handles a missing field, and the changes at each ``raise``."""

    mark: int
    handles: bool = False
    raised: list[Changes] = field(default_factory=list[Changes])
