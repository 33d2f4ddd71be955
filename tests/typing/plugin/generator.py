"""Random programs over batches.

A program is data: statements, some with blocks of statements within. It is written out as a file for mypy, and run by
``oracle``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeAlias

# ---- programs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """A head, such as ``else:``, and the statements under it."""

    head: str
    body: Body


@dataclass(frozen=True)
class Block:
    """A statement with blocks in it: ``if`` with ``else``, ``try`` with its handlers, a loop, a function."""

    clauses: tuple[Clause, ...]


Statement: TypeAlias = str | Block
Body: TypeAlias = tuple[Statement, ...]
Place: TypeAlias = tuple[int, ...]
"""Where a statement is: its number; behind the number of a block, the number of a clause and that of a statement."""

PRELUDE = """
from numpy import float64
from numpy.typing import NDArray
from typedbatch import Batch, BatchProtocol

class Risk(Exception): ...

def coin(place: int) -> bool: ...
def more(place: int) -> bool: ...
def count(place: int) -> int: ...
def risky() -> None: ...
def value() -> NDArray[float64]: ...
def look(batch: BatchProtocol) -> None: ...
def add_x(batch: Batch) -> None: ...
def add_new(batch: Batch) -> Batch: ...
"""
"""What programs import, as mypy sees it."""

WORLD = """
from prelude import value
from typedbatch import Batch

SETTINGS = Batch(x=value(), obs=Batch(x=value()))

class Box:
    def __init__(self) -> None:
        self.held = Batch(x=value(), y=value())

    def fill(self) -> None:
        fill(self)

def fill(box: Box) -> None:
    import elsewhere
    elsewhere.fill(box)
"""
"""A module whose batches get fields that it does not show."""

ELSEWHERE = """
from prelude import value
from world import SETTINGS, Box

def fill(box: Box) -> None:
    box.held.new = value()

def fill_settings() -> None:
    SETTINGS.new = value()
"""
"""The module that gives them to it."""

_HEADER = """\
from contextlib import nullcontext, suppress
from elsewhere import fill_settings
from prelude import Risk, add_new, add_x, coin, count, look, more, risky, value
from world import SETTINGS, Box
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
            inner = _is_interrupted(statement, part) or (interrupted and clause.head[:4] != "def ")
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


# ---- drawing ---------------------------------------------------------------------------------------------------------

# {b}, {c} are two variables, {f}, {g} fields, {o} a nested field, {n} a number that no other statement has,
# {v} what a field is set to, {w} a new batch.
_VARIABLES = ("b", "c", "d")
FIELDS = ("x", "y", "z")
NESTED = ("obs", "info")

_READS = (
    "{b}.{f}",
    "{b}.{f}",
    '{b}["{f}"]',
    "{b}.{o}.{f}",
    '{b}["{o}"]["{f}"]',
    "{b}[:2].{f}",
    "{b}.copy().{f}",
    "{b}[0].{f}",
    "print({b}.{f}, {b}.{o})",
    "[row.{f} for row in {b}]",
    "cat([{b}, {b}]).{f}",
    "({b} if coin({n}) else {c}).{f}",
    "({b}.{f} if coin({n}) else {b}.{g})",
)
_WRITES = (
    "{b}.{f} = {v}",
    "{b}.{f} = {v}",
    '{b}["{f}"] = {v}',
    "{b}.{o} = {w}",
    "{b}.{o}.{f} = {v}",
    '{b}["{o}"]["{f}"] = {v}',
    '{b}.{o}["{f}"] = {v}',
    "{b}.{f} += 1",
    "{b}.{f} = {b}.{g} * 2",
    "{b}.{f} = {b}.{f} + {c}.{g}",
    "{b}.update({f}=value(), {g}=value())",
    '{b}.update({{"{f}": value()}})',
    "{b}.update({c}.copy())",
    "{b}.{o}.update({f}=value())",
    '{b}.setdefault("{f}", value())',
    '{b}.{o}.setdefault("{f}", value())',
)
_REMOVALS = (
    "del {b}.{f}",
    'del {b}["{f}"]',
    "del {b}.{o}.{f}",
    '{b}.pop("{f}")',
    '{b}.pop("{f}", None)',
    '{b}.{o}.pop("{f}")',
    "{b}.clear()",
)
_BINDINGS = (
    "{b} = {w}",
    "{b} = {w}",
    "{b} = {c}.copy()",
    "{b} = {c}[:2]",
    "{b} = {c}[0]",
    "{b} = {b}[:2]",
    "{b} = cat([{b}, {b}[:1]])",
    "{b} = cat([{b}, {c}])",
    "{b} = stack([{b}, {b}])",
    "{b} = stack([{b}, {c}])",
    "{b} = {c}.to_numpy()",
    "{b} = {c}.isnull()",
    "{b} = {b} + 1",
    "{b} += 1",
    "{b}, {c} = {c}.copy(), {w}",
    "{b} = {c}.copy() if coin({n}) else {w}",
)
_LOOKS = ('{b}.get("{f}")', "look({b})", "print({b}, len({b}))", "{b}.empty_()")
_STRAIGHT = (*_READS * 4, *_WRITES * 2, *_REMOVALS, *_BINDINGS, *_LOOKS)

