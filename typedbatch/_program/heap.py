"""The heap of a run: objects, and layers of changes, one for each branch that the run is in.

A branch begins a layer, and ends it with its changes; the heap is then as before, and the changes of branches are
joined and applied. So a branch costs what is written in it, however many objects there are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from typedbatch._program.classes import attribute_of
from typedbatch._program.source import Source
from typedbatch._program.values import UNKNOWN, Atom, Class, External, Factory, Function, Ref, Value, union


class Place(NamedTuple):
    """A node of a module."""

    source: Source
    node: ast.AST


class Condition(NamedTuple):
    """The ``if`` on which a field depends.

    Attributes:
        guards: Conditions around the ``if``, outermost first.
        exits: Number of early exits that the run had seen.
        activation: The call that the ``if`` is in.
        round: The round of a loop that it is in, or 0.
        place: Where the field is set.
    """

    guards: tuple[int, ...]
    exits: int
    activation: int
    round: int
    place: Place | None = None


class Field(NamedTuple):
    """A field of a batch.

    Attributes:
        value: What the field may be.
        is_sure: Whether every way here has set it.
        condition: The one ``if`` that decides whether it is set, if that is known.
        place: Where it is set.
        is_assumed: Whether nothing sets it, and the run goes on as if something did, after its report.
        activation: The call that set it.
    """

    value: Value
    is_sure: bool = True
    condition: Condition | None = None
    place: Place | None = None
    is_assumed: bool = False
    activation: int = 0


@dataclass(slots=True)
class BatchObject:
    """A batch.

    Attributes:
        is_open: Whether it may have other fields, too.
        is_annotated: Whether its annotation alone says which fields it has, which holds for reads, too.
        is_typed: Whether the types of the program say which attributes it has; it may have other fields, by item.
        declared: The record or protocol that it is.
        may_be_field: Whether it may be the value of a field instead, as ``batch[key]`` is for an unknown key.
        activation: The call that made it.
        round: The round of a loop in which it is made, or 0.
        group: Number of one element of an iteration; batches of the same number are alternatives.
        place: Where it is made.
        rest: What its other fields may be, if it is open and that is known; else no atoms.
        guards: Conditions that the run was behind where it is made.
    """

    fields: dict[str, Field]
    is_open: bool = False
    is_annotated: bool = False
    declared: Class | External | None = None
    may_be_field: bool = False
    activation: int = 0
    round: int = 0
    group: int = 0
    place: Place | None = None
    rest: Value = ()
    guards: tuple[int, ...] = ()
    is_typed: bool = False

    @property
    def may_be_empty(self) -> bool:
        """True if it may be without fields, and so without rows."""
        return not self.is_open and not any(field.is_sure for field in self.fields.values())

    @property
    def names(self) -> set[str]:
        """Names of the fields that something sets."""
        return {name for name, field in self.fields.items() if not field.is_assumed}

    def copy(self) -> BatchObject:
        """Return a copy, whose dict is another."""
        return BatchObject(
            dict(self.fields), self.is_open, self.is_annotated, self.declared, self.may_be_field, self.activation,
            self.round, self.group, self.place, self.rest, self.guards, self.is_typed,
        )  # fmt: skip


@dataclass(slots=True)
class ListObject:
    """A list, tuple, set, queue or iterator.

    Attributes:
        items: Each item, if they are known one by one.
        element: What any other item may be; no atoms if there is none.
        generator: The call of a generator that yields the elements; 0 for others.
        is_tuple: Whether it is certainly a tuple, which picks one element of an array where a list picks several.
    """

    items: tuple[Value, ...] | None
    element: Value
    generator: int = 0
    is_tuple: bool = False

    def copy(self) -> ListObject:
        """Return a copy."""
        return ListObject(self.items, self.element, self.generator, self.is_tuple)

    @property
    def any_item(self) -> Value:
        """Value of any item; no atoms if there is none."""
        return union(self.element, *(self.items or ()))


Key = str | int | float | None
K = TypeVar("K")


@dataclass(slots=True)
class DictObject:
    """A dict.

    Attributes:
        items: Values of the keys that are known.
        is_exact: Whether there are no other keys.
        rest: What the values of other keys may be.
        has_default: Whether a key that is not there is made, as in a defaultdict.
    """

    items: dict[Key, Value]
    is_exact: bool = True
    rest: Value = ()
    has_default: bool = False

    def copy(self) -> DictObject:
        """Return a copy, whose dict is another."""
        return DictObject(dict(self.items), self.is_exact, self.rest, self.has_default)

    @property
    def any_value(self) -> Value:
        """Value of any key; no atoms if there is none."""
        return union(*self.items.values(), self.rest)


@dataclass(slots=True)
class InstanceObject:
    """An instance of a class of the program.

    Attributes:
        may_be_derived: Whether it may be of a derived class.
    """

    owner: Class
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    may_be_derived: bool = False

    def copy(self) -> InstanceObject:
        """Return a copy, whose dict is another."""
        return InstanceObject(self.owner, dict(self.attributes), self.may_be_derived)


@dataclass(slots=True)
class BufferObject:
    """A replay buffer: its class, and the batches that were added."""

    type: type
    rows: Value = ()

    def copy(self) -> BufferObject:
        """Return a copy."""
        return BufferObject(self.type, self.rows)


@dataclass(slots=True)
class ScopeObject:
    """The variables of a module, a function or a comprehension.

    Attributes:
        parent: The scope around it.
        elsewhere: Scopes of the names that are declared global or nonlocal.
    """

    names: dict[str, Value]
    parent: Ref | None = None
    elsewhere: dict[str, Ref] = field(default_factory=dict[str, Ref])

    def copy(self) -> ScopeObject:
        """Return a copy, whose dicts are others."""
        return ScopeObject(dict(self.names), self.parent, dict(self.elsewhere))


Object = BatchObject | ListObject | DictObject | InstanceObject | BufferObject | ScopeObject
Changes = dict[Ref, Object]


class _Layer:
    """Objects as they were before each change of a branch, and those that it may change in place."""

    __slots__ = ("before", "owned")

    def __init__(self) -> None:
        self.before: dict[Ref, Object | None] = {}
        self.owned: set[Ref] = set()


class Heap:
    """Objects by reference.

    Attributes:
        is_alive: False after an exit from the branch, until it ends.
        writer: Number of the call that writes.
        shared: Objects that another call wrote than the one that made them.
        let_go: Objects that others may change, and that nothing has written to since.
    """

    def __init__(self) -> None:
        self._objects: Changes = {}
        self._layers = [_Layer()]
        self.is_alive = True
        self.writer = 0
        self.shared: dict[Ref, None] = {}
        self.let_go: set[Ref] = set()

    def before(self, ref: Ref) -> Object | None:
        """Return an object as it was before the innermost branch."""
        before = self._layers[-1].before
        return before[ref] if ref in before else self._objects.get(ref)

    def add(self, made: Object) -> Ref:
        """Add an object."""
        ref = Ref(self.writer)
        self._set(ref, made)
        self._layers[-1].owned.add(ref)
        return ref

    def read(self, ref: Ref) -> Object | None:
        """Return an object, which must not be changed; None if it was made in a branch that has been undone."""
        return self._objects.get(ref)

    def holders(self, atom: Atom) -> list[tuple[Ref, Object]]:
        """Return the objects that hold an atom."""
        return [
            (ref, found) for ref, found in self._objects.items() if any(atom in value for value in _values_in(found))
        ]

    def write(self, ref: Ref) -> Object:
        """Return an object to be changed, which is a copy unless the branch has its own already."""
        layer = self._layers[-1]
        self.let_go.discard(ref)
        if ref.maker != self.writer:
            self.shared[ref] = None
        if ref not in layer.owned:
            self._set(ref, self._objects[ref].copy())
            layer.owned.add(ref)
        return self._objects[ref]

    def begin(self) -> int:
        """Begin a branch, and return its mark."""
        self._layers.append(_Layer())
        return len(self._layers) - 1

    def end(self, mark: int) -> Changes | None:
        """End a branch and those in it; return what it has changed, or None if the run has left it."""
        changes = self.since(mark) if self.is_alive else None
        for layer in reversed(self._layers[mark:]):
            self.let_go.difference_update(layer.before)
            for ref, before in layer.before.items():
                if before is None:
                    del self._objects[ref]
                else:
                    self._objects[ref] = before
        del self._layers[mark:]
        self.is_alive = True
        return changes

    def since(self, mark: int) -> Changes:
        """Return all that was changed since a branch began. It is not changed in place by what follows."""
        changes: Changes = {}
        for layer in self._layers[mark:]:
            layer.owned.clear()
            for ref in layer.before:
                changes[ref] = self._objects[ref]
        return changes

    def apply(self, changes: Changes | None) -> None:
        """Make the changes of branches, which are joined; None if every branch has been left."""
        if changes is None:
            self.is_alive = False
            return
        owned = self._layers[-1].owned
        for ref, changed in changes.items():
            self._set(ref, changed)
            owned.discard(ref)

    def join(self, one: Changes | None, other: Changes | None, condition: Condition | None = None) -> Changes | None:
        """Return what holds after either of two branches that began here.

        Args:
            one: Changes of a branch; None if it has been left.
            other: Changes of the other.
            condition: The ``if`` that they are the branches of, where a field may depend on it.
        """
        if one is None or other is None:
            return other if one is None else one
        joined = dict(one)
        for ref, changed in other.items():
            mine = one.get(ref) or self._objects.get(ref)
            joined[ref] = changed if mine is None else _joined(mine, changed, condition)
        for ref, changed in one.items():
            base = None if ref in other else self._objects.get(ref)
            if base is not None:
                joined[ref] = _joined(changed, base, condition)
        return joined

    def keep(self, changes: Changes) -> None:
        """Make changes, of which those of new objects are never undone."""
        new = {ref: made for ref, made in changes.items() if ref not in self._objects}
        self._objects |= new
        self.apply({ref: changed for ref, changed in changes.items() if ref not in new})

    def _set(self, ref: Ref, changed: Object) -> None:
        self.let_go.discard(ref)
        self._layers[-1].before.setdefault(ref, self._objects.get(ref))
        self._objects[ref] = changed


def _values_in(found: Object) -> Iterable[Value]:
    match found:
        case ScopeObject():
            return found.names.values()
        case BatchObject():
            return [field.value for field in found.fields.values()]
        case InstanceObject():
            return found.attributes.values()
        case ListObject():
            return (found.any_item,)
        case DictObject():
            return (found.any_value,)
        case _:
            return ()


def _joined(one: Object, other: Object, condition: Condition | None) -> Object:
    """Return the object that may be either. Both have the same class, as an object never changes its own."""
    if one is other:
        return one
    joined = one.copy()
    if isinstance(joined, BatchObject) and isinstance(other, BatchObject):
        if condition is not None and (joined.activation, joined.round) != (condition.activation, condition.round):
            condition = None
        joined.may_be_field |= other.may_be_field
        joined.fields = dict(_joined_fields(joined, other, condition))
        rests = [batch.rest for batch in (one, other) if isinstance(batch, BatchObject) and batch.is_open]
        joined.rest = union(*rests) if all(rests) else ()
        joined.is_open |= other.is_open
        joined.is_annotated &= other.is_annotated
        joined.is_typed &= other.is_typed
    elif isinstance(joined, ListObject) and isinstance(other, ListObject):
        joined.element = union(joined.element, other.element)
        if joined.items != other.items:
            joined.element, joined.items = union(joined.any_item, other.any_item), None
    elif isinstance(joined, DictObject) and isinstance(other, DictObject):
        joined.rest = union(joined.rest, other.rest)
        joined.is_exact &= other.is_exact and joined.items.keys() == other.items.keys()
        joined.items = _joined_values(joined.items, other.items)
    elif isinstance(joined, InstanceObject) and isinstance(other, InstanceObject):
        inherited = {name: _inherited(one, name) for name in joined.attributes.keys() ^ other.attributes.keys()}
        joined.attributes = _joined_values(joined.attributes, other.attributes)
        joined.attributes.update({name: union(joined.attributes[name], more) for name, more in inherited.items()})
    elif isinstance(joined, BufferObject) and isinstance(other, BufferObject):
        joined.rows = union(joined.rows, other.rows)
    elif isinstance(joined, ScopeObject) and isinstance(other, ScopeObject):
        joined.names = _joined_values(joined.names, other.names)
        joined.elsewhere |= other.elsewhere
    return joined


def _inherited(instance: Object, name: str) -> Value:
    """Return what an attribute that is not set of an instance is by its class."""
    found = attribute_of(instance.owner, name) if isinstance(instance, InstanceObject) else None
    return tuple(UNKNOWN[0] if isinstance(atom, (Factory, Function)) else atom for atom in found or ())


def _joined_fields(one: BatchObject, other: BatchObject, condition: Condition | None) -> Iterator[tuple[str, Field]]:
    for name in one.fields | other.fields:
        mine, theirs = one.fields.get(name), other.fields.get(name)
        if mine is None or theirs is None:
            found = mine or theirs or Field(UNKNOWN)
            if (other if theirs is None else one).is_open:
                found = found._replace(value=union(found.value, UNKNOWN))
            if condition is not None:
                condition = condition._replace(place=found.place or condition.place)
            yield name, found._replace(is_sure=False, condition=condition if found.is_sure else found.condition)
        elif mine is theirs:
            yield name, mine
        else:
            value, place = union(mine.value, theirs.value), mine.place or theirs.place
            unsure = [found.condition for found in (mine, theirs) if not found.is_sure]
            # Another call may have set it again on one branch.
            is_here = len(unsure) == 2 or mine.activation == theirs.activation
            same = unsure[0] if unsure and is_here and all(found == unsure[0] for found in unsure) else None
            yield name, Field(value, not unsure, same, place, activation=min(mine.activation, theirs.activation))


def _joined_values(one: dict[K, Value], other: dict[K, Value]) -> dict[K, Value]:
    joined = dict(one)
    for name, theirs in other.items():
        mine = one.get(name, ())
        if mine is not theirs:
            joined[name] = union(mine, theirs)
    return joined
