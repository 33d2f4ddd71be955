"""Values of which only an annotation or a class is known."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from typedbatch._program import report, shapes
from typedbatch._program.arrays.declared import Declared, array_of, shape_in
from typedbatch._program.arrays.dtypes import JAXTYPING, Dtypes, dtype_named
from typedbatch._program.arrays.sizes import Name, named
from typedbatch._program.arrays.values import Array, Record, Scalar, each
from typedbatch._program.attributes import Attributes
from typedbatch._program.classes import attribute_of, base_names, declared_arrays, declared_fields, library_of, lineage
from typedbatch._program.heap import InstanceObject, Object
from typedbatch._program.shipped import Declared as Fields
from typedbatch._program.shipped import shipped
from typedbatch._program.source import Program
from typedbatch._program.values import (
    UNKNOWN,
    Annotation,
    Atom,
    Class,
    External,
    Function,
    Kind,
    Kinds,
    Method,
    Ref,
    Result,
    Shaped,
    TypeVariable,
    Value,
    kinds_of_array,
    union,
)
from typedbatch._program.vocabulary import last_name
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError
from typedbatch.schema.dims import Dim, Shape, Sort

OF_ELEMENTS: Final = frozenset({
    "AsyncGenerator", "AsyncIterable", "AsyncIterator", "Collection", "Generator", "Iterable", "Iterator", "List",
    "MutableSequence", "Sequence", "Set", "deque", "frozenset", "list", "set",
})  # fmt: skip
_ARRAYS: Final = {
    "torch.Tensor": True, "torch.tensor.Tensor": True, "numpy.ndarray": False, "torch.FloatTensor": True,
    "torch.LongTensor": True,
}  # fmt: skip
"""Classes of arrays, and whether they are torch's."""
_TRANSPARENT: Final = frozenset({"Annotated", "Final", "Maybe", "NotRequired", "Optional", "Required"})
"""Names that may be around the annotation of an array."""
_MARKS: Final = frozenset({"Flag", "PerStep", "StepsFirst"})
_DYNAMIC: Final = frozenset({"DynamicBatch"})
"""Records that may have other fields than they declare."""
_NOT_INSTANCES: Final = frozenset({"Enum", "IntEnum", "StrEnum", "TypedDict"})


