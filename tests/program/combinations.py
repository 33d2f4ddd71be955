"""What happens in a package when it runs, under every combination of its flags.

A statement that only reads or deletes a field, or sets one, is left out of a run in which its field is missing: the run
goes on behind it, as the program would without that line. So each line is judged by itself. Any other statement that
fails ends its scenario, and the next one begins, as the package does when it is run by itself. Where the package
itself handles the exception, it is left to do so.

A failure is repeated if a field of that name was missing before in the same scenario. Nobody needs to be told of it
again, so a line that has only such failures need not be reported.
"""

from __future__ import annotations

import ast
import itertools
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, TypeAlias

from tests.program.writer import FLAGS, MODULES, Package
from typedbatch.errors import MissingFieldError

Spot: TypeAlias = tuple[str, int]
"""A module and a line of it."""

_MOST_STEPS = 3000
_MOST_REMOVED = 60


class TooLongError(BaseException):
    """A package runs for longer than is worth while."""


class IllegalError(BaseException):
    """A statement failed for another reason than a missing field."""

    def __init__(self, spot: Spot) -> None:
        super().__init__(spot)
        self.spot = spot


@dataclass(frozen=True)
class Failure:
    """A missing field.

    Attributes:
        spots: where it is read, and the calls that lead there, from inside out.
        handled: whether the package itself handles what is raised.
        repeated: whether a field of that name was missing before in the same scenario.
    """

    spots: tuple[Spot, ...]
    handled: bool
    repeated: bool


@dataclass
class Facts:
    """What happened in a package, in any of its runs.

    Attributes:
        fine: where nothing failed, in some run.
        asked: where a field was missing, and the function itself handles that.
    """

    fine: set[Spot] = field(default_factory=set)
    asked: set[Spot] = field(default_factory=set)
    failures: set[Failure] = field(default_factory=set)

    @property
    def failed(self) -> set[Spot]:
        """Where a field was missing, in some run, or where a call led to that."""
        return {spot for failure in self.failures for spot in failure.spots}


@dataclass
class Run:
    """A run of a package, under one combination of its flags."""

    facts: Facts
    package: str
    handlers: int = 0
    steps: int = 0
    count: int = 0
    names: set[str] = field(default_factory=set)
    noted: BaseException | None = None

    def passed(self, spot: Spot, value: Any) -> Any:
        """Return the value, and note that it could be computed."""
        self.facts.fine.add(spot)
        return value

    def step(self) -> None:
        """Count a statement."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooLongError

    def note(self, error: Exception, outside: FrameType | None, asked: Spot | None = None) -> None:
        """Note what failed, once. ``outside`` is the frame that called the one in which it was noticed.

        Raises:
            IllegalError: it failed for another reason than a missing field.
        """
        if error is self.noted:
            return
        spots = [*self._spots(_raised_in(error.__traceback__)), *self._spots(_callers(outside))]
        if not isinstance(error, MissingFieldError):
            raise IllegalError(spots[0])
        self.noted = error
        self.count += 1
        if asked is not None:
            self.facts.asked.add(asked)
            return
        self.facts.failures.add(Failure(tuple(spots), self.handlers > 0, error.field in self.names))
        self.names.add(error.field)

    def _spots(self, places: Iterator[tuple[str, int]]) -> Iterator[Spot]:
        for file, line in places:
            package, _, module = file.partition("/")
            if package == self.package:
                yield module, line

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Mark statements whose failures the package handles."""
        self.handlers += 1
        try:
            yield
        finally:
            self.handlers -= 1


