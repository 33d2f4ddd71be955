"""Values of a run as they are at one moment, without the objects of the run."""

from __future__ import annotations

from typing import Final, NamedTuple

from typedbatch._lsp.declarations import Declarations
from typedbatch._lsp.places import BATCH, DECLARED, LIBRARY, NONE, OTHER, UNKNOWN, Field, Seen, Site, joined, site_of
from typedbatch._program.arrays.sizes import Size
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Scalar
from typedbatch._program.classes import attribute_of, declared_fields
from typedbatch._program.heap import BatchObject, BufferObject, DictObject, InstanceObject, ListObject, Object
from typedbatch._program.heap import Field as HeapField
from typedbatch._program.machine import Machine
from typedbatch._program.shipped import shipped
from typedbatch._program.values import (
    Atom,
    Class,
    Code,
    External,
    Function,
    Kind,
    Literal,
    Method,
    Ragged,
    Ref,
    Shaped,
    Unknown,
    Value,
    is_none,
)  # fmt: skip
from typedbatch.batch import Batch

_DEEPEST: Final = 3
"""Batches within each other that are shown."""


class _Given(NamedTuple):
    """A value that a field was set to.

    Attributes:
        site: Node that sets it.
        kind: Name of the type that it has before it becomes an array; empty if it is not known.
    """

    site: Site
    kind: str


class Snapshots:
    """Values of a run as they are at one moment.

    Batches that have not changed since are not gone through again.

    Args:
        machine: The run.

    Attributes:
        declarations: Annotations of the fields of records and protocols.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._given: dict[Ref, dict[str, _Given]] = {}
        self.declarations = Declarations()
        self._of_code: dict[Code, Seen] = {}
        self._of_batch: dict[Ref, tuple[dict[str, HeapField], bool, dict[str, Seen], Seen]] = {}

    def give(self, ref: Ref, name: str, value: Value, site: Site) -> None:
        """Take note of the value that a field is set to, and of where."""
        self._given.setdefault(ref, {})[name] = _Given(site, self.of(value).kind)
        self._of_batch.pop(ref, None)

    def copy(self, ref: Ref, copied: Ref) -> None:
        """Take note that a batch is a copy of another."""
        if ref in self._given:
            self._given[copied] = dict(self._given[ref])

    def of(self, value: Value, depth: int = 0) -> Seen:
        """Return a value as it is now."""
        found = self._of_atom(value[0], depth) if value else UNKNOWN
        for atom in value[1:]:
            found = joined(found, self._of_atom(atom, depth))
        return found

    def _of_atom(self, atom: Atom, depth: int) -> Seen:
        match atom:
            case Unknown():
                return UNKNOWN
            case Ref():
                return self._of_object(atom, self._machine.heap.read(atom), depth)
            case Literal() if is_none(atom):
                return NONE
            case Shaped(held=Known() as array):
                return Seen(array=array)
            case Function(code) | Method(Function(code)):
                return self._function(code)
            case Class() | External():
                return self._class(atom)
            case Literal():
                return Seen(kind=atom.type.__name__)
            case Shaped(held=Size()):
                return Seen(kind="int")
            case Shaped(held=Scalar()):
                return Seen(kind="float")
            case Ragged():
                return Seen(kind="Ragged")
            case _:
                return OTHER

    def _function(self, code: Code) -> Seen:
        if code not in self._of_code:
            args = code.node.args
            names = frozenset(one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs))
            self._of_code[code] = Seen(parameters=names if args.kwarg is None else None)
        return self._of_code[code]

    def _class(self, cls: Class | External) -> Seen:
        """Return a class, or another thing that is imported."""
        if isinstance(cls, External):
            found = shipped(cls.name)
            if found is Batch:
                return Seen(kind=BATCH)
            is_library = cls.name.startswith(("numpy.", "torch."))
            is_declared = isinstance(found, type) and declared_fields(cls) is not None
            return Seen(kind=DECLARED) if is_declared else Seen(kind=LIBRARY) if is_library else OTHER
        if declared_fields(cls) is not None:
            return Seen(kind=DECLARED)
        for atom in attribute_of(cls, "__init__") or ():
            if isinstance(atom, Function):
                return self._function(atom.code)
        return Seen(parameters=frozenset(cls.fields))

    def _of_object(self, ref: Ref, found: Object | None, depth: int) -> Seen:
        match found:
            case BatchObject() if depth <= _DEEPEST:
                return self._batch(ref, found, depth)
            case ListObject():
                return Seen(kind="tuple" if found.is_tuple else "list")
            case DictObject():
                return Seen(kind="dict")
            case InstanceObject():
                return Seen(kind=found.owner.name)
            case BufferObject():
                return Seen(kind=found.type.__name__)
            case _:
                return UNKNOWN

    def _batch(self, ref: Ref, batch: BatchObject, depth: int) -> Seen:
        nested = {
            name: self.of(one.value, depth + 1)
            for name, one in batch.fields.items()
            if any(isinstance(atom, Ref) for atom in one.value)
        }
        before = self._of_batch.get(ref)
        if before is not None and before[0] == batch.fields and before[1] == batch.is_open and before[2] == nested:
            return before[3]
        given = self._given.get(ref, {})
        fields = {
            name: self._field(name, one, given.get(name), nested.get(name))
            for name, one in batch.fields.items()
            if not one.is_assumed
        }
        place = batch.place
        site = frozenset[Site]() if place is None else frozenset({site_of(str(place.source.path), place.node)})
        seen = Seen(fields=fields, is_open=batch.is_open, sites=site)
        if batch.declared is not None:
            seen = self.declarations.of(seen, Kind(batch.declared, (None,)))  # Type arguments are not known here.
        self._of_batch[ref] = dict(batch.fields), batch.is_open, nested, seen
        return seen

    def _field(self, name: str, field: HeapField, given: _Given | None, nested: Seen | None) -> Field:
        value = self.of(field.value) if nested is None else nested
        sites = frozenset[Site]()
        if field.place is not None:
            sites = frozenset({site_of(str(field.place.source.path), field.place.node)})
        elif given is not None:
            sites = frozenset({given.site})
        if given is not None and given.kind and value.fields is None and value.array is None and not value.kind:
            value = Seen(kind=given.kind)
        return Field(name, value, field.is_sure, sites)
