"""Values of which only an annotation or a class is known."""

from __future__ import annotations

import ast
from typing import Final

from typedbatch._program.attributes import Attributes
from typedbatch._program.classes import attribute_of, base_names, declared_fields, lineage
from typedbatch._program.heap import InstanceObject, Object
from typedbatch._program.shipped import shipped
from typedbatch._program.source import Program
from typedbatch._program.values import UNKNOWN, Atom, Class, External, Function, Method, Ref, Value, union
from typedbatch._program.vocabulary import last_name
from typedbatch.batch import Batch

_OF_ELEMENTS: Final = frozenset({
    "AsyncGenerator", "AsyncIterable", "AsyncIterator", "Collection", "Generator", "Iterable", "Iterator", "List",
    "MutableSequence", "Sequence", "Set", "deque", "frozenset", "list", "set",
})  # fmt: skip
_DYNAMIC: Final = frozenset({"DynamicBatch"})
"""Records that may have other fields than they declare."""
_NOT_INSTANCES: Final = frozenset({"Enum", "IntEnum", "StrEnum", "TypedDict"})


class Annotations(Attributes):
    """A run that reads annotations."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._being_made: list[Class] = []
        self._instances: dict[Class, Object | None] = {}
        """Instances for functions that nothing calls; each is made once, and each function gets a copy."""

    def classes_in(self, node: ast.expr) -> list[Atom] | None:
        """Return the classes of an annotation, None where it may be something else."""
        node = _parsed(node)
        match node:
            case ast.Constant(value=None):
                return []
            case ast.BinOp(left=left, right=right):
                one, other = self.classes_in(left), self.classes_in(right)
                return None if one is None or other is None else one + other
            case ast.Subscript(value=outer, slice=inner):
                name = last_name(outer)
                if name == "Optional":
                    return self.classes_in(inner)
                if name == "Annotated" and isinstance(inner, ast.Tuple) and inner.elts:
                    return self.classes_in(inner.elts[0])
                return self.classes_in(outer)
            case ast.Name() | ast.Attribute():
                with self.silently():
                    value = self.evaluate(node)
                return [value[0]] if len(value) == 1 and isinstance(value[0], (Class, External)) else None
            case _:
                return None

    def annotated(self, node: ast.expr | None) -> Value:
        """Return a value of which only its annotation is known."""
        if node is None:
            return UNKNOWN
        node = _parsed(node)
        if isinstance(node, ast.Subscript):
            name = last_name(node.value)
            elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if name in ("tuple", "Tuple"):
                if any(isinstance(one, ast.Constant) for one in elements):  # tuple[Batch, ...]
                    return self.list_of(None, self.annotated(elements[0]))
                return self.list_of([self.annotated(one) for one in elements])
            if name in _OF_ELEMENTS and elements:
                return self.list_of(None, self.annotated(elements[0]))
        classes = self.classes_in(node)
        return self.fresh(classes[0]) if classes is not None and len(classes) == 1 else UNKNOWN

    def fresh(self, cls: Atom) -> Value:
        """Return a value of a class of which nothing else is known."""
        declared = declared_fields(cls)
        if isinstance(cls, External) and shipped(cls.name) is Batch:
            return (self.batch(is_open=True),)
        if declared is not None and isinstance(cls, (Class, External)):
            fields = dict.fromkeys(sorted(declared.required | declared.optional), UNKNOWN)
            batch = self.batch(fields, is_open=True, declared=cls)
            self.write_batch(batch).is_annotated = bool(fields) and not base_names(cls) & _DYNAMIC
            return (batch,)
        return self.instance(cls) if isinstance(cls, Class) else UNKNOWN

    def instance(self, cls: Class) -> Value:
        """Return an instance of a class, made with arguments of which nothing is known, of which others know, too."""
        if cls in self._being_made or base_names(cls) & _NOT_INSTANCES:
            return UNKNOWN
        if not self.is_alone:
            return self._made(cls)
        if cls not in self._instances:
            before, mark = (self.guards, self.quiet, self.trial), self.heap.begin()
            self.guards, self.quiet, self.trial = (), 0, None
            value = self._made(cls)
            self.guards, self.quiet, self.trial = before
            changes = self.heap.since(mark)
            self.heap.end(mark)
            self.heap.keep(changes)
            self._instances[cls] = self.object_at(value[0])
        made = self._instances[cls]
        return UNKNOWN if made is None else (self.heap.add(made.copy()),)

    def _made(self, cls: Class) -> Value:
        ref, mark = self.heap.add(InstanceObject(cls, may_be_derived=True)), self.heap.begin()
        self._being_made.append(cls)
        try:
            for atom in attribute_of(cls, "__init__") or ():
                if isinstance(atom, Function):
                    self.run_unknown(Method(atom, ref))
        finally:
            self._being_made.pop()
        changes = self.heap.end(mark)
        if changes is None:  # Its constructor always raises.
            return UNKNOWN
        self.heap.apply(changes)
        written = self._written_instance(ref)
        for base in lineage(cls):
            for name in base.fields if isinstance(base, Class) else ():
                written.attributes.setdefault(name, UNKNOWN)
        for name, value in [*written.attributes.items()]:
            self.escape(value)
            if name in self.vocabulary.late:
                written = self._written_instance(ref)
                written.attributes[name] = union(written.attributes[name], UNKNOWN)
        return (ref,)

    def _written_instance(self, ref: Ref) -> InstanceObject:
        written = self.heap.write(ref)
        assert isinstance(written, InstanceObject)
        return written


def _parsed(node: ast.expr) -> ast.expr:
    """Return what an annotation in quotes says."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return ast.Constant(...)
    return node