def _raised_in(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    found = []
    while traceback is not None:
        found.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    yield from reversed(found)


def _callers(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


@dataclass
class Watch:
    """Around one statement, while it runs.

    Attributes:
        counts: the line is reached when the statement is; not so for a comprehension, which may have no rows.
        goes_on: without the field the statement does nothing.
        caught: the function itself handles what a missing field raises.
    """

    run: Run
    spot: Spot
    counts: bool
    goes_on: bool
    caught: bool
    before: int = 0

    def __enter__(self) -> None:
        self.run.step()
        self.before = self.run.count

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None:
            if self.counts and self.run.count == self.before:
                self.run.facts.fine.add(self.spot)
            return False
        if not isinstance(error, Exception):
            return False
        first = error is not self.run.noted
        self.run.note(error, sys._getframe(1).f_back, self.spot if self.caught else None)
        return first and self.goes_on and not self.run.handlers


class _Instrument(ast.NodeTransformer):
    """Puts every simple statement into ``with watch__(...):``, and the head of every other into ``passed__(...)``."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.caught = False

    def visit(self, node: ast.AST) -> Any:
        found = super().visit(node)
        simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Delete, ast.Return)
        return self._watched(found) if isinstance(node, simple) else found

    def visit_If(self, node: ast.If | ast.While) -> ast.AST:
        self.generic_visit(node)
        node.test = self._passed(node.test)
        return node

    visit_While = visit_If

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._passed(node.iter)
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        if "suppress" not in ast.unparse(node.items[0]):
            self.generic_visit(node)
            return node
        node.body = self._caught(node.body)
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        node.body = self._caught(node.body)
        for statements in (node.finalbody, *(handler.body for handler in node.handlers)):
            statements[:] = [self.visit(statement) for statement in statements]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outside, self.caught = self.caught, False
        self.generic_visit(node)
        self.caught = outside
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        self.generic_visit(node)
        node.elt = self._passed(node.elt)
        return node

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        node.value = self._passed(node.value)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = self._passed(node.body)
        return node

    def _caught(self, body: list[ast.stmt]) -> list[ast.stmt]:
        outside, self.caught = self.caught, True
        found = [self.visit(statement) for statement in body]
        self.caught = outside
        handled = ast.Call(ast.Name("handled__", ast.Load()), [], [])
        return [ast.copy_location(ast.With([ast.withitem(handled)], found), body[0])]

    def _passed(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(ast.Name("passed__", ast.Load()), [self._spot(node), node], []), node)

    def _spot(self, node: ast.expr | ast.stmt) -> ast.expr:
        return ast.Tuple([ast.Constant(self.module), ast.Constant(node.lineno)], ast.Load())

    def _watched(self, node: ast.stmt) -> ast.With:
        inner = (ast.ListComp, ast.DictComp, ast.Lambda)
        counts = not any(isinstance(part, inner) for part in ast.walk(node))
        arguments = [ast.Constant(argument) for argument in (counts, may_go_on(node), self.caught)]
        call = ast.Call(ast.Name("watch__", ast.Load()), [self._spot(node), *arguments], [])
        return ast.copy_location(ast.With([ast.withitem(call)], [node]), node)


def facts_of(package: Package) -> Facts:
    """Return what happens in a package.

    Raises:
        IllegalError: a statement fails for another reason than a missing field.
        TooLongError: a run has too many steps.
    """
    facts, codes = Facts(), {}
    for module, text in package.modules.items():
        tree = ast.fix_missing_locations(_Instrument(module).visit(ast.parse(text)))
        codes[module] = compile(tree, f"{package.name}/{module}", "exec", dont_inherit=True)
    for flags in itertools.product([False, True], repeat=FLAGS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _run_once(Run(facts, package.name), codes, flags)
    return facts


def _run_once(run: Run, codes: dict[str, CodeType], flags: tuple[bool, ...]) -> None:
    tools = {
        "watch__": partial(Watch, run), "passed__": run.passed, "handled__": run.handled, "print": lambda *_: None,
    }  # fmt: skip
    with _importable(run.package, flags) as modules, _ending(run):
        for name in MODULES:
            vars(modules[name]).update(tools)
            exec(codes[name], vars(modules[name]))
        for scenario in vars(modules["main"]).get("SCENARIOS", ()):
            run.names.clear()
            with _ending(run):
                scenario()


@contextmanager
def _ending(run: Run) -> Iterator[None]:
    """Note what ends a scenario, or the import of a module."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # a random statement may raise anything
        run.note(error, None)


@contextmanager
def _importable(package: str, flags: tuple[bool, ...]) -> Iterator[dict[str, ModuleType]]:
    """Make the modules of a package, still empty, for imports to find."""
    made = {name: ModuleType(f"{package}.{name}") for name in MODULES}
    whole, given = ModuleType(package), ModuleType("flags")
    vars(whole).update(made)
    vars(given)["FLAGS"] = list(flags)
    entries = {package: whole, "flags": given, **{f"{package}.{name}": module for name, module in made.items()}}
    sys.modules.update(entries)
    try:
        yield made
    finally:
        for name in entries:
            del sys.modules[name]


def legal(package: Package) -> tuple[Package, Facts] | None:
    """Return the package without statements that fail for another reason than a missing field, and what happens in it.

    None if it runs for too long, or too much would have to go.
    """
    for _ in range(_MOST_REMOVED):
        try:
            return package, facts_of(package)
        except TooLongError:
            return None
        except IllegalError as error:
            package = package.without(*error.spot)
    return None


def may_go_on(node: ast.stmt) -> bool:
    """Return whether a statement without its field does nothing: it binds no name, and stores nothing that it reads."""
    if isinstance(node, ast.Assign):
        named = any(isinstance(target, (ast.Name, ast.Tuple)) for target in node.targets)
        reads = any(isinstance(part, (ast.Attribute, ast.Subscript)) for part in ast.walk(node.value))
        return not named and not reads
    return isinstance(node, (ast.Expr, ast.Delete))
