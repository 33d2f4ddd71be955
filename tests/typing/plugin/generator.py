"""Random programs over batches.

A program is data: statements, some with blocks of statements within. It is written out as a file for mypy, and run by
``oracle``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias


@dataclass(frozen=True)
class Clause:
    """A head, such as ``else:``, and the statements under it."""

    head: str
    body: Body


@dataclass(frozen=True)
class Block:
    """A statement with blocks in it: ``if`` with ``else``, ``try`` with its handlers, a loop."""

    clauses: tuple[Clause, ...]


Statement: TypeAlias = str | Block
Body: TypeAlias = tuple[Statement, ...]
Place: TypeAlias = tuple[int, ...]
"""Where a statement is: its number; behind the number of a block, the number of a clause and that of a statement."""

PRELUDE = """
from numpy import float64
from numpy.typing import NDArray
from typedbatch import BatchProtocol

class Risk(Exception): ...

def coin(place: int) -> bool: ...
def more(place: int) -> bool: ...
def count(place: int) -> int: ...
def risky() -> None: ...
def value() -> NDArray[float64]: ...
def look(batch: BatchProtocol) -> None: ...
"""
"""What programs import, as mypy sees it."""

_HEADER = """\
from contextlib import nullcontext, suppress
from prelude import Risk, coin, count, look, more, risky, value
from typedbatch import Batch, cat, stack

def program() -> None:
"""
HEADER_LINES = _HEADER.count("\n")
"""Lines of a file before the first statement of the program."""


@dataclass(frozen=True)
class Line:
    """A line of a program; ``place`` is None where the line is not a statement of the program's own."""

    text: str
    place: Place | None


def lines_of(body: Body, place: Place = (), indent: str = "", interrupted: bool = False) -> Iterator[Line]:
    """The program as lines. Anything in a ``try`` may be interrupted: ``risky()`` is around every statement there."""
    if not body:
        yield Line(f"{indent}{'risky()' if interrupted else 'pass'}", None)
    for number, statement in enumerate(body):
        here = (*place, number)
        if interrupted:
            yield Line(f"{indent}risky()", None)
        if isinstance(statement, str):
            yield Line(f"{indent}{statement}", here)
            continue
        for part, clause in enumerate(statement.clauses):
            yield Line(f"{indent}{clause.head}", here if part == 0 else None)
            inner = interrupted or _is_interrupted(statement, part)
            yield from lines_of(clause.body, (*here, part), indent + "    ", inner)
    if interrupted and body and body[-1] not in _LEAVING:
        yield Line(f"{indent}risky()", None)


def _is_interrupted(block: Block, part: int) -> bool:
    if block.clauses[part].head.startswith(("try", "with suppress")):
        return True
    # what a handler lets pass, or raises itself, still goes by way of the finally
    return block.clauses[-1].head == "finally:" and part < len(block.clauses) - 1


def source(body: Body) -> str:
    """The program as a file."""
    return _HEADER + "".join(f"    {line.text}\n" for line in lines_of(body))


def places(body: Body, place: Place = ()) -> Iterator[Place]:
    """Where there are statements, from outside in."""
    for number, statement in enumerate(body):
        yield (*place, number)
        if isinstance(statement, Block):
            for part, clause in enumerate(statement.clauses):
                yield from places(clause.body, (*place, number, part))


def changed(body: Body, place: Place, change: Callable[[Statement], Body]) -> Body:
    """The program with other statements in the place of one."""
    number, statement = place[0], body[place[0]]
    if len(place) == 1:
        return (*body[:number], *change(statement), *body[number + 1 :])
    assert isinstance(statement, Block)
    clauses = list(statement.clauses)
    clauses[place[1]] = replace(clauses[place[1]], body=changed(clauses[place[1]].body, place[2:], change))
    return (*body[:number], Block(tuple(clauses)), *body[number + 1 :])


def smaller(body: Body) -> Iterator[Body]:
    """The program with one statement left out, or with one block less."""
    for place in places(body):
        yield changed(body, place, lambda _: ())
        for simpler in _simpler(_at(body, place)):
            yield changed(body, place, lambda _, simpler=simpler: simpler)  # type: ignore[misc]


def _at(body: Body, place: Place) -> Statement:
    statement = body[place[0]]
    if len(place) == 1:
        return statement
    assert isinstance(statement, Block)
    return _at(statement.clauses[place[1]].body, place[2:])


def _simpler(statement: Statement) -> Iterator[Body]:
    if isinstance(statement, str):
        return
    for clause in statement.clauses:
        yield clause.body
    fewest = 2 if statement.clauses[0].head == "try:" else 1
    for part in range(1, len(statement.clauses) if len(statement.clauses) > fewest else 1):
        yield (Block((*statement.clauses[:part], *statement.clauses[part + 1 :])),)


# {b}, {c} are two variables, {f}, {g} fields, {o} a nested field, {n} a number that no other statement has,
# {v} what a field is set to, {w} a new batch.
_VARIABLES = ("b", "c", "d")
FIELDS = ("x", "y", "z")
NESTED = ("obs", "info")

