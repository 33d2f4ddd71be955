"""What is known of names on one way through a function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from mypy.expandtype import expand_type_by_instance
from mypy.maptype import map_instance_to_supertype
from mypy.nodes import Decorator, MemberExpr, NameExpr, Node, RefExpr, TypeInfo, Var
from mypy.types import CallableType, Instance, LiteralType, TupleType, Type, get_proper_type

from typedbatch._program.arrays.declared import Declared
from typedbatch._program.arrays.held import array_of
from typedbatch._program.arrays.sizes import Name, Ranks, Size, named, new_scope, number
from typedbatch._program.arrays.values import (
    Array,
    Layer,
    Layers,
    Many,
    Record,
    Scalar,
    Several,
    Span,
    Value,
    each,
    join,
    names_of,
    without,
)
from typedbatch.mypy.batches.content import Content, Field, Object, Ref
from typedbatch.mypy.batches.merging import Decide, joined_objects, nothing_decides, renamed
from typedbatch.mypy.batches.objects import Objects
from typedbatch.mypy.declared import declared_by, is_array, mark_of
from typedbatch.mypy.types.fields import BATCH, Fields, Rest, alternatives, content
from typedbatch.mypy.types.fields import is_batch as is_plain_batch

PROTOCOL = "typedbatch._typing.BatchProtocol"
_LOOPED = frozenset({"builtins.list", "typing.Sequence", "typing.Iterable", "typing.Iterator", "typing.Generator"})


class Known:
    """Values of names; a copy for each branch.

    Args:
        values: to begin with.
        scopes: of values that were met at a place in the program, so that it has the same one each time.
        handed_on: gives the names whose lists may be added to; asked for when there is a list.
    """

    def __init__(
        self,
        values: dict[Any, Value] | None = None,
        scopes: dict[Any, int] | None = None,
        handed_on: Callable[[], Collection[Any]] = tuple,
        objects: dict[Object, Any] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.values: dict[Any, Value] = values if values is not None else {}
        self.objects: Objects = Objects(join, objects)
        self._handed_on = handed_on
        self.unsteady: set[Any] = set()
        """Names that functions inside assign to: they may be anything after any call."""
        self.scopes: dict[Any, int] = scopes if scopes is not None else {}
        self.ranks: Ranks = Ranks() if ranks is None else ranks

    def copy(self) -> Known:
        """For another way, from here on."""
        out = Known(dict(self.values), self.scopes, self._handed_on, dict(self.objects.contents), self.ranks)
        out.unsteady = self.unsteady
        out.objects.watching = self.objects.watching
        return out

    def make(self, site: Any, content: Any) -> Ref:
        """Return a reference to a new object; the one that was made there before is one of the earlier ones now."""
        contents, new, old = self.objects.contents, (site, False), (site, True)
        before = contents.pop(new, None)
        if before is not None:
            contents[old] = before
            self.objects.rename(new, old)
            self.values = {name: replaced(value, new, old) for name, value in self.values.items()}
            self.objects.put(old, contents[old])
        self.objects.put(new, content)
        return Ref(frozenset({new}))

    def aged(self, ref: Value) -> Value:
        """Return a reference to any number of objects that are like the one that was just made."""
        if not isinstance(ref, Ref):
            return ref
        out: Value = ref
        for site, old in ref.objects:
            if not old and (site, old) in self.objects.contents:
                content = self.objects.contents.pop((site, old))
                before = self.objects.contents.get((site, True))
                self.objects.contents[site, True] = content if before is None else joined_objects(before, content, join)
                self.objects.rename((site, False), (site, True))
                self.values = {name: replaced(one, (site, False), (site, True)) for name, one in self.values.items()}
                out = renamed(out, (site, False), (site, True))
        return out

    def joined(self, values: Sequence[Value], empty: Any = None) -> Value:
        """What is known of a value that is one of these; ``empty`` if there are none."""
        return reduce(join, values) if values else empty

    def get(self, name: Any) -> Value:
        """What a name is."""
        return self.values.get(name)

    def put(self, name: Any, value: Value) -> None:
        """From here on, a name is that."""
        if name in self.unsteady:
            value = None
        listed = isinstance(value, Many) or (isinstance(value, Several) and value.listed)
        self.values[name] = None if listed and name in self._handed_on() else value

    def become(self, other: Known) -> None:
        """Take over what is known on another way."""
        self.values, self.objects.contents = other.values, other.objects.contents

    def merge(self, others: Iterable[Known], decide: Decide = nothing_decides) -> None:
        """Keep what is the same on all ways; ``decide`` says what decides whether a batch has a field."""
        for other in others:
            self.values = {
                name: value if value is other.values[name] else _met(value, other.values[name], decide)
                for name, value in self.values.items()
                if name in other.values
            }
            self.objects.merge(other.objects.contents, decide)

    def forget(self, names: set[Name]) -> None:
        """Sizes that were compared with others may be those, from here on."""
        if names:
            self.values = {key: without(value, names) for key, value in self.values.items()}

    def forget_names_of(self, scope: int) -> None:
        """What belongs to an object is given other sizes."""
        self.forget({name for value in self.values.values() for name in names_of(value) if name.scope == scope})

    def forget_arrays(self) -> None:
        """An array has got another shape in place, under whatever names it is known."""
        kept = (Array, Several, Many)
        self.values = {key: None if isinstance(value, kept) else value for key, value in self.values.items()}

    def forget_layers(self) -> None:
        """A container of layers has got others, under whatever names it is known."""
        self.values = {key: None if _has_layers(value) else value for key, value in self.values.items()}

    def scope(self, node: Any) -> int:
        """Of names that belong to what a place in the program gives."""
        if node not in self.scopes:
            self.scopes[node] = new_scope()
        return self.scopes[node]

    # ---- by type --------------------------------------------------------------------------------------------------

    def of_type(self, type_: Type, node: Any, *, is_declared: bool = False) -> Value:
        """Return what the type of a value says, without sizes. A batch whose type was inferred may be a row."""
        proper = get_proper_type(type_)
        if is_array(proper) and isinstance(proper, Instance):
            return Array(None, None, proper.type.fullname != "numpy.ndarray")
        batch = self.batch_of_type(proper, node)
        if batch is not None:
            return batch
        if isinstance(proper, TupleType) and names_of_tuple(proper):
            return self.declared(proper, Record(proper.partial_fallback, self.scope(node)), node)
        if isinstance(proper, LiteralType) and type(proper.value) is int:
            return number(proper.value)
        if not isinstance(proper, Instance):
            return None
        if proper.type.fullname in ("builtins.float", "builtins.bool"):
            return Scalar()
        if proper.type.fullname == "builtins.int":
            final = node.node.final_value if isinstance(node, RefExpr) and isinstance(node.node, Var) else None
            return number(final) if type(final) is int else self._some_size(node)
        if not _is_users(proper.type):
            return None
        may_be_row = not (is_declared or isinstance(node, MemberExpr)) and is_batch(proper.type)
        return Record(proper, self.scope(node), reshaped=may_be_row)

    def batch_of_type(self, type_: Type, node: Any) -> Ref | None:
        """A batch of which only the type is known; None for what is not a batch."""
        batches = [one for one in alternatives(type_) if is_plain_batch(one)]
        if not batches:
            return None
        fields = content(batches[0]) if len(batches) == 1 else None
        fields = fields if fields is not None else Fields(rest=Rest.DECLARED)
        held = {name: Field(sure=name not in fields.maybe) for name in fields.known}
        return self.make((node, "type"), Content(held, fields.rest, escaped=True))

    def _some_size(self, node: Any) -> Size:
        text = node.name if isinstance(node, (NameExpr, MemberExpr, Var)) else "?"
        return named(Name(text, self.scope(node), opaque=True))  # it may be 0 or -1, which no axis is

    def declared(self, type_: Type, owner: Record, node: Any, depth: int = 3) -> Value:
        """What a declaration says of a value; the names in it belong to ``owner``. A type may be inside itself."""
        proper = get_proper_type(type_)
        declared = declared_by(proper)
        if declared is not None:
            return array_of(declared, owner, self.ranks, getattr(node, "name", ""))
        if not depth:
            return None
        if isinstance(proper, TupleType):
            names = names_of_tuple(proper)
            if names and not owner.called:
                owner = Record(proper.partial_fallback, self.scope(node))  # whose names are its own
            parts = enumerate(proper.items)
            return Several(tuple(self.declared(item, owner, (node, at), depth - 1) for at, item in parts), names=names)
        if isinstance(proper, Instance) and proper.type.fullname in _LOOPED and proper.args:
            item = self.declared(proper.args[0], owner, (node, "item"), depth - 1)
            return Many(each(item)) if item is not None else None
        return self.of_type(proper, node, is_declared=True)

    def rows_of(self, record: Record, type_: Type | None, node: Node, index: Value) -> Value:
        """Return some rows of a batch, with sizes unless it is a single row; None if the result is not a batch."""
        proper = get_proper_type(type_) if type_ is not None else None
        if not isinstance(proper, Instance) or not is_batch(proper.type) or not is_batch(record.type.type):
            return None
        return Record(proper, self.scope(node), {}, record, record.reshaped or not isinstance(index, (Span, Array)))


def names_of_tuple(type_: TupleType) -> tuple[str, ...]:
    """Return the names of the items of a named tuple; none for another tuple."""
    info = type_.partial_fallback.type
    fields = info.metadata.get("namedtuple", {}).get("fields") if info.is_named_tuple else None
    return tuple(fields or ())


def _met(one: Value, other: Value, decide: Decide) -> Value:
    """What is known of a name where two ways meet."""
    out = join(one, other)
    if isinstance(one, Ref) and isinstance(other, Ref) and isinstance(out, Ref) and one.objects != other.objects:
        return Ref(out.objects, decide(max(map(line_of, one.objects ^ other.objects))))
    return out


def line_of(site: Any) -> int:
    """The line at which an object was made."""
    while isinstance(site, tuple):
        site = site[0]
    return getattr(site, "line", 0)


def replaced(value: Value, old: Object, new: Object) -> Value:
    """A value in which one object has another name."""
    if isinstance(value, Several):
        return replace(value, items=tuple(replaced(item, old, new) for item in value.items))
    return replace(value, item=replaced(value.item, old, new)) if isinstance(value, Many) else renamed(value, old, new)


def _has_layers(value: Value) -> bool:
    if isinstance(value, Several):
        return any(map(_has_layers, value.items))
    return isinstance(value, (Layer, Layers)) or (isinstance(value, Many) and _has_layers(value.item))


def is_batch(info: TypeInfo) -> bool:
    """Is it a batch, a record, or a protocol of batches."""
    return info.has_base(BATCH) or any(base.fullname.endswith(".BatchProtocol") for base in info.mro)


def _is_users(info: TypeInfo) -> bool:
    """Is it a class whose fields may be declared: none of Python's, numpy's or torch's."""
    return info.fullname.partition(".")[0] not in ("builtins", "typing", "numpy", "torch", "collections", "types")


