"""Signatures of functions: what is given and returned beside what is declared."""

from __future__ import annotations

import ast
from typing import Final

from typedbatch._program import shapes
from typedbatch._program.annotations import OF_ELEMENTS, Annotations
from typedbatch._program.arrays.declared import Declared, array_of, bind, learn_run
from typedbatch._program.arrays.sizes import Name, named
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import MismatchError, Record
from typedbatch._program.frames import Frame
from typedbatch._program.heap import BatchObject, DictObject, Key, ListObject
from typedbatch._program.needs import need
from typedbatch._program.values import Code, External, Kinds, Value
from typedbatch._program.vocabulary import last_name

_OF_VALUES: Final = frozenset({"Dict", "Mapping", "MutableMapping", "dict"})


class Signatures(Annotations):
    """A run that holds the values of parameters and results against their annotations."""

    def need_annotated(
        self, annotation: ast.expr, value: Value, node: ast.AST | None, *, is_given: bool = False
    ) -> None:
        """Report a value that is not what it is annotated with: a batch, or those in a list, tuple or dict.

        Args:
            annotation: The annotation, read where the run is.
            value: The value.
            node: The expression to report.
            is_given: Whether the value is an argument, so that the report is at the call.
        """
        if node is None or not self._may_hold_batch(value):
            return
        kinds = self.kinds_in(annotation)
        callee = self.exit() if is_given else None
        self.is_given, before = is_given, self.is_given
        try:
            self.need_kinds(kinds, value, node)
        finally:
            self.is_given = before
            if callee is not None:
                self.enter(callee)

    def need_yielded(self, annotation: ast.expr, value: Value, node: ast.AST) -> None:
        """Report a value that a generator yields, and that is not what its annotation says."""
        kinds = self.kinds_in(annotation) if self._may_hold_batch(value) else None
        if kinds and len(kinds) == 1 and kinds[0].args:
            self.need_kinds(kinds[0].args[0], value, node)

    def need_kinds(self, kinds: Kinds | None, value: Value, node: ast.AST | None) -> None:
        """Report a value that is not of a class that is asked for, if that is one of batches."""
        known = [kind for kind in kinds or () if kind.cls != External("builtins.None")]
        if len(known) != 1 or node is None:
            return
        kind = known[0]
        name = kind.cls.name.rpartition(".")[2] if isinstance(kind.cls, External) else ""
        found = self.object_at(value[0]) if len(value) == 1 else None
        if isinstance(found, DictObject) and name in _OF_VALUES and len(kind.args) == 2:
            for key, item in found.items.items():
                self.need_kinds(kind.args[1], item, _entry(node, key))
        elif not isinstance(found, ListObject):
            need(self, value, kind, node)
        elif name in ("tuple", "Tuple") and found.items is not None and len(found.items) == len(kind.args):
            for at, inner in enumerate(kind.args):
                self.need_kinds(inner, found.items[at], _item(node, at))
        elif name in OF_ELEMENTS and kind.args:
            for at, item in enumerate(found.items or ()):
                self.need_kinds(kind.args[0], item, _item(node, at))

    def _may_hold_batch(self, value: Value) -> bool:
        return any(isinstance(self.object_at(atom), (BatchObject, DictObject, ListObject)) for atom in value)

    def declared_result(self, code: Code, frame: Frame) -> Declared | None:
        """Return the array that a function declares as its result, read in the module of the function."""
        scope = self.scope_of_module(code.module)
        self.enter(Frame(None, code.module, scope or frame.scope, frame.number))
        try:
            return self.declared_array(code.returns)
        finally:
            self.exit()

    def fit(self, code: Code, name: str, declared: Declared, value: Value, node: ast.AST | None) -> None:
        """Hold an argument against the shape that is declared of it, and learn the sizes of the names in this."""
        held, sizes = shapes.lift(self, value), self.frame.sizes
        if not isinstance(held, Known):
            return
        try:
            bind(declared, held, Record(self.frame.number, sizes, called=True), sizes)
        except MismatchError as error:
            callee = self.exit()
            text = f'Argument "{name}" of {code.shown} {error}'
            self.take_mismatch(node, MismatchError(text, dtype=error.dtype))
            self.enter(callee)

    def filled(self, frame: Frame) -> dict[str, Known]:
        """Return the arrays that a function declares of its parameters, with names for the sizes that are not known."""
        owner = Record(frame.number, frame.sizes)
        for declared in frame.declared.values():
            for text in declared.names:
                if frame.sizes.get(text) is None:
                    frame.sizes[text] = named(Name(text, frame.number, declared=True))
            for run in declared.runs:
                if run.key not in frame.sizes and not run.broadcasts:
                    frame.guessed.add(run.key)
                    learn_run(run, owner, frame.sizes, self.ranks)
        return {name: array_of(one, owner, self.ranks, name) for name, one in frame.declared.items()}

    def checked_result(self, annotation: ast.expr | None, value: Value, node: ast.AST) -> Value:
        """Hold what a function returns against the shape that it declares, and return it, or else what is declared."""
        declared = self.declared_array(annotation)
        if declared is None:
            return self._checked_results(annotation, value, node)
        held, sizes = shapes.lift(self, value), dict(self.frame.sizes)
        if not isinstance(held, Known):
            return value
        owner = Record(self.frame.number, sizes)
        try:
            bind(declared, held, owner, sizes)
        except MismatchError as error:
            text = str(error).replace("takes", "is declared as", 1)
            self.take_mismatch(node, MismatchError(f"Result {text}", dtype=error.dtype))
            return shapes.lower(array_of(declared, owner, self.ranks))
        return value

    def check_assigned(self, node: ast.AnnAssign, value: Value) -> Value:
        """Hold what is assigned against its annotation, and return it with the sizes that only this knows."""
        declared, held = self.declared_array(node.annotation), shapes.lift(self, value)
        if declared is None or not isinstance(held, Known):
            return value
        owner = Record(self.frame.number, self.frame.sizes)
        try:
            bind(declared, held, owner, self.frame.sizes)
        except MismatchError as error:
            name = f'"{node.target.id}" ' if isinstance(node.target, ast.Name) else ""
            self.take_mismatch(node, MismatchError(f"Assignment: {name}{error}", dtype=error.dtype))
            return value
        return shapes.filled(self, value, array_of(declared, owner, self.ranks))

    def _checked_results(self, annotation: ast.expr | None, value: Value, node: ast.AST) -> Value:
        """Do the same for each item of a tuple."""
        if not isinstance(annotation, ast.Subscript) or last_name(annotation.value) not in ("tuple", "Tuple"):
            return value
        items = self.iterate(value, node)[0] if len(value) == 1 else None
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if items is None or len(items) != len(parts):
            return value
        checked = [self.checked_result(part, one, node) for part, one in zip(parts, items, strict=True)]
        return value if tuple(checked) == items else self.list_of(checked, is_tuple=True)


def _item(node: ast.AST, at: int) -> ast.AST:
    """Return an item of a list or tuple that is written out, or else all of it."""
    items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    return items[at] if at < len(items) and not any(isinstance(one, ast.Starred) for one in items) else node


def _entry(node: ast.AST, key: Key) -> ast.AST:
    """Return the value of a key of a dict that is written out, or else all of the dict."""
    pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    found = [value for name, value in pairs if isinstance(name, ast.Constant) and name.value == key]
    return found[-1] if found else node


def is_positive(syntax: ast.arguments, parameter: ast.arg) -> bool:
    """Return whether a parameter has a positive number as its default, or none: it may well be the width of a layer."""
    positional = [*syntax.posonlyargs, *syntax.args]
    pairs = [*zip(positional[len(positional) - len(syntax.defaults) :], syntax.defaults, strict=True)]
    pairs += [(one, node) for one, node in zip(syntax.kwonlyargs, syntax.kw_defaults, strict=True) if node]
    default = next((node for one, node in pairs if one is parameter), None)
    return default is None or (isinstance(default, ast.Constant) and type(default.value) is int and default.value > 0)
