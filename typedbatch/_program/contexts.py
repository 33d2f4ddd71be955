"""Contexts: ``with``, functions that make contexts, and the exceptions that are expected or suppressed in one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from typedbatch._program.expressions import Expressions
from typedbatch._program.frames import Attempt, Call, Loop
from typedbatch._program.heap import Changes, InstanceObject
from typedbatch._program.values import UNKNOWN, Code, Context, Function, Ref, Value, union
from typedbatch._program.vocabulary import last_name

_OF_FIELDS: Final = frozenset({"AttributeError", "KeyError", "LookupError", "MissingFieldError"})
"""Exceptions that a read of a missing field raises."""
_OF_BATCHES: Final = frozenset({"BaseException", "Exception", "SchemaError", "TypeError", "TypedBatchError"})
"""Exceptions that something with a batch may raise, among others."""
_OF_SHAPES: Final = frozenset({"IndexError", "RuntimeError", "ValueError"})
"""Exceptions that operations on arrays raise."""
_EXPECTING: Final = ("raises", "assertRaises", "assertRaisesRegex")
"""Contexts that fail unless something raises in them."""


class Contexts(Expressions):
    """A run that enters contexts."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._body: tuple[Code, Callable[[Value], None]] | None = None
        """The function whose ``yield`` enters the body of a ``with``, and what runs that body."""

    def _handle(self, found: Handled, count: int) -> None:
        """Enter what handles exceptions, or leave it for a count of -1."""
        self.frame.handles += count * found.missing
        self.frame.asks += count * found.named
        self.frame.catches += count * found.shapes

    def _exits_so_far(self) -> tuple[int, int, int]:
        """Return the numbers of each ``return`` of the call, and of each ``break`` and ``continue`` of the loop."""
        loop = self.frame.loops[-1] if self.frame.loops else Loop(0)
        return len(self.frame.returns), len(loop.breaks), len(loop.continues)

    def _finish_exits(self, before: tuple[int, int, int], run: Callable[[], None]) -> None:
        """Run what comes at the end of a ``try`` or ``with`` after each exit from it."""
        frame, loop = self.frame, self.frame.loops[-1] if self.frame.loops else Loop(0)
        for at, (value, changes) in [*enumerate(frame.returns)][before[0] :]:
            frame.returns[at] = (value, self._finished(changes, frame.mark, run))
        for at, changes in [*enumerate(loop.breaks)][before[1] :]:
            loop.breaks[at] = self._finished(changes, loop.mark, run)
        for at, changes in [*enumerate(loop.continues)][before[2] :]:
            loop.continues[at] = self._finished(changes, loop.round_mark, run)

    def _finished(self, changes: Changes, since: int, run: Callable[[], None]) -> Changes:
        mark = self.heap.begin()
        with self.silently():
            self.heap.apply(changes)
            run()
            changes = self.heap.since(since) if self.is_alive() else changes
        self.heap.end(mark)
        return changes

    def enter_body(self, value: Value) -> bool:
        """Run the body of the ``with`` whose context yields, and return whether there is one."""
        if self._body is None or self._body[0] is not self.frame.code:
            return False
        self._body[1](value)
        return True

    def _with(self, node: ast.With | ast.AsyncWith, at: int = 0) -> None:
        if at == len(node.items):
            self.run_block(node.body)
            return
        item = node.items[at]
        value = self.evaluate(item.context_expr)
        if not self.is_alive():
            return
        if len(value) == 1 and isinstance(value[0], Context):
            self._with_generator(node, at, value[0])
            return
        entered: list[Value] = []
        left: list[Ref] = []
        for atom in value:
            is_instance = isinstance(self.object_at(atom), InstanceObject)
            if not is_instance or not isinstance(atom, Ref):
                self.escape((atom,))
                entered.append(UNKNOWN)
                continue
            made = self.call_special(atom, "__enter__", [], node) or self.call_special(atom, "__aenter__", [], node)
            entered.append(made or UNKNOWN)
            left.append(atom)
        if item.optional_vars is not None:
            self.assign(item.optional_vars, union(*entered))
        if not self.is_alive():
            return
        mark, suppressed = self.heap.begin(), _suppressed(item.context_expr)
        found = handled(suppressed or [])
        attempt = Attempt(mark, found.missing)
        if suppressed is not None:
            self.attempts.append(attempt)
        expects = _expects_mistakes(item.context_expr)
        self.quiet += expects
        may_suppress = bool(left) or _name_of(item.context_expr) in ("ExitStack", "AsyncExitStack")
        found = found._replace(shapes=found.shapes or may_suppress)
        self._handle(found, 1)
        before = self._exits_so_far()
        self._with(node, at + 1)
        self.quiet -= expects
        self._handle(found, -1)
        ended = self.heap.end(mark)
        if suppressed is not None:
            self.attempts.pop()
            for other in ({}, *attempt.raised):
                ended = self.heap.join(ended, other)

        def leave() -> None:
            for ref in left:
                for name in ("__exit__", "__aexit__"):
                    if self.is_alive():
                        self.call_special(ref, name, [UNKNOWN] * 3, node)

        self._finish_exits(before, leave)
        self.heap.apply(ended)
        leave()

    def _with_generator(self, node: ast.With | ast.AsyncWith, at: int, context: Context) -> None:
        """Run a function with ``@contextmanager``, and the body where it yields."""
        outer, frames, quiet, depth = self._body, self.frames, self.quiet, len(self.frames)
        function = context.function if isinstance(context.function, Function) else context.function.function
        target, exits, before = node.items[at].optional_vars, self.exits, self._exits_so_far()
        call = Call(list(context.args), dict(context.named), node)

        def run(value: Value) -> None:
            inner = self._body, self.frames, self.quiet, self.exits
            self._body, self.frames, self.quiet, self.exits = outer, frames[:depth], quiet, exits
            self.heap.writer = self.frame.number
            catches = inner[1][-1].catches
            self.frame.catches += catches
            if target is not None:
                self.assign(target, value)
            if self.is_alive():
                self._with(node, at + 1)
            self.frame.catches -= catches
            self._body, self.frames, self.quiet, self.exits = inner
            self.heap.writer = self.frame.number

        self._body = (function.code, run)
        try:
            self.activate(context.function, call, enters=True)
        finally:
            self._body, self.frames = outer, frames

        def leave() -> None:
            self.escape_all(call)
            self.escape_scopes(function.scope, function.code.module)

        is_alive, self.heap.is_alive = self.heap.is_alive, True
        self._finish_exits(before, leave)  # What follows the ``yield`` comes after an exit from the body, too.
        self.heap.is_alive = is_alive