def field_declared(owner: Record, name: str) -> Declared | None:
    """What a class declares of a field in so many words; None for what was inferred, or does not hold any more."""
    info: TypeInfo = owner.type.type
    found = info.get(name)
    if found is None or owner.reshaped:
        return None
    type_ = _type_of_field(found.node)
    if type_ is None:
        return None
    mark, base = mark_of(info, name), info.get_containing_type_info(name)
    if mark is None or base is None:
        return declared_by(type_)
    actual = expand_type_by_instance(type_, map_instance_to_supertype(owner.type, base))
    return _marked(declared_by(actual), actual, mark)


def _type_of_field(node: object) -> Type | None:
    if isinstance(node, Var):
        return None if node.is_inferred else node.type
    if isinstance(node, Decorator) and isinstance(node.func.type, CallableType):
        return node.func.type.ret_type if node.func.is_property else None
    return None


def _marked(declared: Declared | None, actual: Type, mark: str) -> Declared | None:
    """Return what is declared of a field with a mark; a shape that its kind of array declares goes first."""
    if declared is None:
        proper = get_proper_type(actual)
        if not is_array(proper) or not isinstance(proper, Instance):
            return None
        declared = Declared(None, None, proper.type.fullname != "numpy.ndarray")
    return declared.marked(mark)


def rows_name(owner: Record) -> str | None:
    """The name of the first axis of a batch's fields; None if there is none, or several."""
    info: TypeInfo = owner.type.type
    names = {name for base in info.mro for name in base.names if not name.startswith("_")}
    firsts = {declared.rows for name in names if (declared := field_declared(owner, name)) is not None}
    return firsts.pop() if len(firsts) == 1 else None