_READS = (
    "{b}.{f}", "{b}.{f}", '{b}["{f}"]', "{b}.{o}.{f}", '{b}["{o}"]["{f}"]', "{b}[:2].{f}", "{b}.copy().{f}",
    "{b}[0].{f}", "print({b}.{f}, {b}.{o})", "[row.{f} for row in {b}]", "cat([{b}, {b}]).{f}",
    "({b} if coin({n}) else {c}).{f}", "({b}.{f} if coin({n}) else {b}.{g})",
)  # fmt: skip
_WRITES = (
    "{b}.{f} = {v}", "{b}.{f} = {v}", '{b}["{f}"] = {v}', "{b}.{o} = {w}", "{b}.{o}.{f} = {v}",
    '{b}["{o}"]["{f}"] = {v}', '{b}.{o}["{f}"] = {v}', "{b}.{f} += 1", "{b}.{f} = {b}.{g} * 2",
    "{b}.{f} = {b}.{f} + {c}.{g}", "{b}.update({f}=value(), {g}=value())", '{b}.update({{"{f}": value()}})',
    "{b}.update({c}.copy())", "{b}.{o}.update({f}=value())", '{b}.setdefault("{f}", value())',
    '{b}.{o}.setdefault("{f}", value())',
)  # fmt: skip
_REMOVALS = (
    "del {b}.{f}", 'del {b}["{f}"]', "del {b}.{o}.{f}", '{b}.pop("{f}")', '{b}.pop("{f}", None)', '{b}.{o}.pop("{f}")',
    "{b}.clear()",
)  # fmt: skip
_BINDINGS = (
    "{b} = {w}", "{b} = {w}", "{b} = {c}.copy()", "{b} = {c}[:2]", "{b} = {c}[0]", "{b} = {b}[:2]",
    "{b} = cat([{b}, {b}[:1]])", "{b} = cat([{b}, {c}])", "{b} = stack([{b}, {b}])", "{b} = stack([{b}, {c}])",
    "{b} = {c}.to_numpy()", "{b} = {c}.isnull()", "{b} = {b} + 1", "{b} += 1", "{b}, {c} = {c}.copy(), {w}",
    "{b} = {c}.copy() if coin({n}) else {w}",
)  # fmt: skip
_LOOKS = ('{b}.get("{f}")', "look({b})", "print({b}, len({b}))", "{b}.empty_()")
_FORMS = (*_READS * 4, *_WRITES * 2, *_REMOVALS, *_BINDINGS, *_LOOKS)
_LEAVING = ("return", "raise Risk", "break", "continue")

_LOOPS = (
    "for _ in range(count({n})):", "while more({n}):", "for {b} in {c}.split(2):", "for {b} in {c}:",
    "for {b} in {b}.split(2, shuffle=False):", "for i, {b} in enumerate({c}):", "for _ in {b}:",
)  # fmt: skip
_HANDLERS = ("except Risk:", "except Risk as error:")


@dataclass
class Writer:
    """Writes programs by chance in which the plugin sees all that happens: it has to report every read that fails."""

    random: Random
    numbers: int = 0

    def program(self) -> Body:
        """A function with up to some twenty statements."""
        self.numbers = 0
        start = (f"{name} = {self._batch()}" for name in _VARIABLES)
        return (*start, *self._body(self.random.randint(3, 9), 0, looped=False))

    def _body(self, size: int, depth: int, looped: bool) -> Body:
        return tuple(self._statement(depth, looped) for _ in range(size))

    def _statement(self, depth: int, looped: bool) -> Statement:
        if depth < 3 and self.random.random() < 0.25:
            return self._block(depth, looped)
        if depth and self.random.random() < 0.05:
            return self.random.choice(_LEAVING if looped else _LEAVING[:2])
        return self._filled(self.random.choice(_FORMS))

    def _block(self, depth: int, looped: bool) -> Block:
        kind = self.random.choice([self._if, self._if, self._loop, self._try, self._with])
        return Block(tuple(kind(depth + 1, looped)))

    def _clause(self, head: str, depth: int, looped: bool) -> Clause:
        return Clause(self._filled(head), self._body(self.random.randint(1, 3), depth, looped))

    def _if(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause("if coin({n}):", depth, looped)
        if self.random.random() < 0.2:
            yield self._clause("elif coin({n}):", depth, looped)
        if self.random.random() < 0.5:
            yield self._clause("else:", depth, looped)

    def _loop(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause(self.random.choice(_LOOPS), depth, looped=True)
        if self.random.random() < 0.1:
            yield self._clause("else:", depth, looped)

    def _try(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause("try:", depth, looped)
        shape = self.random.choice(["except", "except", "finally", "both", "else"])
        if shape != "finally":
            yield self._clause(self.random.choice(_HANDLERS), depth, looped)
        if shape == "else":
            yield self._clause("else:", depth, looped)
        if shape in ("finally", "both"):
            yield self._clause("finally:", depth, looped=False)

    def _with(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause(self.random.choice(["with nullcontext():", "with suppress(Risk):"]), depth, looped)

    def _filled(self, form: str) -> str:
        self.numbers += 1
        variables, fields = self.random.sample(_VARIABLES, 2), self.random.sample(FIELDS, 2)
        return form.format(
            b=variables[0],
            c=variables[1],
            f=fields[0],
            g=fields[1],
            o=self.random.choice(NESTED),
            n=self.numbers,
            v=self.random.choice(["value()", "value()", "value()", "[1.0, 2.0, 3.0, 4.0]", '{"x": value()}']),
            w=self._batch(),
        )

    def _batch(self) -> str:
        names = self.random.sample(FIELDS, self.random.randint(0, 3))
        given = dict.fromkeys(names, "value()")
        for name in NESTED:
            if self.random.random() < 0.4:
                given[name] = self._nested()
        if self.random.random() < 0.3:
            return "Batch({" + ", ".join(f'"{name}": {value}' for name, value in given.items()) + "})"
        return "Batch(" + ", ".join(f"{name}={value}" for name, value in given.items()) + ")"

    def _nested(self) -> str:
        names = self.random.sample(FIELDS, self.random.randint(1, 2))
        if self.random.random() < 0.5:
            return "{" + ", ".join(f'"{name}": value()' for name in names) + "}"
        return "Batch(" + ", ".join(f"{name}=value()" for name in names) + ")"