def _expects_mistakes(node: ast.expr) -> bool:
    """Return whether something has to raise in a context, or nothing is checked in it, as in ``checking("off")``."""
    if not isinstance(node, ast.Call):
        return False
    name, off = last_name(node.func), [isinstance(one, ast.Constant) and one.value == "off" for one in node.args]
    return name in _EXPECTING or (name == "checking" and off == [True])


def _suppressed(node: ast.expr) -> list[ast.expr | None] | None:
    """Return the exceptions that a context suppresses, as ``contextlib.suppress`` and ``pytest.raises`` do."""
    if isinstance(node, ast.Call) and last_name(node.func) in ("suppress", *_EXPECTING):
        return [*node.args]
    return None


class Handled(NamedTuple):
    """Kinds of exceptions that a handler handles.

    Attributes:
        missing: Whether it handles that of a missing field.
        named: Whether it names that exception.
        shapes: Whether it handles a mismatch of shapes, and names it.
    """

    missing: bool
    named: bool
    shapes: bool


def handled(types: Sequence[ast.expr | None]) -> Handled:
    """Return what exceptions are among those that are handled."""
    each = [one for type_ in types for one in (type_.elts if isinstance(type_, ast.Tuple) else [type_])]
    names = {"Exception" if one is None else last_name(one) for one in each}
    asks = bool(names & _OF_FIELDS)
    is_variable = any(name[:1].islower() for name in names)
    return Handled(asks or bool(names & _OF_BATCHES), asks, is_variable or bool(names & _OF_SHAPES))


def _name_of(node: ast.expr) -> str:
    return last_name(node.func if isinstance(node, ast.Call) else node)