_ALIASES = (
    "{b} = {c}",
    "{b}, {c} = {c}, {b}",
    "{b} = {c} = {w}",
    "{b} = {c} if coin({n}) else {w}",
    "{b} = {c}.{o}",
    '{b} = {c}["{o}"]',
    "{b}.{o} = {c}",
    "{b} = Batch({o}={c})",
    "{b} = Batch({c})",
    "{b} = Batch({c}, {f}=value())",
    "{b}.update({c})",
    "({b} if coin({n}) else {c}).{f} = value()",
)
_HANDED = (
    "add_x({b})",
    "add_new({b})",
    "{b}.new",
    "{b}.{o}.new",
    "add_new({b}.{o})",
    "add_x({b}.{o})",
    'setattr({b}, "{f}", value())',
    "many = [{b}, {c}]",
    "many.append({b})",
    "many[0].{f}",
    "many[0].{f} = value()",
    "{b} = many[0]",
    "{b} = many.pop()",
    'table = {{"k": {b}}}',
    'table["k"].{f} = value()',
    '{b} = table["k"]',
    "pair = ({b}, {c})",
    "{b}, {c} = pair",
    "pair[0].{f}",
    "add = {b}.update",
    "add({f}=value())",
    "(lambda: {b}.{f})()",
    "one()",
    "two()",
)
_COMPUTED = (
    'name = "{f}"',
    "{b}[name] = value()",
    "{b}[name]",
    "{b}.update({{name: value()}})",
    "{b}.update(**fields)",
    "{b}.set_array_at_key(value(), name)",
    "{b}.popitem()",
    "{b}.cat_([{c}])",
    "{b}.stack_([{c}])",
)
_HELD = (
    "SETTINGS.{f} = value()",
    "SETTINGS.{f}",
    "SETTINGS.new",
    "SETTINGS.{o}.{f}",
    "fill_settings()",
    "{b} = SETTINGS",
    "box.held = {b}",
    "box.held.{f} = value()",
    "box.held.{f}",
    "box.held.new",
    "box.fill()",
    "{b} = box.held",
    "{b} = box.held.copy()",
)
_CORRELATED = (
    "({b}.{f} if flag else {b}.{g})",
    "flag and print({b}.{f})",
    "flag or print({b}.{f})",
    "other = flag",
    "print({b}.{f}) if other else None",
)
_SHARED = (
    "box = Box()",
    "other = False",
    "flag = coin(0)",
    'name = "z"',
    'fields = {"x": value()}',
    "many = [Batch(x=value())]",
    'table = {"k": d}',
    "pair = (b, c)",
    "add = b.update",
)
_WILD = (*_STRAIGHT, *_ALIASES * 2, *_HANDED * 2, *_COMPUTED, *_HELD * 2, *_CORRELATED * 2)
_LEAVING = ("return", "raise Risk", "break", "continue")

