"""The state of a run, and what the tables of libraries need of it: reports, threads, and what is let go of."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from typedbatch._program.arrays.declared import Declared
from typedbatch._program.arrays.sizes import Name, Ranks
from typedbatch._program.arrays.values import MismatchError
from typedbatch._program.classes import attribute_of
from typedbatch._program.frames import Attempt, Call, Frame
from typedbatch._program.guards import Guards
from typedbatch._program.heap import (
    BatchObject,
    BufferObject,
    DictObject,
    InstanceObject,
    ListObject,
    Place,
    ScopeObject,
)  # fmt: skip
from typedbatch._program.report import Finding, Level, Mismatch, Step
from typedbatch._program.source import Program, Source
from typedbatch._program.values import (
    ARRAY,
    UNKNOWN,
    Atom,
    Class,
    Context,
    Decorated,
    Function,
    Kinds,
    Literal,
    Member,
    Method,
    Partial,
    Ref,
    Value,
    text_of,
    union,
)  # fmt: skip

_LEAST_STEPS: Final = 100_000
_STEPS_PER_LINE: Final = 15
_DEEPEST_HANDED_ON: Final = 8


class BudgetError(Exception):
    """The steps of the run are used up."""


FindingKey = tuple[str, int, int, tuple[str, ...]]
"""File, line, column and names of a finding, of which there is one."""


class Machine(Guards):
    """A run of a program. What depends on syntax is in the classes derived from it.

    Attributes:
        raises: Number of the exits that end the callers, too, unless they are handled.
        quiet: Above 0 where nothing is reported.
        loose: Variables of each module that other code may change, or change what they hold.
        classes_of: Classes of each module.
        is_alone: Whether the run is in a function that nothing in the program calls.
        tops: Numbers of the frames of modules.
        share: Half of the steps for the tops of modules, or for the function that nothing calls that the run is in.
        share_end: Number of the step at which the first half ends; calls are followed less deep afterwards.
        started: Threads that are run again when all else is done, each with its arguments and what was found at first.
        later: Expressions that are kept, or given to a loop of events: a generator or coroutine runs some time later.
        attempts: Each ``try`` that the run is in, outermost first.
        mismatches: Shapes and dtypes that do not fit, by the lines by which the run came there.
        notes: Notes, by file, line, column and text.
        called: Names of the results of what each call has called.
        needs: Whether each batch that was handed over certainly was what is asked for, by file, line and column.
        ranks: The number of axes of each run of axes, as ``*b``, in a declared shape.
        compared: Names of sizes that the program compares, which may be the same.
        are_layers_changed: Whether a layer has been changed after it was made.
        bits: Expressions with ``~`` that are meant for the bits of numbers.
        choices: Above 0 in a call that may be of another function.
        is_given: Whether what is asked for is an argument of a function of the program.
        operation: The call or operator whose shapes are held against each other.
        trial: Guards and exits at the start of a round of a loop that is not the last; a read behind a condition of
            its own may find there what a later round sets.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.ranks = Ranks()
        self.compared: set[Name] = set()
        self.are_layers_changed = False
        self.bits: set[ast.AST] = set()
        self.choices = 0
        self.is_given = False
        self.operation: ast.AST | None = None
        self.mismatches: dict[tuple[Level, ...], Mismatch] = {}
        self.notes: dict[tuple[Path, int, int, str], Finding] = {}
        self.called: dict[ast.AST, Sequence[str]] = {}
        self.needs: dict[tuple[Path, int, int], bool] = {}
        self.program = program
        self.vocabulary = program.vocabulary
        self.attempts: list[Attempt] = []
        self.raises = 0
        self.quiet = 0
        self.trial: tuple[int, int] | None = None
        self.steps = 0
        self.unfinished: Step | None = None
        self.most_steps = _LEAST_STEPS + _STEPS_PER_LINE * program.lines
        self.share = self.share_end = self.most_steps // 4
        self.findings: dict[FindingKey, Finding] = {}
        self.loose: dict[Ref, dict[str, None]] = {}
        self.classes_of: dict[Source, list[Class]] = {}
        self._imports: dict[Source, dict[Source, None]] = {}
        self._reached: dict[Source, tuple[Source, ...]] = {}
        self.started: list[tuple[Value, Call, set[tuple[str, int, int, tuple[str, ...]]]]] = []
        self.later: set[ast.AST] = set()
        self.is_alone = False
        self.tops: set[int] = set()
        self._frames_made = 0

    # What depends on syntax

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        raise NotImplementedError

    def call(self, function: Value, call: Call) -> Value:
        """Call what a value may be."""
        raise NotImplementedError

    def attribute(self, value: Value, name: str, node: ast.AST | None) -> Value:
        """Read an attribute."""
        raise NotImplementedError

    def set_attribute(self, value: Value, name: str, given: Value, node: ast.AST | None = None) -> None:
        """Set an attribute."""
        raise NotImplementedError

    def iterate(self, value: Value, node: ast.AST | None = None) -> tuple[tuple[Value, ...] | None, Value]:
        """Return the items that iteration gives, or None if they are not known one by one, and what an item may be."""
        raise NotImplementedError

    def bound(self, attribute: Value, receiver: Atom, node: ast.AST | None) -> Value:
        """Return what an attribute of a class is when it is read of an instance."""
        raise NotImplementedError

    def call_first_special(self, value: Value, names: Iterable[str], node: ast.AST | None) -> None:
        """Call the first of some special methods that the class of each instance has."""
        raise NotImplementedError

    def class_of(self, value: Value) -> Value:
        """Return the classes of instances, and anything for other values."""
        raise NotImplementedError

    def forget_attributes(self, ref: Ref) -> None:
        """Take it that the attributes of an instance may be anything else, too."""
        raise NotImplementedError

    def scope_of_module(self, source: Source) -> Ref | None:
        """Return the scope of a module that has run."""
        raise NotImplementedError

    def fresh(self, cls: Atom, libraries: Sequence[bool | None] = ()) -> Value:
        """Return a value of a class of which nothing else is known."""
        raise NotImplementedError

    def kinds_in(self, node: ast.expr) -> Kinds | None:
        """Return the classes that an annotation names."""
        raise NotImplementedError

    def declared_array(self, node: ast.expr | None) -> Declared | None:
        """Return the array that an annotation declares."""
        raise NotImplementedError

    def run_unknown(self, function: Function | Method) -> None:
        """Run a function with arguments of which nothing is known but their annotations."""
        raise NotImplementedError

    # The state

    def enter(self, frame: Frame) -> None:
        """Enter a call."""
        self.frames.append(frame)
        self.heap.writer = frame.number

    def exit(self) -> Frame:
        """Go back to the caller, and return the call that has ended."""
        frame = self.frames.pop()
        self.heap.writer = self.frames[-1].number if self.frames else 0
        return frame

    def is_alive(self) -> bool:
        """Return whether the run goes on in this branch."""
        return self.heap.is_alive

    def step(self, count: int = 1) -> None:
        """Count steps.

        Raises:
            BudgetError: There are too many.
        """
        self.steps += count
        if self.steps > self.most_steps:
            if self.unfinished is None:
                code = self.frame.code
                line, name = (1, "module") if code is None else (code.node.lineno, f"{code.name}()")
                self.unfinished = Step(self.frame.source.path, line, f"{name} is not run to its end")
            raise BudgetError

    @contextmanager
    def silently(self) -> Generator[None]:
        """Report nothing within."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def next_frame(self) -> int:
        """Return the number of another call."""
        self._frames_made += 1
        return self._frames_made

    def leave(self) -> None:
        """Leave the branch early."""
        self.heap.is_alive = False
        self.exits += 1

    def note_raised(self) -> None:
        """Take note of what the innermost ``try`` finds if an exception is raised here."""
        if self.attempts and self.is_alive():
            self.attempts[-1].raised.append(self.heap.since(self.attempts[-1].mark))

    def leave_to_handler(self) -> None:
        """Leave the branch where a field is missing, if the innermost ``try`` of this call handles that."""
        attempt = self.attempts[-1] if self.attempts else None
        is_here = attempt is not None and attempt.handles and attempt.mark > self.frame.mark
        if is_here and not self.choices and not self._is_early():
            self.note_raised()
            self.heap.is_alive = False  # The call goes on, so exits are not counted.

    def may_raise(self) -> None:
        """Take note that what is called may end the call here, or the program."""
        self.raises += 1
        self.exits += 1

    # Reports

    def report(self, node: ast.AST, code: str, message: str, names: Iterable[str], made: Place | None = None) -> bool:
        """Report a mistake, and return whether it is reported here."""
        if self.quiet or self._is_handled() or self._is_early() or not isinstance(node, (ast.expr, ast.stmt)):
            return False
        source, span = self.frame.source, _span(node)
        is_ignored, trace = source.ignores(node.lineno, code), tuple(self._trace(made))
        finding = Finding(source.path, *span, code, message, frozenset(names), trace, is_ignored)
        self.findings.setdefault((str(source.path), *span[:2], tuple(sorted(finding.names))), finding)
        return True

    def note(self, node: ast.expr | ast.stmt, text: str, code: str, source: Source | None = None) -> None:
        """Add a note, once at a place."""
        path, span = (source or self.frame.source).path, _span(node)
        if not self.quiet:
            self.notes.setdefault((path, *span[:2], text), Finding(path, *span, code, text, frozenset()))

    def note_need(self, node: ast.AST, *, is_met: bool) -> None:
        """Take note of a batch that is handed over, and of whether it certainly is what is asked for there."""
        if isinstance(node, ast.expr):
            place = (self.frame.source.path, node.lineno, node.col_offset)
            self.needs[place] = is_met and self.needs.get(place, True)

    def take_mismatch(self, node: ast.AST | None, error: MismatchError) -> None:
        """Take note of what does not fit. At the end of the run it is decided where that is reported."""
        node = self.operation if node is None else node
        is_handled = self._is_handled() or any(frame.catches for frame in self.frames)
        is_hidden = self.quiet or self.choices or is_handled or self._is_early()
        if is_hidden or not isinstance(node, (ast.expr, ast.stmt)):
            return
        nodes = [*(frame.call for frame in self.frames[1:]), node]
        levels = tuple(
            Level(frame.source, frame.code, inner, self._is_certain_in(frame))
            for frame, inner in zip(self.frames, nodes, strict=True)
            if isinstance(inner, (ast.expr, ast.stmt))
        )
        if isinstance(nodes[-1], (ast.expr, ast.stmt)):
            self.mismatches.setdefault(levels, Mismatch(levels, str(error), is_dtype=error.dtype))

    def _is_certain_in(self, frame: Frame) -> bool:
        """Return whether every call that is like one comes to where the run is."""
        return not frame.may_have_left and all(guard in self.certain for guard in self.guards[frame.guarded :])

    def _is_handled(self) -> bool:
        """Return whether a ``try`` around handles a missing field; lambdas belong to the function around."""
        around = next(one for one in reversed(self.frames) if not (one.code and isinstance(one.code.node, ast.Lambda)))
        code = self.frame.code
        is_refused = code is not None and code.is_checked and any(caller.handles for caller in self.frames[-2:-1])
        return around.handles > 0 or any(frame.asks for frame in self.frames[-2:]) or is_refused

    def is_certain_for(self, batch: BatchObject) -> bool:
        """Return whether the run certainly comes here with a batch: nothing has been decided since it was made."""
        left = any(frame.may_have_left for frame in self.frames if frame.number >= batch.activation)
        decided = [guard for guard in self.guards if guard not in batch.guards and guard not in self.certain]
        return not left and not decided and not self.choices

    def _is_early(self) -> bool:
        """Return whether a later round of a loop may set what a read finds missing in this one."""
        if self.trial is None:
            return False
        depth, exits = self.trial
        return self.exits > exits or any(guard > 0 for guard in self.guards[depth:])

    def _trace(self, made: Place | None) -> Iterator[Step]:
        """Yield the lines by which the run came to where it is."""
        if made is not None:
            yield Step(made.source.path, getattr(made.node, "lineno", 1), "made here")
        for caller, frame in zip(self.frames, self.frames[1:], strict=False):
            if isinstance(frame.call, ast.expr) and frame.code is not None:
                yield Step(caller.source.path, frame.call.lineno, f"{frame.code.name}() is called here")

    # Threads

    def start(self, function: Value, call: Call) -> Value:
        """Run a thread in silence, and again when all else is done, as it may wait for what is done later."""
        known, self.findings, mark = self.findings, {}, self.heap.begin()
        if not self.quiet:
            self.call(function, call)
            self.heap.end(mark)
            self.started.append((function, call, {*self.findings}))
            mark = self.heap.begin()
        self.findings = known
        with self.silently():
            value = self.call(function, call)
        self.heap.apply(self.heap.join({}, self.heap.end(mark)))
        return value

    def run_threads(self) -> None:
        """Run what was started, and report what it finds at both times."""
        while self.started:
            function, call, found = self.started.pop(0)
            before, mark = {*self.findings}, self.heap.begin()
            self.call(function, call)
            self.heap.end(mark)
            self.findings = {key: one for key, one in self.findings.items() if key in before or key in found}

    # What leaves the sight of the run

    def escape_all(self, call: Call) -> None:
        """Let go of all arguments of a call of something unknown, which may set an attribute of a class by its name."""
        names = [name for value in call.values() if (name := text_of(value)) is not None]
        for value in call.values():
            for atom in value:
                if isinstance(atom, Class):
                    atom.attributes.update({name: union(attribute_of(atom, name) or (), UNKNOWN) for name in names})
            self.escape(value)

    def escape_scopes(self, scope: Ref | None, home: Source) -> None:
        """Let go of the variables of a scope and those around it, of its module, and of all that this imports."""
        while scope is not None and scope not in self.heap.let_go:
            found = self.heap.read(scope)
            if not isinstance(found, ScopeObject) or found.parent is None:
                break
            names = found.names.items()
            self._escape_names(scope, [name for name, value in names if self.is_loose_in(scope, name, value)])
            scope = found.parent
        for source in self._reached_from(home):
            top = self.scope_of_module(source)
            if top is not None and top not in self.heap.let_go:
                self._escape_names(top, [*self.loose.get(top, ())])
                self._escape_classes(self.classes_of.get(source, ()))

    def is_loose_in(self, scope: Ref, name: str, value: Value) -> bool:
        """Return whether code that can read a variable may set it, or change what it holds."""
        return (scope, name) in self.rebound or any(map(self.is_loose, value))

    def is_loose(self, atom: Atom) -> bool:
        """Return whether a value is an object, or a function with objects around it, that other code may change."""
        if not isinstance(atom, Function):
            return isinstance(atom, Ref)
        scope = self.heap.read(atom.scope)
        while isinstance(scope, ScopeObject) and scope.parent is not None:
            is_of_defaults = scope.names and all(name.startswith(".") for name in scope.names)
            if not is_of_defaults or any(isinstance(one, Ref) for value in scope.names.values() for one in value):
                return True
            scope = self.heap.read(scope.parent)
        return False

    def _escape_names(self, scope: Ref, names: Iterable[str]) -> None:
        found = self.heap.read(scope)
        assert isinstance(found, ScopeObject)
        values = {name: found.names[name] for name in names if name in found.names}
        opened = {name: union(value, UNKNOWN) for name, value in values.items() if UNKNOWN[0] not in value}
        if opened:
            self.write_scope(scope).names.update(opened)
        self.steps += 1 + len(values)
        self.heap.let_go.add(scope)
        for name, value in values.items():
            is_rebound = (scope, name) in self.rebound
            self.escape(tuple(atom for atom in value if isinstance(atom, Ref) or is_rebound))
            for atom in value:
                if isinstance(atom, Function) and self.is_loose(atom):
                    self.escape_scopes(atom.scope, atom.code.module)

    def open_constants(self, source: Source) -> None:
        """Take it that the constants among the variables of a module may be others."""
        top = self.scope_of_module(source)
        names = self.write_scope(top).names if top is not None else {}
        names.update({name: UNKNOWN for name, value in names.items() if any(isinstance(one, Literal) for one in value)})

    def open_variable(self, name: str) -> None:
        """Take it that the variables of a name, of any module, may be anything else, too."""
        for source in self.program.sources:
            top = self.scope_of_module(source)
            found = self.heap.read(top) if top is not None else None
            if top is not None and isinstance(found, ScopeObject) and name in found.names:
                self.write_scope(top).names[name] = union(found.names[name], UNKNOWN)

    def _escape_classes(self, classes: Iterable[Class]) -> None:
        for cls in classes:
            self.steps += 1
            for name, value in cls.attributes.items():
                self.escape(tuple(one for one in value if isinstance(one, Ref)))
                if name in self.vocabulary.late:
                    cls.attributes[name] = union(value, UNKNOWN)

    def _reached_from(self, source: Source) -> tuple[Source, ...]:
        """Return a module and those that it imports, or that these import."""
        if source not in self._reached:
            found = {source: None}
            todo = [source]
            while todo:
                more = [one for one in self._imports.get(todo.pop(), ()) if one not in found]
                found |= dict.fromkeys(more)
                todo += more
            self._reached[source] = (*found,)
        return self._reached[source]

    def take_import(self, importer: Source, source: Source) -> None:
        """Take note that a module imports another."""
        imported = self._imports.setdefault(importer, {})
        if source not in imported:
            imported[source] = None
            self._reached.clear()

    def forget_arrays(self, atom: Atom) -> None:
        """Take it that an array has another shape from here on, wherever it is held."""
        for ref, found in self.heap.holders(atom):
            match found:
                case ScopeObject():
                    names = self.write_scope(ref).names
                    names.update({name: ARRAY for name, value in names.items() if atom in value})
                case BatchObject():
                    fields = self.write_batch(ref).fields
                    fields.update({k: one._replace(value=ARRAY) for k, one in fields.items() if atom in one.value})
                case InstanceObject():
                    written = self.heap.write(ref)
                    assert isinstance(written, InstanceObject)
                    held = written.attributes
                    held.update({name: ARRAY for name, value in held.items() if atom in value})
                case ListObject():
                    changed = self.heap.write(ref)
                    assert isinstance(changed, ListObject)
                    changed.items, changed.element = None, union(ARRAY, found.any_item)
                case _:
                    pass

    def escape_functions(self, call: Call) -> None:
        """Let go of the functions among the arguments of a call of something that keeps no batches."""
        functions = (Function, Method, Partial, Context)
        if any(isinstance(atom, functions) for value in call.values() for atom in value):
            self.escape_all(call)  # It may call them with the other arguments.

    def escape(self, value: Value) -> None:
        """Let go of a value: others may do to everything that can be reached from it whatever they like."""
        todo, seen = list(value), set[Atom]()
        while todo and self.is_alive():
            atom = todo.pop(0)
            if atom in seen:
                continue
            seen.add(atom)
            self.steps += 1
            if isinstance(atom, Ref) and atom not in self.heap.let_go:
                todo += self._opened(atom)
                self.heap.let_go.add(atom)
            elif isinstance(atom, (Function, Method)):
                self._run_later(atom)
            elif isinstance(atom, (Context, Partial)):
                todo += [one for given in (*atom.args, *dict(atom.named).values()) for one in given]
                todo += atom.function if isinstance(atom, Partial) else (atom.function,)
            elif isinstance(atom, Member):
                todo.append(atom.receiver)
            elif isinstance(atom, Decorated):
                todo.append(atom.function)

    def _opened(self, ref: Ref) -> list[Atom]:
        """Open an object, and return what it holds."""
        found = self.heap.read(ref)
        if isinstance(found, BatchObject):
            inner = [atom for value in (*(one.value for one in found.fields.values()), found.rest) for atom in value]
            if not found.is_open or found.is_annotated or found.rest:
                self.open_batch(ref)
            return inner
        if isinstance(found, InstanceObject):
            inner = [atom for value in found.attributes.values() for atom in value]
            if not found.attributes.keys().isdisjoint(self.vocabulary.late):
                written = self.heap.write(ref)
                assert isinstance(written, InstanceObject)
                for name in written.attributes.keys() & self.vocabulary.late:
                    written.attributes[name] = union(written.attributes[name], UNKNOWN)
            return inner
        if found is None or isinstance(found, ScopeObject):
            return []
        opened = self.heap.write(ref)
        if isinstance(opened, BufferObject):
            opened.rows = union(opened.rows, UNKNOWN)
            return []
        if isinstance(opened, ListObject):
            held = opened.any_item
            opened.items, opened.element = None, union(held, UNKNOWN)
            return list(held)
        assert isinstance(opened, DictObject)
        held = opened.any_value
        opened.is_exact, opened.rest = False, union(opened.rest, UNKNOWN)
        return list(held)

    def _run_later(self, function: Function | Method) -> None:
        """Run a function that others may call at any time, or never."""
        plain = function if isinstance(function, Function) else function.function
        if any(frame.code is plain.code for frame in self.frames) or len(self.frames) > _DEEPEST_HANDED_ON:
            self.escape_scopes(plain.scope, plain.code.module)
            return
        guards, mark = self.guards, self.heap.begin()
        self.guard()
        self.run_unknown(function)
        self.guards = guards
        self.heap.apply(self.heap.join({}, self.heap.end(mark)))


def _span(node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
    """Return the line and column where a node begins, and those where it ends."""
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
