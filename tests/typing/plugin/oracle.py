"""What happens in a program when it runs, on every way through.

It is run with each of its statements watched. What it decides by chance (``coin``, ``count``, ``risky``) is decided in
every possible way, one way after the other. A statement that lacks a field is noted, and the program goes on, so that
each read is judged by itself. A statement that can fail for another reason is taken out, so that what is left is legal.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import TracebackType
from typing import Any

import numpy as np

from tests.typing.plugin.generator import FIELDS, HEADER_LINES, NESTED, Body, Writer, changed, lines_of, source
from typedbatch import Batch, cat, stack
from typedbatch.errors import MissingFieldError


class TooManyWaysError(Exception):
    """There are more ways through the program than are worth running."""


class IllegalError(Exception):
    """A statement failed for another reason than a missing field."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Stop(BaseException):
    """Ends a program; no handler of its own catches it."""


class Risk(Exception):
    """What ``risky()`` and the program itself raise."""


_MOST_CHOICES = 40
_MOST_WAYS = 400


@dataclass
class Choices:
    """The decisions on one way through a program: first those of ``script``, then always the first option."""

    script: list[int]
    repeats: int
    taken: list[tuple[int, int]] = field(default_factory=list)
    repeated: dict[int, int] = field(default_factory=dict)

    def choose(self, options: int) -> int:
        number = len(self.taken)
        if number > _MOST_CHOICES:
            raise _Stop
        chosen = self.script[number] if number < len(self.script) else 0
        self.taken.append((chosen, options))
        return chosen

    def coin(self, place: int) -> bool:
        return bool(self.choose(2))

    def count(self, place: int) -> int:
        return self.choose(self.repeats + 1)

    def more(self, place: int) -> bool:
        done = self.repeated.get(place, 0)
        goes_on = done < self.repeats and bool(self.choose(2))
        self.repeated[place] = done + 1 if goes_on else 0
        return goes_on

    def risky(self) -> None:
        if self.choose(2):
            raise Risk

    def some(self, items: Iterable[Any]) -> list[Any]:
        """The first few: a loop over rows may have none, whatever the batch."""
        found = not_empty(items)
        return found[: self.choose(min(len(found), self.repeats) + 1)]

    def following(self) -> list[int] | None:
        """The script of the next way; None after the last."""
        script = self.taken.copy()
        while script:
            chosen, options = script.pop()
            if chosen + 1 < options:
                return [*(c for c, _ in script), chosen + 1]
        return None


def not_empty(items: Iterable[Any]) -> list[Any]:
    """The rows of a batch with fields. One without has no row that could lack a field, which mypy need not know."""
    found = list(items)
    if not found:
        raise ValueError("nothing to iterate over")
    return found


@dataclass
class Facts:
    """What happened in a program, by line, on any of the ways through it."""

    reached: set[int] = field(default_factory=set)
    lacked: set[int] = field(default_factory=set)
    """Lines that raised as a field was not there."""
    fine: set[int] = field(default_factory=set)
    """Lines that did not, on some way."""
    illegal: list[int] = field(default_factory=list)
    """Lines that failed for another reason, or that nothing can follow."""


@dataclass
class Watch:
    """Around one statement, while it runs.

    Attributes:
        counts: the line is reached when the statement is; not so for a comprehension, which may have no rows.
        goes_on: without the field the statement does nothing, and mypy takes it so.
    """

    facts: Facts
    line: int
    counts: bool
    goes_on: bool

    def __enter__(self) -> None:
        if self.counts:
            self.facts.reached.add(self.line)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None or isinstance(error, (Risk, _Stop)):
            if error is None:
                self.facts.fine.add(self.line)
            return False
        if isinstance(error, MissingFieldError):
            self.facts.lacked.add(self.line)
            if self.goes_on:
                return True
        self.facts.illegal.append(self.line)
        raise _Stop


