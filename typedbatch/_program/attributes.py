"""Attributes and items of values: reading and setting them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from typedbatch._program import array_members, batch_arrays, report, shapes
from typedbatch._program.arrays.creation import DRAWS
from typedbatch._program.arrays.tables import HOLDS_LAYERS, KEEPS_LAYER
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Layer, Span, bounds_of
from typedbatch._program.buffers import row_of
from typedbatch._program.classes import attribute_of, base_names, declared_fields, is_module, overrides_of
from typedbatch._program.containers import OF_TEXT
from typedbatch._program.fitting import fit_field
from typedbatch._program.frames import Call
from typedbatch._program.heap import BatchObject, BufferObject, DictObject, Field, InstanceObject, Key, ListObject
from typedbatch._program.judge import OF_VALUES, read_field
from typedbatch._program.machine import Machine
from typedbatch._program.outside import KEEPS_NOTHING
from typedbatch._program.shipped import GROUPS, MEMBERS, OF_GROUPS, shipped
from typedbatch._program.source import Source
from typedbatch._program.values import (
    ARRAY,
    UNKNOWN,
    Annotation,
    Array,
    Atom,
    Class,
    Code,
    Decorated,
    External,
    Factory,
    Function,
    Literal,
    Made,
    Member,
    Method,
    Module,
    Partial,
    Ragged,
    Ref,
    Result,
    Shaped,
    Super,
    Value,
    is_none,
    is_numeric,
    literal_of,
    union,
)  # fmt: skip
from typedbatch.batch import Batch

_KEPT_BY_ARRAYS: Final = ("T", "shape")
_OF_ANNOTATIONS: Final = frozenset({"jaxtyping", "numpy", "typedbatch", "typing", "typing_extensions"})
_OTHERS_NAMES: Final = (
    "append", "push", "insert", "store", "put", "draw", "sample_batch", "add_batch", "add_transition", "remember",
)  # fmt: skip
"""Names of the methods of other libraries' buffers."""
_OF_MODULES: Final = KEEPS_LAYER | {"register_buffer", "register_parameter", "add_module", "register_module"}
"""Methods of torch's modules that are followed."""
_RUN_WHEN_STARTED: Final = frozenset({"Process", "Thread"})
"""Classes of Python whose ``start`` calls ``run``."""


