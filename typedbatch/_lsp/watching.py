"""A run of a program that takes note of what expressions are, in some of its files, and of all that sets fields."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any

from typedbatch._lsp.places import Node, Places, Site, site_of
from typedbatch._lsp.snapshots import Snapshots
from typedbatch._program.arrays.sizes import Ranks
from typedbatch._program.classes import declared_fields
from typedbatch._program.frames import Call, Frame
from typedbatch._program.relevance import Relevance
from typedbatch._program.run import Run
from typedbatch._program.source import Program, Source
from typedbatch._program.values import Code, Kind, Ref, Value


class _Everything(Relevance):
    """All statements of a program, whether they have to do with batches or not."""

    def covers(self, source: Source, line: int) -> bool:
        """Return True."""
        return True


class Watching(Run):
    """A run of which an editor shows what it comes to.

    Args:
        program: The program.
        ranks: As for any run.
        watched: Files in which all expressions are seen.
        is_thorough: Whether all functions are run, and both branches of each ``if``, whatever the program comes to.

    Attributes:
        places: What was seen in each watched file.
        writers: Nodes that set a field, by its name.
    """

    def __init__(
        self, program: Program, ranks: Ranks, watched: Collection[Source], *, is_thorough: bool = False
    ) -> None:
        super().__init__(program, ranks)
        self.places = {source: Places(source.tree) for source in watched}
        self.writers: dict[str, dict[Site, None]] = {}
        self._is_thorough = is_thorough
        if is_thorough:
            self.relevance = _Everything(program)
        self._snapshots = Snapshots(self)
        self._declared: dict[Code, dict[str, Kind]] = {}
        """Records and protocols that parameters of functions are annotated with."""
        self._call_at: tuple[Source, ast.Call] | None = None
        self._is_repeated = False
        """True while a function that has been called is run once more, without a caller."""

    # What expressions are

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression, and take note of it."""
        source = self.frame.source
        if isinstance(node, ast.Call):
            before, self._call_at = self._call_at, (source, node)
            try:
                value = super().evaluate(node)
            finally:
                self._call_at = before
        else:
            value = super().evaluate(node)
        if source in self.places and node not in self.quoted:
            self._see(source, node, value)
        return value

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target, and take note of it."""
        super().assign(target, value)
        if self.frame.source in self.places and isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
            self._see(self.frame.source, target, value)

    def tested(self, test: ast.expr) -> bool | None:
        """Evaluate a test, and return whether it holds, or None if it may or may not."""
        truth = super().tested(test)
        return None if self._is_thorough else truth

    def _see(self, source: Source, node: Node, value: Value) -> None:
        if not self.is_alive():
            return
        seen = self._snapshots.of(value)
        if self._is_repeated:
            self.places[source].declare(node, seen.array)
            return
        code = self.frame.code
        if isinstance(node, (ast.Name, ast.arg)) and code in self._declared:
            kind = self._declared[code].get(node.id if isinstance(node, ast.Name) else node.arg)
            seen = seen if kind is None else self._snapshots.declarations.of(seen, kind)
        self.places[source].see(node, seen)

    def _bind(self, frame: Frame, scope: Ref, receiver: Value | None, call: Call | None, caller: Frame | None) -> None:
        super()._bind(frame, scope, receiver, call, caller)
        code = frame.code
        if code is None or code.module not in self.places:
            return
        args = code.node.args
        parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        if code not in self._declared:
            steps = self.steps
            self._declared[code] = dict(self._annotated_with(parameters))
            self.steps = steps  # The run ends where it would end without an editor.
        for parameter in parameters:
            self._see(code.module, parameter, self.lookup(parameter.arg))

    def _annotated_with(self, parameters: list[ast.arg]) -> Iterator[tuple[str, Kind]]:
        for one in parameters:
            kinds = self.kinds_in(one.annotation) if one.annotation is not None else None
            yield from ((one.arg, kind) for kind in kinds or () if declared_fields(kind.cls) is not None)

    def _mismatches_alone(self, code: Code) -> Collection[int]:
        before, self._is_repeated = self._is_repeated, True
        try:
            return super()._mismatches_alone(code)
        finally:
            self._is_repeated = before

    # What sets fields

    def set_field(self, ref: Ref, name: str, value: Value, *, node: ast.AST | None = None, **options: Any) -> None:
        """Set a field of a batch, and take note of where."""
        super().set_field(ref, name, value, node=node, **options)
        source, at = self.frame.source, node
        if at is None and self._call_at is not None:
            source, at = self._call_at
            at = next((one for one in at.keywords if one.arg == name), at)
        if at is not None:
            site = site_of(str(source.path), at)
            self.writers.setdefault(name, {})[site] = None
            self._snapshots.give(ref, name, value, site)

    def _copy(self, ref: Ref, done: dict[Ref, Ref]) -> Ref:
        copied = super()._copy(ref, done)
        self._snapshots.copy(ref, copied)
        return copied
