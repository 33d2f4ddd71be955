"""A run of a program: its modules, the functions and classes that they define, and what nothing in it calls."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from typing import Literal as OneOf

from typedbatch._program.arrays.sizes import Ranks, forget_quotients
from typedbatch._program.arrays.tables import TRANSFORMS
from typedbatch._program.classes import attribute_of, declared_arrays, declared_fields, lineage
from typedbatch._program.frames import Call, Frame
from typedbatch._program.heap import BatchObject, DictObject, Field, InstanceObject, ListObject, ScopeObject
from typedbatch._program.machine import BudgetError
from typedbatch._program.mismatches import finding_of
from typedbatch._program.notes import note_unused_sizes
from typedbatch._program.report import SHAPES, Finding, Outcome
from typedbatch._program.source import RECURSION, Program, Source
from typedbatch._program.statements import Statements
from typedbatch._program.values import (
    UNKNOWN,
    Class,
    Code,
    Decorated,
    External,
    Factory,
    Function,
    Method,
    Module,
    Partial,
    Ref,
    Result,
    Value,
    text_of,
    union,
)  # fmt: skip
from typedbatch._program.vocabulary import imported_names, last_name

_LEAST_SHARE: Final = 500
_KINDS: Final[dict[str, OneOf["property", "cached", "static", "class", "context"]]] = {
    "property": "property",
    "cached_property": "cached",
    "staticmethod": "static",
    "classmethod": "class",
    "contextmanager": "context",
    "asynccontextmanager": "context",
}
"""Decorators that decide what a read of the function gives."""
_KEEP_THE_FUNCTION: Final = frozenset({
    "checked", "enable_grad", "final", "inference_mode", "no_grad", "override", "wraps",
})  # fmt: skip
_LEAVE_OUT: Final = ("overload",)
_OF_ANNOTATIONS: Final = ("jaxtyping", "torch", "typedbatch", "typing")
"""Libraries whose decorators return a function that does the same."""


class Run(Statements):
    """A run of a whole program.

    Args:
        program: The program.
        ranks: The number of axes of each run of axes, as ``*b``, in a declared shape.
        only: Functions that are run if nothing calls them; None for all.
        unused_sizes: Whether names of sizes are noted that stand once in the annotations of a function.
    """

    def __init__(
        self,
        program: Program,
        ranks: Ranks,
        only: Collection[ast.AST] | None = None,
        *,
        unused_sizes: bool = False,
    ) -> None:
        super().__init__(program)
        self._notes_sizes = unused_sizes
        self.ranks = ranks
        self._only = only
        self._scopes: dict[Source, Ref] = {}
        self._defined_codes: list[Code] = []
        self._owners: dict[Code, Ref] = {}
        self._alone: dict[Code, Collection[int]] = {}
        """Functions, each with the scope in which it was defined last."""
        self._statements |= {
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.FunctionDef: self._function,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
        }

    def run(self) -> Outcome:
        """Run the top of each module, and then each function that nothing has called."""
        for source in self.program.sources:
            self._begin_again()
            mark = self.heap.begin()
            with suppress(BudgetError, RecursionError):
                self.load(source)
            changes = self.heap.since(mark)
            self.heap.is_alive = True
            self.heap.end(mark)
            self.heap.keep(changes)
        self._begin_again()
        first = self.program.sources[0]
        self.enter(Frame(None, first, self._scopes[first], self.next_frame()))
        with suppress(BudgetError, RecursionError):
            self._open_shared()
        self.is_alone = True
        for at, code in enumerate(self._defined_codes):  # More are added while functions run.
            is_asked = self._only is None or code.node in self._only
            is_relevant = is_asked and self.relevance.covers(code.module, code.node.lineno)
            if is_relevant and not isinstance(code.node, ast.Lambda) and self.steps < self.most_steps:
                left = (self.most_steps - self.steps) // (len(self._defined_codes) - at)
                self.share = max(_LEAST_SHARE, left) // 2
                self.share_end = self.steps + self.share
                if not code.has_run:
                    self._run_alone(code, self._owners[code])
                elif self._declares_shapes(code):
                    self._mismatches_alone(code)
        with suppress(BudgetError, RecursionError):
            for code in self._defined_codes if self._notes_sizes else ():
                note_unused_sizes(self, code)
        found = [*self.findings.values(), *self._placed()]
        found.sort(key=lambda one: (one.path, one.line, one.column, one.message))
        return Outcome(found, self.unfinished, tuple(self.notes.values()), self.needs)

    def blamed(self) -> set[ast.AST]:
        """Return the functions in which shapes do not fit, and those that call them."""
        levels = (level for levels in self.mismatches for level in levels)
        return {level.code.node for level in levels if level.code is not None}

    def _placed(self) -> list[Finding]:
        """Return the reports of shapes that do not fit, one for each place."""
        placed = dict[tuple[Path, int, int], Finding]()
        for mismatch in [*self.mismatches.values()]:
            finding_of(mismatch, self._mismatches_alone)
        # What a function alone has comes first, as it shows names of sizes.
        for mismatch in sorted(self.mismatches.values(), key=lambda one: len(one.levels)):
            finding = finding_of(mismatch, self._mismatches_alone)
            if finding is not None:
                placed.setdefault((finding.path, finding.line, finding.column), finding)
        return [*placed.values()]

    def _mismatches_alone(self, code: Code) -> Collection[int]:
        """Return the lines where shapes do not fit in a function that is called with what its annotations say."""
        if code not in self._alone:
            self._alone[code] = ()
            if code in self._owners and not isinstance(code.node, ast.Lambda):
                findings, self.findings = self.findings, {}
                mismatches, self.mismatches = self.mismatches, {}
                self.share, self.share_end = _LEAST_SHARE, self.steps + _LEAST_SHARE
                self._run_alone(code, self._owners[code])
                self._alone[code] = {levels[0].node.lineno for levels in self.mismatches}
                self.findings, self.mismatches = findings, {**mismatches, **self.mismatches}
        return self._alone[code]

    def _declares_shapes(self, code: Code) -> bool:
        """Return whether a function declares the shape of its result, or of a parameter or what that holds."""
        args = code.node.args
        parameters = [one.annotation for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        annotations = [one for one in (*parameters, code.returns) if one is not None]
        if not annotations:
            return False
        self.enter(Frame(None, code.module, self._scopes[code.module], 0))
        try:
            return any(map(self._declares_shape, annotations))
        finally:
            self.exit()

    def _declares_shape(self, annotation: ast.expr) -> bool:
        if self.declared_array(annotation) is not None:
            return True
        if isinstance(annotation, ast.Subscript) and last_name(annotation.value) in ("tuple", "Tuple"):
            parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            return any(map(self._declares_shape, parts))
        return any(declared_arrays(cls, (True,)) for cls in self.classes_in(annotation) or ())

    def _begin_again(self) -> None:
        self.frames, self.guards, self.exits, self.quiet, self.trial = [], (), 0, 0, None
        self.attempts, self.started = [], []
        self._body = None

    def _open_shared(self) -> None:
        """Open what calls have changed, as a function that nothing calls may be called before or after them."""
        for ref in [*self.heap.shared]:
            found = self.heap.read(ref)
            if isinstance(found, BatchObject):
                self.open_batch(ref)
                written = self.write_batch(ref)
                written.fields = {name: Field(union(one.value, UNKNOWN), False) for name, one in written.fields.items()}
            elif isinstance(found, (ListObject, DictObject)):
                self.escape((ref,))
            elif isinstance(found, InstanceObject):
                for name, value in found.attributes.items():
                    if name in self.vocabulary.late:
                        self._set_of_instance(ref, name, union(value, UNKNOWN), is_sure=True)

        for scope, name in self.rebound:
            if isinstance(self.heap.read(scope), ScopeObject):
                names = self.write_scope(scope).names
                names[name] = union(names.get(name, ()), UNKNOWN)

    def _run_alone(self, code: Code, scope: Ref) -> None:
        """Run a function that nothing has called, with what its annotations say."""
        self._begin_again()
        mark = self.heap.begin()
        top = self._scopes.get(code.module, scope)
        self.enter(Frame(None, code.module, top, self.next_frame(), mark))
        function = Function(code, scope)
        with suppress(BudgetError, RecursionError):
            receiver = self._receiver_of(code)
            self.activate(function if receiver is None else Method(function, receiver[0]), None)
            self.heap.is_alive = True
            self.run_threads()
        self.heap.end(mark)

    def _receiver_of(self, code: Code) -> Value | None:
        """Return what a function takes as its first argument when it is called as a method."""
        args = code.node.args
        if code.owner is None or code.kind == "static" or not (args.posonlyargs or args.args):
            return None
        if code.kind == "class":
            return (code.owner,)
        declared = declared_fields(code.owner)
        if declared is None:
            return self.instance(code.owner)
        return (self.batch(self.fields_of(code.owner, declared), is_open=True, declared=code.owner),)

    # Modules

    def load(self, source: Source) -> Value:
        """Run the top of a module, unless it has run, and return the module."""
        if self.frames:
            self.take_import(self.frame.source, source)
        if source not in self._scopes:
            mark = self.heap.begin()
            scope = self._scopes[source] = self.scope(None)
            before = self.frames, self.guards, self.quiet, self.trial, self._body, self.started
            frame = Frame(None, source, scope, self.next_frame(), mark)
            self.tops.add(frame.number)
            self.frames, self.trial, self._body, self.started = [], None, None, []
            self.enter(frame)
            try:
                self.run_block(source.tree.body)
                self.heap.is_alive = True  # An exit from the top of a module ends the program, or is in a script.
                self.run_threads()
            except RecursionError:  # Those that import it go on.
                self.heap.is_alive = True
            changes = self.heap.since(mark)
            self.heap.end(mark)
            self.heap.keep(changes)
            self.frames, self.guards, self.quiet, self.trial, self._body, self.started = before
            self.heap.writer = self.frame.number if self.frames else 0
        return (Module(source),)

    def scope_of_module(self, source: Source) -> Ref | None:
        """Return the scope of a module that has run."""
        return self._scopes.get(source)

    def member_of_module(self, source: Source, name: str) -> Value:
        """Return a variable or submodule of a module of the program."""
        found = self._names_of(source).get(name)
        if found is None:
            inner = self.program.find(f"{source.name}.{name}", source)
            return UNKNOWN if inner is None else self.load(inner)
        return found

    def set_in_module(self, source: Source, name: str, value: Value) -> None:
        """Set a variable of a module of the program from outside of it."""
        scope = self._scopes.get(source)
        if scope is not None and isinstance(self.heap.read(scope), ScopeObject):
            self.rebound[scope, name] = None
            self.loose.setdefault(scope, {})[name] = None
            self.write_scope(scope).names[name] = value

    def _names_of(self, source: Source) -> dict[str, Value]:
        return self._names_in(self._scopes.get(source))

    def _import(self, node: ast.Import) -> None:
        near = self.frame.source
        for alias in node.names:
            top = alias.name.partition(".")[0]
            source = self.program.find(alias.name, near)
            outer = self.program.find(top, near)
            if source is not None:
                self.load(source)
            value: Value = (External(alias.name if alias.asname else top),)
            if source is not None and alias.asname:
                value = (Module(source),)
            elif outer is not None and not alias.asname:
                value = self.load(outer)
            self.set_name(alias.asname or top, value)

    def _import_from(self, node: ast.ImportFrom) -> None:
        near = self.frame.source
        base = ".".join(imported_names(node, near.package)[0].split(".")[:-1]) if node.names else ""
        if base == "__future__":
            return
        source = self.program.find(base, near) if base else None
        if source is not None:
            self.load(source)
        for alias in node.names:
            if alias.name == "*":
                names = self._names_of(source) if source is not None else {}
                listed = {text_of(one) for one in self.iterate(names.get("__all__", ()))[0] or ()}
                for name, value in names.items():
                    if name in listed or (not listed and not name.startswith("_")):
                        self.set_name(name, value)
                continue
            full = f"{base}.{alias.name}" if base else alias.name
            found = self._names_of(source).get(alias.name) if source is not None else None
            inner = self.program.find(full, near) if found is None else None
            if found is None and inner is not None:
                found = self.load(inner)
            elif found is None:
                found = UNKNOWN if source is not None or node.level else (External(full),)
            name = alias.asname or alias.name
            self.set_name(name, found)
            origin = self._scopes.get(source) if source is not None else None
            if origin is not None:
                self.imported[self.frame.scope, name] = (origin, alias.name)

    # Functions

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        code = self._defined(node)
        value = self._decorated(node, code, self.frame.scope)
        if value is not None and self.is_alive():
            self.set_name(node.name, value)

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: Class | None = None) -> Code:
        code = self.code_of(node, node.name)
        code.owner = owner or code.owner
        return code

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef, code: Code, scope: Ref) -> Value | None:
        """Return what a definition binds its name to, or None if it binds it to nothing else than before."""
        function = Function(code, self.with_defaults(code, scope))
        value: Value = (function,)
        if code not in self._owners:
            self._defined_codes.append(code)
        self._owners[code] = function.scope
        for decorator in reversed(node.decorator_list):
            name = last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name in _KINDS:
                code.kind = _KINDS[name]
            elif name == "abstractmethod":
                code.is_abstract = True
            elif name == "xfail":
                code.has_run = True  # It is expected to fail, and so is not run alone.
            elif name in ("setter", *_LEAVE_OUT):
                return None
            elif name == "checked":
                code.is_checked = True
            elif name not in _KEEP_THE_FUNCTION:
                value = self._apply(decorator, value, node)
        return value

    def _apply(self, decorator: ast.expr, value: Value, node: ast.stmt) -> Value:
        found = self.evaluate(decorator)
        if not self.is_alive():
            return UNKNOWN
        if all(isinstance(atom, (Function, Method, Partial)) for atom in found):
            return self.call(found, Call([value], node=node))
        if any(isinstance(atom, External) and atom.name.rpartition(".")[2] in TRANSFORMS for atom in found):
            return UNKNOWN
        libraries = {atom.name.partition(".")[0] if isinstance(atom, (External, Result)) else "" for atom in found}
        if libraries.issubset(_OF_ANNOTATIONS):
            return value
        return tuple(Decorated(one) if isinstance(one, (Function, Method)) else UNKNOWN[0] for one in value)

    # Classes

    def _class(self, node: ast.ClassDef) -> None:
        bases: list[Any] = []
        for base in node.bases:
            value = self.evaluate(base.value if isinstance(base, ast.Subscript) else base)
            is_class = len(value) == 1 and isinstance(value[0], (Class, External))
            bases.append(value[0] if is_class else UNKNOWN[0])
        if not self.is_alive():
            return
        cls = Class(node.name, self.frame.source, bases)
        for base, atom in zip(node.bases, bases, strict=True):
            if isinstance(base, ast.Subscript) and declared_fields(atom) is not None:
                parts = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
                cls.arguments[atom] = tuple(map(self.kinds_in, parts))
            elif isinstance(atom, External) and atom.args:
                cls.arguments[atom] = atom.args
        metaclasses = [last_name(one.value) for one in node.keywords if one.arg == "metaclass"]
        cls.has_metaclass = any(name != "ABCMeta" for name in metaclasses)
        for base in bases:
            if isinstance(base, Class):
                base.derived.append(cls)
        self.set_name(node.name, (cls,))
        self.classes_of.setdefault(cls.module, []).append(cls)
        outer, self.frame.scope = self.frame.scope, self.scope(self.frame.scope)
        for statement in node.body:
            if self.is_alive():
                self._run_in_class(statement, cls, outer)
        self.frame.scope = outer
        if any(isinstance(base, Class) and base.has_metaclass for base in lineage(cls)):
            cls.attributes = {name: union(value, UNKNOWN) for name, value in cls.attributes.items()}
        hook = attribute_of(cls, "__init_subclass__", after=cls)
        if hook is not None and self.is_alive():
            named = {one.arg: self.evaluate(one.value) for one in node.keywords if one.arg is not None}
            self.call(tuple(Method(one, cls) for one in hook if isinstance(one, Function)), Call([], named, node))
        for decorator in reversed(node.decorator_list):
            decorated = self._apply(decorator, (cls,), node)
            if decorated != UNKNOWN and self.is_alive():
                self.set_name(node.name, decorated)

    def _run_in_class(self, statement: ast.stmt, cls: Class, outer: Ref) -> None:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._method(statement, cls, outer)
            case ast.AnnAssign(target=ast.Name(id=name)):
                self._declare(statement, name, cls)
            case _:
                before = dict(self._names_in(self.frame.scope))
                self.run_block([statement])
                after = self._names_in(self.frame.scope)
                cls.attributes.update({name: value for name, value in after.items() if value != before.get(name)})

    def _names_in(self, scope: Ref | None) -> dict[str, Value]:
        found = self.heap.read(scope) if scope is not None else None
        return found.names if isinstance(found, ScopeObject) else {}

    def _set_in_class(self, cls: Class, name: str, value: Value) -> None:
        cls.attributes[name] = value
        self.set_name(name, value)

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, cls: Class, outer: Ref) -> None:
        code = self._defined(node, cls)
        value = self._decorated(node, code, outer)
        if value is None:
            if any(
                last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) == "setter"
                for decorator in node.decorator_list
            ):
                cls.attributes[f"{node.name}.setter"] = (Function(code, outer),)
        elif node.name == "meta" and declared_fields(cls) is not None:
            pass
        elif code.kind == "property" and "Protocol" in base_names_of_own(cls) and declared_fields(cls) is not None:
            self._declare_field(cls, node.name, node.returns, may_lack=False)
        else:
            self._set_in_class(cls, node.name, value)

    def _declare(self, node: ast.AnnAssign, name: str, cls: Class) -> None:
        """Take an annotated name in the body of a class for a field."""
        annotated = {last_name(one) for one in ast.walk(node.annotation) if isinstance(one, (ast.Name, ast.Attribute))}
        if "ClassVar" in annotated:
            if node.value is not None:
                self._set_in_class(cls, name, self.evaluate(node.value))
            return
        if name == "meta":
            return
        may_lack = node.value is not None or bool(annotated & {"NotRequired", "Maybe"})
        self._declare_field(cls, name, node.annotation, may_lack=may_lack)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) == "field":
            for keyword in node.value.keywords:
                if keyword.arg == "default_factory":
                    cls.attributes[name] = (Factory(self.evaluate(keyword.value)),)
                elif keyword.arg == "default":
                    cls.attributes[name] = self.evaluate(keyword.value)
        elif node.value is not None and declared_fields(cls) is None:
            self._set_in_class(cls, name, self.evaluate(node.value))

    def _declare_field(self, cls: Class, name: str, annotation: ast.expr | None, *, may_lack: bool) -> None:
        cls.fields[name] = may_lack
        array = self.declared_field(annotation) if annotation is not None else None
        if array is not None:
            cls.arrays[name] = array
        kinds = self.kinds_in(annotation) if annotation is not None else None
        if kinds is not None:
            cls.kinds[name] = kinds


def base_names_of_own(cls: Class) -> set[str]:
    """Return the last names of the bases that a class names itself."""
    names = {base.name.rpartition(".")[2] for base in cls.bases if isinstance(base, (External, Class))}
    return names | ({"Protocol"} if any(name.endswith("Protocol") for name in names) else set())


def run(
    program: Program, *, unused_sizes: bool = False, make: Callable[[Program, Ranks], Run] | None = None
) -> Outcome:
    """Run a program on abstract values, and return what is found. Nothing of it is imported or executed.

    Args:
        program: The program.
        unused_sizes: Whether names of sizes are noted that stand once in the annotations of a function.
        make: Function that returns the first run, of which a subclass may see all values; None for a plain run.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION)
    forget_quotients()
    try:
        ranks = Ranks()
        first = Run(program, ranks, unused_sizes=unused_sizes) if make is None else make(program, ranks)
        outcome = first.run()
        for others in ranks.of_all():
            if any(one.code in SHAPES for one in outcome.findings):
                other = Run(program, others, first.blamed()).run()
                outcome = replace(outcome, findings=_certain(outcome.findings, other.findings))
        return outcome
    finally:
        sys.setrecursionlimit(limit)


def _certain(findings: list[Finding], others: list[Finding]) -> list[Finding]:
    """Return findings without those of shapes that depend on the number of axes of a run, as ``*b``.

    What comes after another mismatch is not known for the other number, and so stays.
    """
    others = [one for one in others if one.code in SHAPES]
    places = {(one.path, one.line, one.column) for one in others}
    roots = {(step.path, step.line) for one in others for step in one.trace[-1:]}
    mine = {(one.path, one.line, one.column) for one in findings}
    new = [(path, line) for path, line, column in places if (path, line, column) not in mine]
    return [
        one
        for one in findings
        if one.code not in SHAPES
        or (one.path, one.line, one.column) in places
        or any((step.path, step.line) in roots for step in one.trace[-1:])
        or any(path == one.path and line <= one.line for path, line in new)
    ]