class Annotations(Attributes):
    """A run that reads annotations."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._being_made: list[Class] = []
        self._of_texts: dict[ast.expr, ast.expr] = {}
        """Annotations in quotes, as they are parsed."""
        self.quoted: set[ast.AST] = set()
        """Nodes in these, which are not in the tree of a file."""
        self._instances: dict[Class, Object | None] = {}
        """Instances for functions that nothing calls; each is made once, and each function gets a copy."""

    def _unquoted(self, node: ast.expr) -> ast.expr:
        """Return what an annotation in quotes says."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return node
        if node not in self._of_texts:
            try:
                found = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError):
                found = ast.Constant(...)
            self._of_texts[node] = found
            self.quoted.update(ast.walk(found))
        return self._of_texts[node]

    def classes_in(self, node: ast.expr) -> list[Atom] | None:
        """Return the classes of an annotation, None where it may be something else."""
        node = self._unquoted(node)
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
                found = value[0] if len(value) == 1 else None
                found = found.bound if isinstance(found, TypeVariable) else found
                return [found] if isinstance(found, (Class, External)) else None
            case _:
                return None

    def kinds_in(self, node: ast.expr) -> Kinds | None:
        """Return the classes that an annotation names, with type arguments; None where it may be something else."""
        node = self._unquoted(node)
        match node:
            case ast.Constant(value=None):
                return (Kind(External("builtins.None")),)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                one, other = self.kinds_in(left), self.kinds_in(right)
                return None if one is None or other is None else one + other
            case ast.Subscript(value=outer, slice=inner):
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return self._kinds_of(node, outer, parts)
            case ast.Name() | ast.Attribute():
                found = self._meant(node)
                if isinstance(found, Annotation):
                    return kinds_of_array(torch=found.declared.torch)
                if isinstance(found, External) and found.name in _ARRAYS:
                    return kinds_of_array(torch=_ARRAYS[found.name])
                if isinstance(found, TypeVariable):
                    return (Kind(found.bound, (None,)),)  # The type arguments of the bound are not known.
                args = found.args if isinstance(found, External) else ()
                return (Kind(found, args),) if isinstance(found, (Class, External)) else None
            case _:
                return None

    def _kinds_of(self, node: ast.expr, outer: ast.expr, parts: list[ast.expr]) -> Kinds | None:
        name = last_name(outer)
        if name in _TRANSPARENT:
            kinds = self.kinds_in(parts[0])
            return kinds if kinds is None or name != "Optional" else (*kinds, Kind(External("builtins.None")))
        with self.silently():
            declared = self.declared_array(node)
        if declared is not None:
            return kinds_of_array(torch=declared.torch)
        found = self._meant(outer)
        if not isinstance(found, (Class, External)):
            return None
        return (Kind(found, tuple(map(self.kinds_in, parts))),)

    def declared_array(self, node: ast.expr | None) -> Declared | None:
        """Return the array that an annotation declares; of a union with None, the array."""
        if node is None:
            return None
        node = self._unquoted(node)
        match node:
            case ast.BinOp(op=ast.BitOr(), left=left, right=ast.Constant(value=None)):
                return self.declared_array(left)
            case ast.BinOp(op=ast.BitOr(), left=ast.Constant(value=None), right=right):
                return self.declared_array(right)
            case ast.Subscript(value=outer, slice=inner):
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return self._declared_by(self._meant(outer), parts)
            case ast.Name() | ast.Attribute():
                found = self._meant(node)
                return found.declared if isinstance(found, Annotation) else None
            case _:
                return None

    def _declared_by(self, outer: Atom | None, parts: list[ast.expr]) -> Declared | None:
        home, _, name = outer.name.rpartition(".") if isinstance(outer, External) else ("", "", "")
        if home == "jaxtyping" and name in JAXTYPING and len(parts) == 2:
            torch, text = self._library_of(parts[0]), parts[1]
            if torch is None or not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                return None
            try:
                return Declared(shape_in(text.value), JAXTYPING[name], torch)
            except DeclarationError as error:
                self.report(text, report.SHAPE, str(error), [])
                return None
        if name in _TRANSPARENT and parts:
            return self.declared_array(parts[0])
        if name == "NDArray" and parts:
            return Declared(None, self._dtypes_of(parts[0]), torch=False)
        if f"{home}.{name}" == "numpy.ndarray" and len(parts) == 2:
            dtype = parts[1].slice if isinstance(parts[1], ast.Subscript) else None
            return Declared(self._numpy_shape(parts[0]), self._dtypes_of(dtype), torch=False)
        return None

    def _meant(self, node: ast.expr) -> Atom | None:
        """Return the one thing that an expression in an annotation means."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        with self.silently():
            value = self.evaluate(node)
        return value[0] if len(value) == 1 else None

    def _library_of(self, node: ast.expr) -> bool | None:
        """Return whether a class is torch's tensor; None if it is not that of an array either."""
        found = self._meant(self._unquoted(node))
        return _ARRAYS.get(found.name) if isinstance(found, External) else None

    def _dtypes_of(self, node: ast.expr | None) -> Dtypes | None:
        found = self._meant(node) if node is not None else None
        home, _, name = found.name.rpartition(".") if isinstance(found, External) else ("", "", "")
        return dtype_named(name, torch=False) if home == "numpy" else None

    @staticmethod
    def _numpy_shape(node: ast.expr) -> Shape | None:
        """Return the shape that ``tuple[int, Literal[4]]`` declares."""
        if not isinstance(node, ast.Subscript) or last_name(node.value) != "tuple":
            return None
        dims: list[Dim] = []
        for one in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            match one:
                case ast.Name(id="int"):
                    dims.append(Dim(Sort.ANY, "_"))
                case ast.Subscript(value=outer, slice=ast.Constant(value=int() as size)) if (
                    last_name(outer) == "Literal"
                ):
                    dims.append(Dim(Sort.FIXED, str(size)))
                case _:
                    return None
        return Shape(tuple(dims))

    def declared_field(self, node: ast.expr) -> Declared | None:
        """Return the array that the annotation of a field declares, by its shape or by a mark."""
        node, declared = self._unquoted(node), self.declared_array(node)
        if not isinstance(node, ast.Subscript) or last_name(node.value) not in _TRANSPARENT:
            return declared
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if last_name(node.value) != "Annotated":
            return self.declared_field(parts[0])
        torch = self._library_of(parts[0])
        if declared is None and torch is not None:
            declared = Declared(None, None, torch)
        for one in parts[1:]:
            mark = self._meant(one)
            home, _, name = mark.name.rpartition(".") if isinstance(mark, External) else ("", "", "")
            if declared is not None and home.startswith("typedbatch") and name in _MARKS:
                return declared.marked(name)
        return declared

    def annotated(self, node: ast.expr | None, name: str = "", *, is_width: bool = False) -> Value:
        """Return a value of which only its annotation is known.

        Args:
            node: The annotation.
            name: Name of the parameter; a size that is not known is shown by it.
            is_width: Whether the parameter is one or more if it is a whole number.
        """
        if node is None:
            return UNKNOWN
        node = self._unquoted(node)
        declared = self.declared_array(node)
        if declared is not None:
            owner = Record(self.frame.number, self.frame.sizes, called=self.frame.is_result)
            return shapes.lower(array_of(declared, owner, self.ranks, name), UNKNOWN)
        if isinstance(node, ast.Subscript):
            outer = last_name(node.value)
            elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if outer in ("tuple", "Tuple"):
                if any(isinstance(one, ast.Constant) for one in elements):  # tuple[Batch, ...]
                    return self.list_of(None, self.annotated(elements[0]))
                return self.list_of([self.annotated(one) for one in elements], is_tuple=True)
            if outer in OF_ELEMENTS and elements:
                held = each(shapes.lift(self, element := self.annotated(elements[0])))
                return self.list_of(None, element if held is None else shapes.lower(held))
        classes = self.classes_in(node)
        if name and classes == [External("builtins.int")]:
            return (Shaped(named(Name(name, self.frame.number, opaque=not is_width))),)
        if classes is None or len(classes) != 1:
            return UNKNOWN
        arguments = [] if not isinstance(node, ast.Subscript) else [node.slice]
        if arguments and isinstance(arguments[0], ast.Tuple):
            arguments = arguments[0].elts
        alias = classes[0].args if isinstance(classes[0], External) else ()
        return self.fresh(classes[0], [*map(self._library_of, arguments), *map(library_of, alias)])

    def fresh(self, cls: Atom, libraries: Sequence[bool | None] = ()) -> Value:
        """Return a value of a class of which nothing else is known.

        Args:
            cls: The class.
            libraries: Whether each of its type arguments is torch's tensor, where that is known.
        """
        declared = declared_fields(cls)
        if isinstance(cls, External) and shipped(cls.name) is Batch:
            return (self.batch(is_open=True),)
        if declared is not None and isinstance(cls, (Class, External)):
            batch = self.batch(self.fields_of(cls, declared, libraries), is_open=True, declared=cls)
            fields = declared.required | declared.optional
            self.write_batch(batch).is_annotated = bool(fields) and not base_names(cls) & _DYNAMIC
            return (batch,)
        if isinstance(cls, External) and cls.name in ("builtins.float", "builtins.bool"):
            return (Shaped(Scalar()),)
        if isinstance(cls, External) and cls.name in _ARRAYS:
            return (Shaped(Array(None, None, _ARRAYS[cls.name])),)
        if isinstance(cls, External) and cls.name in ("numpy.random.Generator", "numpy.random.RandomState"):
            return (Result("numpy.random.default_rng"),)
        return self.instance(cls) if isinstance(cls, Class) else UNKNOWN

    def fields_of(
        self, cls: Class | External, declared: Fields, libraries: Sequence[bool | None] = ()
    ) -> dict[str, Value]:
        """Return the fields that a record declares, with their shapes; the names in these are those of one batch."""
        fields = dict.fromkeys(sorted(declared.required | declared.optional), UNKNOWN)
        arrays = declared_arrays(cls, libraries)
        owner = Record(self.next_frame()) if arrays else None
        for name, one in arrays.items():
            if name in declared.required and owner is not None:
                fields[name] = shapes.lower(array_of(one, owner, self.ranks, name.removesuffix("_next")), UNKNOWN)
        return fields

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
        owner = Record(self.next_frame())
        for base in lineage(cls):
            for name in base.fields if isinstance(base, Class) else ():
                array = base.arrays.get(name) if isinstance(base, Class) else None
                held = None if array is None else array_of(array, owner, self.ranks, name)
                written.attributes.setdefault(name, shapes.lower(held, UNKNOWN))
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
