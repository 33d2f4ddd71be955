"""Objects that a run makes, reads and changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any, Final

from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.frames import Frame
from typedbatch._program.heap import (
    BatchObject,
    Condition,
    DictObject,
    Field,
    Heap,
    InstanceObject,
    ListObject,
    Object,
    Place,
    ScopeObject,
)  # fmt: skip
from typedbatch._program.values import (
    ARRAY,
    UNKNOWN,
    Array,
    Atom,
    Class,
    External,
    Literal,
    Ref,
    Result,
    Shaped,
    Value,
    is_numeric,
    text_of,
    union,
)  # fmt: skip

_MOST_COPIED: Final = 50
"""Batches within a batch that is copied. Those of a tree that grows in a loop would be more with each round."""


class Objects:
    """A heap, and the calls that the run is in, which make the objects on it.

    Attributes:
        guards: Number of each condition that the run is behind, outermost first; those of loops are negative.
        certain: Guards of the rounds of loops whose rounds are all known.
        many: Objects that stand for several, as the element of a list of any length: what is done to one of them is not
            done to all.
    """

    def __init__(self) -> None:
        self.heap = Heap()
        self.frames: list[Frame] = []
        self.guards: tuple[int, ...] = ()
        self.certain: set[int] = set()
        self.many: set[Atom] = set()

    @property
    def frame(self) -> Frame:
        """The call that the run is in."""
        return self.frames[-1]

    def is_certain(self) -> bool:
        """Return whether the run comes to where it is exactly as often as the program."""
        return all(guard in self.certain for guard in self.guards)

    def round(self) -> int:
        """Return the number of the innermost round of a loop, or 0."""
        return next((guard for guard in reversed(self.guards) if guard < 0), 0)

    def object_at(self, atom: Atom) -> Object | None:
        """Return the object of a reference; None for other atoms."""
        return self.heap.read(atom) if isinstance(atom, Ref) else None

    def batch_at(self, atom: Atom) -> BatchObject | None:
        """Return the batch of a reference; None for other atoms."""
        found = self.object_at(atom)
        return found if isinstance(found, BatchObject) else None

    def is_batch(self, atom: Atom) -> bool:
        """Return whether an atom is a batch."""
        return isinstance(self.object_at(atom), BatchObject)

    def write_batch(self, ref: Ref) -> BatchObject:
        """Return a batch to be changed."""
        found = self.heap.write(ref)
        assert isinstance(found, BatchObject)
        return found

    def open_batch(self, ref: Ref, rest: Value = ()) -> None:
        """Take it that a batch may have any other field.

        Args:
            ref: The batch.
            rest: What such fields may be, if that is known.
        """
        rest = tuple(self.stored(atom) for atom in rest)
        self.stand_for_several(rest)
        written = self.write_batch(ref)
        written.rest = union(written.rest, rest) if rest and (written.rest or not written.is_open) else ()
        written.is_open, written.is_annotated, written.is_typed = True, False, False

    def write_scope(self, ref: Ref) -> ScopeObject:
        """Return a scope to be changed."""
        found = self.heap.write(ref)
        assert isinstance(found, ScopeObject)
        return found

    def scope(self, parent: Ref | None) -> Ref:
        """Make a scope."""
        return self.heap.add(ScopeObject({}, parent))

    def list_of(
        self, items: Iterable[Value] | None, element: Value = (), generator: int = 0, *, is_tuple: bool = False
    ) -> Value:
        """Make a list of items, or of any number of an element."""
        known = None if items is None else tuple(items)
        if known is None:
            self.stand_for_several(element)
        return (self.heap.add(ListObject(known, union(element, *(known or ())), generator, is_tuple)),)

    def dict_of(self, items: Mapping[Any, Value], *, is_exact: bool = True, rest: Value = ()) -> Value:
        """Make a dict."""
        self.stand_for_several(rest)
        return (self.heap.add(DictObject(dict(items), is_exact, rest)),)

    def stand_for_several(self, value: Value) -> None:
        """Take it that each object of a value, and what it holds, stands for several."""
        for atom in value:
            if isinstance(atom, Ref) and atom not in self.many:
                self.many.add(atom)
                match self.heap.read(atom):
                    case BatchObject() as found:
                        self.stand_for_several(tuple(one for field in found.fields.values() for one in field.value))
                    case ListObject() as found:
                        self.stand_for_several(found.any_item)
                    case DictObject() as found:
                        self.stand_for_several(found.any_value)
                    case InstanceObject() as found:
                        self.stand_for_several(union(*found.attributes.values()))
                    case _:
                        pass

    def batch(
        self,
        fields: Mapping[str, Value] | None = None,
        *,
        is_open: bool = False,
        declared: Class | External | None = None,
        node: ast.AST | None = None,
    ) -> Ref:
        """Make a batch."""
        place = Place(self.frame.source, node) if node is not None else None
        made = BatchObject(
            {}, is_open, declared=declared, activation=self.frame.number, round=self.round(), place=place,
            guards=self.guards,
        )  # fmt: skip
        ref = self.heap.add(made)
        for name, value in (fields or {}).items():
            self.set_field(ref, name, value)
        return ref

    def set_field(
        self,
        ref: Ref,
        name: str,
        value: Value,
        *,
        is_sure: bool = True,
        condition: Condition | None = None,
        node: ast.AST | None = None,
    ) -> None:
        """Set a field of a batch, where a dict becomes a batch."""
        place = Place(self.frame.source, node) if node is not None else None
        value, fields = tuple(self.stored(atom) for atom in value), self.write_batch(ref).fields
        if ref in self.many:
            before = fields.get(name)
            value = value if before is None else union(value, before.value)
            is_sure = is_sure and before is not None and before.is_sure
        fields[name] = Field(value, is_sure, condition, place, activation=self.frame.number)

    def stored(self, atom: Atom) -> Atom:
        """Return what a field holds after it was set: a batch in place of a dict."""
        found = self.object_at(atom)
        if isinstance(found, DictObject):
            made = self.batch({str(key): value for key, value in found.items.items()})
            if not found.is_exact:
                self.open_batch(made, found.rest)
            return made
        if isinstance(atom, Literal) and is_numeric(atom):
            return ARRAY[0]  # It may be changed in place.
        if isinstance(atom, Shaped):
            return atom if isinstance(atom.held, Known) else ARRAY[0]
        if found is None or isinstance(found, (BatchObject, InstanceObject)):
            return atom
        return self._stacked(found) if isinstance(found, ListObject) else UNKNOWN[0]

    def _stacked(self, found: ListObject) -> Atom:
        """Return what a field holds after it was set to a list: a batch of rows, an array of numbers, or anything."""
        if self._is_of_numbers(found):
            return Shaped(Known(None, None, torch=False))
        rows = [self.batch_at(self.stored(atom)) for atom in found.any_item]
        known = [row for row in rows if row is not None]
        if not known or len(known) < len(rows):
            return UNKNOWN[0]
        made = self.batch(is_open=any(row.is_open for row in known))
        for name in dict.fromkeys(name for row in known for name in row.fields):
            values = union(*(row.fields[name].value for row in known if name in row.fields))
            self.set_field(made, name, values if all(map(self.is_batch, values)) else UNKNOWN)
        return made

    def _is_of_numbers(self, found: ListObject, depth: int = 3) -> bool:
        """Return whether a list holds nothing else than numbers, or lists of these."""
        held = [(atom, self.object_at(atom)) for atom in found.any_item]
        return bool(held) and all(
            (isinstance(atom, Literal) and is_numeric(atom))
            or (isinstance(inner, ListObject) and depth > 0 and self._is_of_numbers(inner, depth - 1))
            for atom, inner in held
        )

    def copied(self, value: Value, *, is_typed: bool = True) -> Value:
        """Return copies of batches, and anything in place of other things."""
        return tuple(
            self.copy_batch(atom, is_typed=is_typed) if isinstance(atom, Ref) and self.is_batch(atom) else UNKNOWN[0]
            for atom in value
        )

    def copy_batch(self, ref: Ref, *, is_typed: bool = True, may_be_field: bool = False, group: int = 0) -> Ref:
        """Return a copy of a batch, with copies of the batches in it."""
        copied = self._copy(ref, {})
        written = self.write_batch(copied)
        written.may_be_field |= may_be_field
        written.group = group or written.group
        if not is_typed:
            written.declared, written.is_typed = None, False
        return copied

    def _copy(self, ref: Ref, done: dict[Ref, Ref]) -> Ref:
        """Copy a batch, and each batch in it once, however often it is there."""
        found = self.batch_at(ref)
        assert found is not None
        copied = found.copy()
        copied.activation, copied.round, copied.guards = self.frame.number, self.round(), self.guards
        done[ref] = added = self.heap.add(copied)
        for name, one in copied.fields.items():
            if any(map(self.is_batch, one.value)):
                copied.fields[name] = one._replace(value=self._copies(one.value, done))
        copied.rest = self._copies(copied.rest, done)
        self.stand_for_several(copied.rest)
        return added

    def _copies(self, value: Value, done: dict[Ref, Ref]) -> Value:
        if len(done) > _MOST_COPIED:
            return UNKNOWN
        return tuple(
            done.get(atom) or self._copy(atom, done) if isinstance(atom, Ref) and self.is_batch(atom) else atom
            for atom in value
        )

    def is_plain(self, value: Value) -> bool:
        """Return whether a value holds no batch and no function: arrays, constants, and lists of these but of text."""
        for atom in value:
            found = self.object_at(atom)
            if isinstance(found, ListObject):
                if not self.is_plain(found.any_item) or any(text_of((one,)) is not None for one in found.any_item):
                    return False
            elif isinstance(atom, External):
                if not atom.name.startswith(("numpy.", "torch.", "builtins.bool", "builtins.int", "builtins.float")):
                    return False
            elif not isinstance(atom, (Array, Literal, Result)) and atom not in UNKNOWN:
                return False
        return True

    def is_one(self, value: Value) -> bool:
        """Return whether a value is one object, or one element of an iteration, which may be any of several batches."""
        if len(value) == 1:
            return value[0] not in self.many
        found = [self.batch_at(atom) for atom in value]
        groups = {one.group if one is not None else 0 for one in found}
        return len(groups) == 1 and groups != {0}