_LOOPS = (
    "for _ in range(count({n})):",
    "while more({n}):",
    "for {b} in {c}.split(2):",
    "for {b} in {c}:",
    "for {b} in {b}.split(2, shuffle=False):",
    "for i, {b} in enumerate({c}):",
    "for _ in {b}:",
)
_WILD_LOOPS = (
    *_LOOPS,
    "for {b} in many:",
    'for name in ["{f}", "{g}"]:',
    "for {b}, {c} in zip({c}, {c}):",
)
_GUARDS = (
    'if hasattr({b}, "{f}"):',
    'if "{f}" in {b}:',
    'if "{f}" not in {b}:',
    'if "{f}" in {b} and coin({n}):',
    'if not hasattr({b}, "{f}"):',
    "if flag:",
    "if flag:",
    "if not flag:",
    "if flag and coin({n}):",
    "if other:",
    "if flag is other:",
    'if {b}.get("{f}") is not None:',
    "if {b} is {c}:",
)
_HANDLERS = ("except Risk:", "except Risk as error:")
_WILD_HANDLERS = (
    *_HANDLERS,
    "except (Risk, AttributeError, KeyError):",
    "except Exception:",
)
_FUNCTIONS = ("one", "two")


@dataclass
class Writer:
    """Writes programs by chance.

    Attributes:
        wild: batches have other names, are in lists, are handed to functions, and fields are asked for first. Without
            it the plugin sees all that happens, and has to report every read that fails.
    """

    random: Random
    wild: bool
    numbers: int = 0
    functions: list[str] = field(default_factory=list)

    def program(self) -> Body:
        """A function with up to some twenty statements."""
        self.numbers, self.functions = 0, list(_FUNCTIONS)
        start: list[Statement] = [f"{name} = {self._batch()}" for name in _VARIABLES]
        if self.wild:
            start += [form for form in _SHARED if self.random.random() < 0.7]
            start += [Block(tuple(self._function(1, looped=False))) for _ in range(self.random.randint(0, 2))]
        body = self._body(self.random.randint(3, 9), 0, looped=False)
        return (*start, *body)

    def _body(self, size: int, depth: int, looped: bool) -> Body:
        return tuple(self._statement(depth, looped) for _ in range(size))

    def _statement(self, depth: int, looped: bool) -> Statement:
        if depth < 3 and self.random.random() < 0.25:
            return self._block(depth, looped)
        if depth and self.random.random() < 0.05:
            return self.random.choice(_LEAVING if looped else _LEAVING[:2])
        return self._filled(self.random.choice(_WILD if self.wild else _STRAIGHT))

    def _block(self, depth: int, looped: bool) -> Block:
        kinds = [self._if, self._if, self._loop, self._try, self._with]
        if self.wild:
            kinds += [self._guard, self._function]
        return Block(tuple(self.random.choice(kinds)(depth + 1, looped)))

    def _clause(self, head: str, depth: int, looped: bool) -> Clause:
        return Clause(self._filled(head), self._body(self.random.randint(1, 3), depth, looped))

    def _if(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause("if coin({n}):", depth, looped)
        if self.random.random() < 0.2:
            yield self._clause("elif coin({n}):", depth, looped)
        if self.random.random() < 0.5:
            yield self._clause("else:", depth, looped)

    def _guard(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause(self.random.choice(_GUARDS), depth, looped)
        if self.random.random() < 0.5:
            yield self._clause("else:", depth, looped)

    def _loop(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause(self.random.choice(_WILD_LOOPS if self.wild else _LOOPS), depth, looped=True)
        if self.random.random() < 0.1:
            yield self._clause("else:", depth, looped)

    def _try(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause("try:", depth, looped)
        shape = self.random.choice(["except", "except", "finally", "both", "else"])
        if shape != "finally":
            yield self._clause(self.random.choice(_WILD_HANDLERS if self.wild else _HANDLERS), depth, looped)
        if shape == "else":
            yield self._clause("else:", depth, looped)
        if shape in ("finally", "both"):
            yield self._clause("finally:", depth, looped=False)

    def _with(self, depth: int, looped: bool) -> Iterator[Clause]:
        yield self._clause(self.random.choice(["with nullcontext():", "with suppress(Risk):"]), depth, looped)

    def _function(self, depth: int, looped: bool) -> Iterator[Clause]:
        if not self.functions:
            yield from self._if(depth, looped)
            return
        clause = self._clause(f"def {self.functions.pop()}() -> None:", depth, looped=False)
        outer = (f"nonlocal {', '.join(_VARIABLES)}",) if self.random.random() < 0.5 else ()
        yield replace(clause, body=(*outer, *clause.body))

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