class _Instrument(ast.NodeTransformer):
    """Puts every statement into ``with watch(line, counts, goes_on):``."""

    def visit(self, node: ast.AST) -> Any:
        node = super().visit(node)
        plain = (ast.FunctionDef, ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Pass)
        if isinstance(node, ast.stmt) and not isinstance(node, plain):
            return self._watched(node)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        if "range" not in ast.unparse(node.iter):
            node.iter = ast.Call(ast.Name("some", ast.Load()), [node.iter], [])
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.ListComp:
        reached = ast.Call(ast.Name("reached", ast.Load()), [ast.Constant(node.lineno)], [])
        for part in node.generators:
            part.iter = ast.Call(ast.Name("not_empty", ast.Load()), [part.iter], [])
        node.elt = ast.BoolOp(ast.Or(), [reached, node.elt])
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Programs are given what they import."""

    def _watched(self, node: ast.stmt) -> ast.With:
        counts = not isinstance(node, ast.Expr) or not isinstance(node.value, ast.ListComp)
        arguments = (node.lineno, counts, may_go_on(node))
        call = ast.Call(ast.Name("watch", ast.Load()), [ast.Constant(argument) for argument in arguments], [])
        return ast.copy_location(ast.With([ast.withitem(call)], [node]), node)


def may_go_on(node: ast.stmt) -> bool:
    """Return whether a statement without its field does nothing: it binds no name, and stores nothing that it reads."""
    if isinstance(node, ast.Assign):
        named = any(isinstance(target, (ast.Name, ast.Tuple)) for target in node.targets)
        reads = any(isinstance(part, (ast.Attribute, ast.Subscript)) for part in ast.walk(node.value))
        return not named and not reads
    return isinstance(node, (ast.Expr, ast.Delete))


def run(text: str, repeats: int = 2, most: int = _MOST_WAYS) -> Facts:
    """What happens in a program.

    Raises:
        IllegalError: a statement fails for another reason than a missing field.
        TooManyWaysError: there are more than ``most`` ways through it.
    """
    tree = ast.fix_missing_locations(_Instrument().visit(ast.parse(text)))
    code, facts = compile(tree, "<program>", "exec"), Facts()
    script: list[int] | None = []
    for _ in range(most):
        choices = Choices(script or [], repeats)
        _run_once(code, choices, facts)
        if facts.illegal:
            raise IllegalError(facts.illegal[0])
        if len(choices.taken) > _MOST_CHOICES:
            break
        script = choices.following()
        if script is None:
            return facts
    raise TooManyWaysError


def _run_once(code: Any, choices: Choices, facts: Facts) -> None:
    names: dict[str, Any] = {
        "Batch": Batch, "cat": cat, "stack": stack, "nullcontext": contextlib.nullcontext,
        "suppress": contextlib.suppress, "print": lambda *_: None, "Risk": Risk, "coin": choices.coin,
        "more": choices.more, "count": choices.count, "risky": choices.risky, "value": lambda: np.zeros((4, 2)),
        "look": lambda _: None, "watch": partial(Watch, facts), "reached": facts.reached.add, "not_empty": not_empty,
        "some": choices.some,
    }  # fmt: skip
    exec(code, names)
    with contextlib.suppress(Risk, MissingFieldError, _Stop):
        names["program"]()


def legal(body: Body, repeats: int = 2) -> tuple[Body, Facts] | None:
    """The program without the statements that fail for another reason than a missing field, and what happens in it.

    None when there are too many ways through it, or it is no Python.
    """
    while True:
        try:
            return body, run(source(body), repeats, _MOST_WAYS if repeats == 2 else 10 * _MOST_WAYS)
        except (TooManyWaysError, SyntaxError):
            return None
        except IllegalError as error:
            place = list(lines_of(body))[error.line - HEADER_LINES - 1].place
            assert place is not None, source(body)
            body = changed(body, place, lambda _: ())


def draw(seed: int, number: int) -> list[tuple[Body, Facts]]:
    """Programs, always the same ones for a seed."""
    writer = Writer(Random(seed))
    found: list[tuple[Body, Facts]] = []
    while len(found) < number:
        program = legal(writer.program())
        if program is not None and program[1].reached:
            found.append(program)
    return found


def left_unsaid(text: str, facts: Facts) -> set[int]:
    """Lines of which the plugin says nothing: their field may have been set by a round of a loop before.

    That is so behind a loop in which the field occurs, which has run for all that the plugin says, and in a loop in
    which it occurs elsewhere, or a batch is bound. Where a field is there on some ways, nothing is said under any
    condition, which may go with that of the write.
    """
    tree = ast.parse(text)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    loops = [node for node in statements if isinstance(node, (ast.For, ast.While))]
    found = {statement.lineno for statement in statements if _depends(statement, tree, facts)}
    for statement in statements:
        for loop in loops:
            behind = (loop.end_lineno or 0) < statement.lineno
            others = _others(loop, statement)
            within = _is_within(statement, loop)
            bound = {
                part.id for part in ast.walk(loop) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            }
            used = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
            if (behind or within) and (_names(statement) & _names(*others) or bound & used):
                found.add(statement.lineno)
    return found


def _depends(statement: ast.stmt, tree: ast.Module, facts: Facts) -> bool:
    """Is its field there on some ways only, and the line not reached on every way."""
    if statement.lineno not in facts.lacked & facts.fine:
        return False
    body = next(node for node in tree.body if isinstance(node, ast.FunctionDef)).body
    leaving = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    left = any(isinstance(node, leaving) and node.lineno < statement.lineno for node in ast.walk(tree))
    chosen = any(isinstance(node, ast.IfExp) for node in ast.walk(statement))
    chains = any(_in_every_arm(node, _names(statement)) for node in ast.walk(tree) if isinstance(node, ast.If))
    return statement not in body or left or chosen or chains


def _in_every_arm(choice: ast.If, names: set[str]) -> bool:
    arms = [choice.body, choice.orelse]
    return all(names & _names(*arm) for arm in arms)


def _others(loop: ast.For | ast.While, statement: ast.stmt) -> list[ast.stmt]:
    inner = [node for node in ast.walk(loop) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    return [node for node in inner if node is not statement]


def _names(*nodes: ast.AST) -> set[str]:
    inner: Iterable[ast.AST] = (part for node in nodes for part in ast.walk(node))
    return {name for part in inner for name in _names_in(part) if name in FIELDS + NESTED}


def _names_in(node: ast.AST) -> Sequence[str]:
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return [node.arg] if isinstance(node, ast.keyword) and node.arg is not None else []


def _is_within(node: ast.stmt, loop: ast.stmt) -> bool:
    return loop.lineno <= node.lineno <= (loop.end_lineno or 0)


def removed_in_loops(text: str) -> set[int]:
    """Lines in a loop over rows that removes their field: they fail in its second round, if there is one."""
    tree = ast.parse(text)
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    return {
        statement.lineno
        for loop in loops
        for statement in ast.walk(loop)
        if isinstance(statement, ast.stmt)
        and _names(statement) & _names(*(node for node in ast.walk(loop) if isinstance(node, ast.Delete)))
    }