class Attributes(Machine):
    """A run that reads and sets attributes and items."""

    def call_special(self, instance: Ref, name: str, args: list[Value], node: ast.AST | None = None) -> Value | None:
        """Call a method of an instance by Python's own name for it; None if its class does not have it."""
        found = self.object_at(instance)
        method = attribute_of(found.owner, name) if isinstance(found, InstanceObject) else None
        return None if method is None else self.call(self.bound(method, instance, node), Call(args, node=node))

    def call_first_special(self, value: Value, names: Iterable[str], node: ast.AST | None) -> None:
        """Call the first of some special methods that the class of each instance has."""
        for atom in value:
            if isinstance(atom, Ref) and self.is_alive():
                for name in names:
                    if self.call_special(atom, name, [], node) is not None:
                        break

    def bound(self, attribute: Value, receiver: Atom, node: ast.AST | None) -> Value:
        """Return what an attribute of a class is when it is read of an instance."""
        return union(*(self._bound(atom, receiver, node) for atom in attribute)) or UNKNOWN

    def _bound(self, atom: Atom, receiver: Atom, node: ast.AST | None) -> Value:
        if isinstance(atom, Decorated) and isinstance(atom.function, Function):
            self.escape((receiver,))
            return (Decorated(Method(atom.function, receiver)),)
        if isinstance(atom, Result) and atom.name == "functools.partialmethod":
            self.escape((receiver,))
        if not isinstance(atom, Function):
            return (atom,)
        code = atom.code
        if code.kind == "static":
            return (atom,)
        if code.kind == "class":
            return (Method(atom, self._class_of(receiver, code)),)
        if code.kind not in ("property", "cached"):
            return (Method(atom, receiver),)
        value = self.call((Method(atom, receiver),), Call(node=node))
        if code.kind == "cached" and self.is_alive() and isinstance(receiver, Ref):
            self._set_of_instance(receiver, code.name, value, is_sure=True)
        return value

    def class_of(self, value: Value) -> Value:
        """Return the classes of instances, and anything for other values."""
        found = [self.object_at(atom) for atom in value]
        owners = [(one.owner,) if isinstance(one, InstanceObject) else UNKNOWN for one in found]
        is_sure = all(isinstance(one, InstanceObject) and not one.may_be_derived for one in found)
        return union(*owners, () if is_sure else UNKNOWN)

    def forget_attributes(self, ref: Ref) -> None:
        """Take it that the attributes of an instance may be anything else, too."""
        written = self.heap.write(ref)
        assert isinstance(written, InstanceObject)
        written.attributes = {name: union(value, UNKNOWN) for name, value in written.attributes.items()}
        self.escape((ref,))

    def _class_of(self, receiver: Atom, code: Code) -> Atom:
        found = self.object_at(receiver)
        if isinstance(found, InstanceObject):
            return found.owner
        if isinstance(found, BatchObject):
            return found.declared or code.owner or UNKNOWN[0]
        return receiver

    def attribute(self, value: Value, name: str, node: ast.AST | None) -> Value:
        """Read an attribute of a value."""
        found: list[Value] = []
        if any(self.is_batch(atom) for atom in value):
            found.append(read_field(self, value, name, node))
            value = tuple(atom for atom in value if not self.is_batch(atom))
        elif name in self.vocabulary.batch_fields - OF_VALUES and node is not None and all(map(shapes.is_array, value)):
            self.report(node, report.FIELD, f'An array has no field "{name}"', [name])
        found += [self._attribute_of(atom, name, node) for atom in value if not is_none(atom) and self.is_alive()]
        return union(*found) or UNKNOWN

    def _attribute_of(self, atom: Atom, name: str, node: ast.AST | None) -> Value:
        self.are_layers_changed |= name in HOLDS_LAYERS
        known = array_members.attribute(self, atom, name, node) if isinstance(atom, (Shaped, Made)) else None
        if known:
            return known
        found = self.object_at(atom)
        match atom:
            case Ref() if isinstance(found, InstanceObject):
                return self._attribute_of_instance(atom, found, name, node)
            case Ref():
                if isinstance(found, BufferObject) and not hasattr(found.type, name) and name in _OTHERS_NAMES:
                    self._report_member(found.type, name, node)
                if isinstance(found, BufferObject) and name == "columns":  # Fields may be set there.
                    self.escape((atom,))
                return (Member(atom, name),)
            case Class():
                return self._attribute_of_class(atom, name)
            case Module(source):
                return self.member_of_module(source, name)
            case External():
                return self._attribute_of_external(atom, name, node)
            case Result(full) if full.startswith("numpy") and (name == "choice" or name in DRAWS):
                return (External(f"numpy.random.{name}"),)
            case Result(full) if full == GROUPS and name in OF_GROUPS:
                return (External(f"{full}.{name}"),)
            case Result(full) if full.partition(".")[0] in KEEPS_NOTHING:
                return (Result(full),)
            case Ragged(values) if name == "values":
                return values
            case Super(owner, receiver):
                return self._attribute_of_super(owner, receiver, name, node)
            case Literal(str()) if name in OF_TEXT:
                return (Member(atom, name),)
            case Array():
                return ARRAY if name in _KEPT_BY_ARRAYS else (Result("numpy.member"),)
            case _:
                return UNKNOWN

    def _attribute_of_instance(self, ref: Ref, found: InstanceObject, name: str, node: ast.AST | None) -> Value:
        if name == "__class__":
            return self.class_of((ref,))
        if name == "__dict__":
            self.forget_attributes(ref)
            return UNKNOWN
        if attribute_of(found.owner, "__getattribute__"):
            self.escape((ref,))
            return UNKNOWN
        if name in found.attributes:
            return found.attributes[name]
        attribute = attribute_of(found.owner, name)
        if attribute is None and attribute_of(found.owner, "__getattr__"):
            self.escape((ref,))
        if attribute is None:
            if name in _OF_MODULES and is_module(found.owner):
                return (Member(ref, name),)
            if name == "start" and base_names(found.owner) & _RUN_WHEN_STARTED:
                self.start(self.bound(attribute_of(found.owner, "run") or UNKNOWN, ref, node), Call())
            return UNKNOWN
        if found.may_be_derived:
            attribute = union(attribute, *overrides_of(found.owner, name))
        return self.bound(tuple(one for one in attribute if not isinstance(one, Factory)) or UNKNOWN, ref, node)

    def _attribute_of_class(self, cls: Class, name: str) -> Value:
        found = attribute_of(cls, name)
        names = base_names(cls)
        if names & {"Enum", "Flag"} and not names & {"str", "int"}:
            if found is None or literal_of(found) is None:
                return UNKNOWN
            first = next((one for one, value in cls.attributes.items() if value == found), name)
            return (Member(cls, first),)  # A member is not its value, but that of the same value.
        if found is None:
            is_member = name in MEMBERS and declared_fields(cls) is not None
            return (Member(cls, name),) if is_member or name == "__new__" else UNKNOWN
        return tuple(
            Method(atom, cls)
            if isinstance(atom, Function) and atom.code.kind == "class"
            else UNKNOWN[0] if isinstance(atom, Factory) else atom
            for atom in found
        )  # fmt: skip

    def _attribute_of_external(self, external: External, name: str, node: ast.AST | None) -> Value:
        full = f"{external.name}.{name}"
        source = self.program.find(full, self.frame.source)
        if source is not None:
            return self.load(source)
        cls = shipped(external.name)
        if isinstance(cls, type) and issubclass(cls, Batch):
            if not hasattr(cls, name):
                self._report_member(cls, name, node)
            return (Member(external, name),)
        return (External(full),)

    def _attribute_of_super(self, owner: Class, receiver: Atom, name: str, node: ast.AST | None) -> Value:
        found = self.object_at(receiver)
        cls = found.owner if isinstance(found, InstanceObject) else receiver if isinstance(receiver, Class) else owner
        attribute = attribute_of(cls, name, after=owner)
        if attribute is None and name == "__setattr__":
            return (Partial((External("builtins.setattr"),), ((receiver,),), ()),)
        if attribute is None:
            return (External("builtins.object"),) if name == "__init__" else UNKNOWN
        return self.bound(attribute, receiver, node)

    def _report_member(self, cls: type, name: str, node: ast.AST | None) -> None:
        if node is not None:
            members = [one for one in dir(cls) if not one.startswith("_")]
            self.report(node, report.FIELD, report.not_a_member(cls.__name__, name, members), [name])

    def set_attribute(self, value: Value, name: str, given: Value, node: ast.AST | None = None) -> None:
        """Set an attribute of a value."""
        is_sure = self.is_one(value)
        for atom in value:
            found = self.object_at(atom)
            if not self.is_alive():
                return
            if isinstance(atom, Module):
                self.set_in_module(atom.source, name, given)
            elif isinstance(atom, Class):
                atom.attributes[name] = union(given, attribute_of(atom, name) or ())
            elif isinstance(found, BatchObject) and isinstance(atom, Ref):
                if name != "meta":
                    self._set_of_batch(atom, name, given, is_sure=is_sure, node=node)
            elif isinstance(found, InstanceObject) and isinstance(atom, Ref):
                if attribute_of(found.owner, "__setattr__") or self._is_set_by_class(found, name):
                    self.escape((*given, atom))
                    given = union(given, UNKNOWN)
                if self.call_special(atom, f"{name}.setter", [given]) is None:
                    self._set_of_instance(atom, name, given, is_sure=is_sure)
            elif isinstance(found, ListObject) and isinstance(atom, Ref):  # ``setattr(modules, "0", layer)``
                self._set_in_container(atom, UNKNOWN, given, is_only=False)
            elif isinstance(atom, (Shaped, Made)):
                array_members.set_attribute(self, atom, name, given)
                self.escape(given)
            elif atom in UNKNOWN or isinstance(atom, Result):
                held = shapes.lift(self, given)
                is_weight = name == "data" and isinstance(held, Known) and held.axes is not None
                self.are_layers_changed |= isinstance(held, Layer) or is_weight
                self.escape(given)

    def _is_set_by_class(self, instance: InstanceObject, name: str) -> bool:
        """Return whether what a class holds under a name may be a descriptor, which decides what is set."""
        for atom in attribute_of(instance.owner, name) or ():
            found = self.object_at(atom)
            has_set = isinstance(found, InstanceObject) and attribute_of(found.owner, "__set__") is not None
            if has_set or atom in UNKNOWN:
                return True
        return False

    def _set_of_batch(self, ref: Ref, name: str, given: Value, *, is_sure: bool, node: ast.AST | None) -> None:
        if is_sure:
            self.set_field(ref, name, given, node=node)
            fit_field(self, ref, name, node)
            return
        batch = self.batch_at(ref)
        before = batch.fields.get(name) if batch is not None else None
        value = given if before is None else union(given, before.value)
        self.set_field(ref, name, value, is_sure=before is not None and before.is_sure)

    def _set_of_instance(self, ref: Ref, name: str, given: Value, *, is_sure: bool) -> None:
        instance = self.heap.write(ref)
        assert isinstance(instance, InstanceObject)
        instance.attributes[name] = given if is_sure else union(given, instance.attributes.get(name, ()))

    def delete_attribute(self, value: Value, name: str, node: ast.AST) -> None:
        """Delete a field of what may be batches."""
        for atom in value:
            batch = self.batch_at(atom)
            if isinstance(found := self.object_at(atom), InstanceObject) and isinstance(atom, Ref):
                self._set_of_instance(atom, name, union(UNKNOWN, found.attributes.get(name, ())), is_sure=True)
            if batch is None or not isinstance(atom, Ref):
                continue
            if name not in batch.fields:
                read_field(self, value, name, node)
            elif self.is_one(value):
                del self.write_batch(atom).fields[name]
            else:
                self.write_batch(atom).fields[name] = Field(batch.fields[name].value, is_sure=False)

    # Items

    def item(self, value: Value, index: Value, syntax: ast.expr, node: ast.AST) -> Value:
        """Read an item of a value."""
        key = literal_of(index)
        name = key.value if key is not None and isinstance(key.value, str) else None
        batches = tuple(atom for atom in value if self.is_batch(atom))
        if batches and name is not None:
            if len(batches) == len(value):
                return read_field(self, value, name, node, is_item=True)
            return union(UNKNOWN, read_field(self, batches, name, node, is_asked=True))
        found: list[Value] = []
        for atom in value:
            if self.is_alive():
                found.append(self._item_of(atom, index, syntax, node))
        return union(*found) or UNKNOWN

    def _item_of(self, atom: Atom, index: Value, syntax: ast.expr, node: ast.AST) -> Value:
        key = literal_of(index)
        match self.object_at(atom):
            case BatchObject() as batch if isinstance(atom, Ref):
                if self._takes_rows(index, syntax):
                    rows = self.copy_batch(atom)
                    batch_arrays.changed(self, rows, batch_arrays.taken(self, index))
                    return (rows,)
                nested = [one for field in batch.fields.values() for one in field.value if self.is_batch(one)]
                return union((self.copy_batch(atom, may_be_field=True), *nested, *batch.rest))
            case ListObject() as found:
                if isinstance(syntax, ast.Slice):
                    span = shapes.lift(self, index)
                    bounds = bounds_of(span) if isinstance(span, Span) else None
                    is_known = found.items is not None and bounds is not None
                    items = found.items[bounds] if found.items is not None and bounds is not None else None
                    return self.list_of(items, () if is_known else found.any_item, is_tuple=found.is_tuple)
                at = key.value if key is not None and isinstance(key.value, int) else None
                if at is not None and found.items is not None and -len(found.items) <= at < len(found.items):
                    return found.items[at]
                return found.any_item or UNKNOWN
            case DictObject() as found:
                return self._item_of_dict(atom, found, key.value if key is not None else None, is_known=key is not None)
            case BufferObject():
                return (row_of(self, atom),)
            case InstanceObject() if isinstance(atom, Ref):
                return self.call_special(atom, "__getitem__", [index], node) or UNKNOWN
            case _ if (
                isinstance(atom, External)
                and atom.name.partition(".")[0] in _OF_ANNOTATIONS
                and isinstance(node, ast.expr)
            ):
                declared = self.declared_array(node)
                if declared is None and isinstance(node, ast.Subscript) and declared_fields(atom) is not None:
                    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                    return (External(atom.name, tuple(map(self.kinds_in, parts))),)
                return (atom,) if declared is None else (Annotation(declared),)
            case _:
                return (atom,) if isinstance(atom, (Array, Result, External, Class)) else UNKNOWN

    def _item_of_dict(self, atom: Atom, found: DictObject, key: Key, *, is_known: bool) -> Value:
        if is_known and key in found.items:
            return found.items[key]
        if found.has_default and isinstance(atom, Ref):
            if is_known:
                written = self.heap.write(atom)
                assert isinstance(written, DictObject)
                written.items[key] = found.rest
            return found.any_value or UNKNOWN
        return (found.any_value if found.items and not is_known else found.rest) or UNKNOWN

    def set_item(self, value: Value, index: Value, given: Value, syntax: ast.expr, node: ast.AST) -> None:
        """Set an item of a value."""
        key = literal_of(index)
        for atom in value:
            found = self.object_at(atom)
            if not self.is_alive():
                return
            if isinstance(atom, Made):
                self.are_layers_changed = True
            if not isinstance(atom, Ref):
                array_members.set_item(self, (atom,), index, given, node)
                self.escape(given)
            elif isinstance(found, BatchObject):
                if key is not None and isinstance(key.value, str):
                    self.set_attribute(value, key.value, given, node)
                    return
                if not self._takes_rows(index, syntax):
                    self.open_batch(atom, given)
            elif isinstance(found, InstanceObject):
                if self.call_special(atom, "__setitem__", [index, given]) is None:
                    self.escape(given)
            else:
                self._set_in_container(atom, index, given, is_only=self.is_one(value))

    def _set_in_container(self, ref: Ref, index: Value, given: Value, *, is_only: bool) -> None:
        found, key = self.heap.write(ref), literal_of(index)
        if isinstance(found, ListObject):
            found.element, found.items = union(found.any_item, given), None
        elif isinstance(found, DictObject) and key is not None:
            found.items[key.value] = given if is_only else union(given, found.items.get(key.value, ()))
            found.is_exact = found.is_exact and is_only
        elif isinstance(found, DictObject):
            found.rest, found.is_exact = union(found.rest, given), False

    def _takes_rows(self, index: Value, syntax: ast.expr) -> bool:
        """Return whether an index selects rows of a batch, and not a field."""
        if isinstance(syntax, ast.BinOp) and not isinstance(syntax.op, (ast.Add, ast.Mod, ast.Mult)):
            return True  # No other operator makes text.
        if isinstance(syntax, (ast.Slice, ast.Tuple, ast.UnaryOp, ast.List, ast.Compare)):
            return True
        lists = [found for atom in index if isinstance(found := self.object_at(atom), ListObject)]
        items = [union(one.any_item) for one in lists] if len(lists) == len(index) else [index]
        return all(item and all(map(is_numeric, item)) for item in items)

    # Modules

    def member_of_module(self, source: Source, name: str) -> Value:
        """Return a variable or submodule of a module of the program."""
        raise NotImplementedError

    def set_in_module(self, source: Source, name: str, value: Value) -> None:
        """Set a variable of a module of the program from outside of it."""
        raise NotImplementedError

    def load(self, source: Source) -> Value:
        """Run the top of a module, unless it has run, and return the module."""
        raise NotImplementedError
