"""Fields of records beside their declared shapes: what does not fit, and what a declaration adds."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from typedbatch._program.arrays.declared import Declared, array_of, bind
from typedbatch._program.arrays.sizes import Size
from typedbatch._program.arrays.values import Array, MismatchError, Record
from typedbatch._program.classes import declared_arrays, library_of, name_of
from typedbatch._program.frames import Call
from typedbatch._program.heap import Field
from typedbatch._program.machine import Machine
from typedbatch._program.shapes import lift, lower
from typedbatch._program.values import UNKNOWN, Class, External, Kind, Ref


def fit_fields(machine: Machine, batch: Ref, cls: Class | External, call: Call) -> None:
    """Report fields of a new record that are not as it declares them, and set the shapes that it declares."""
    declared = declared_arrays(cls)
    if not declared:
        return
    arrays = _arrays_in(machine, batch)
    sizes: dict[str, Size | None] = {}
    owner = Record(machine.next_frame(), sizes, called=True)
    is_row, wrong = _is_row(declared, arrays), set[str]()
    for name in [one for one in arrays if one in declared]:
        expected = Declared(None, declared[name].dtypes, declared[name].torch) if is_row else declared[name]
        try:
            bind(expected, arrays[name], owner, sizes)
        except MismatchError as error:
            text = f'Argument "{name}" of {name_of(cls)} {error}'
            machine.take_mismatch(call.argument(None, name), MismatchError(text, dtype=error.dtype))
            wrong.add(name)
    fields = machine.write_batch(batch).fields
    for name, one in declared.items():
        if name in wrong or (name in fields and fields[name].value == UNKNOWN and not is_row):
            fields[name] = fields[name]._replace(value=lower(array_of(one, owner, machine.ranks), UNKNOWN))


def fit_field(machine: Machine, batch: Ref, name: str, node: ast.AST | None) -> None:
    """Report a field that has been set, and is not as the record of the batch declares it; take what is declared."""
    found = machine.batch_at(batch)
    if found is None or found.declared is None:
        return
    arrays = _arrays_in(machine, batch)
    declared = declared_arrays(found.declared, (any(array.torch for array in arrays.values()),))
    if name not in arrays or name not in declared:
        return
    # An object that grows gets its fields one by one; but the axes of the steps are those of the other fields.
    others = {other: array for other, array in arrays.items() if other != name}
    owner = _owner(machine, {other: one for other, one in declared.items() if one.runs}, others)
    try:
        bind(declared[name], arrays[name], owner, dict(owner.sizes))
    except MismatchError as error:
        machine.take_mismatch(node, MismatchError(f'Field "{name}" {error}', dtype=error.dtype))
        fields = machine.write_batch(batch).fields
        said = array_of(declared[name], _owner(machine, declared, others), machine.ranks)
        fields[name] = fields[name]._replace(value=lower(said))


def fit_handed(machine: Machine, batch: Ref, kind: Kind, node: ast.AST) -> None:
    """Report a field of a plain batch that is handed over, and is not as a protocol or record declares it."""
    found = machine.batch_at(batch)
    if found is None or found.is_open or found.declared is not None or not isinstance(kind.cls, (Class, External)):
        return
    declared, arrays = declared_arrays(kind.cls, [library_of(arg) for arg in kind.args]), _arrays_in(machine, batch)
    sizes: dict[str, Size | None] = {}
    owner, is_row = Record(machine.next_frame(), sizes, called=True), _is_row(declared, arrays)
    for name in [one for one in arrays if one in declared and arrays[one].torch == declared[one].torch]:
        expected = Declared(None, declared[name].dtypes, declared[name].torch) if is_row else declared[name]
        try:
            bind(expected, arrays[name], owner, sizes)
        except MismatchError as error:
            text = f'Field "{name}" of {name_of(kind.cls)} {error}'
            machine.take_mismatch(node, MismatchError(text, dtype=error.dtype))


def fit_extended(machine: Machine, batch: Ref, cls: Class | External, call: Call) -> None:
    """Report what ``extend`` adds to a batch, and is not as the record declares it."""
    arrays = _arrays_in(machine, batch)
    declared = declared_arrays(cls, (any(array.torch for array in arrays.values()),))
    owner = _owner(machine, declared, {name: array for name, array in arrays.items() if name not in call.named})
    sizes = dict(owner.sizes)
    owner = replace(owner, sizes=sizes)  # what is added is compared with itself, too
    for name in call.named:
        if name in arrays and name in declared:
            try:
                bind(declared[name], arrays[name], owner, sizes)
            except MismatchError as error:
                text = f'Field "{name}" {error}'
                machine.take_mismatch(call.argument(None, name), MismatchError(text, dtype=error.dtype))


def take_declared(machine: Machine, batch: Ref, cls: Class | External) -> None:
    """Give a batch what its record or protocol declares, where nothing else is known: fields, shapes, and no others."""
    libraries = [library_of(arg) for arg in cls.args] if isinstance(cls, External) else []
    declared = machine.batch_at(machine.fresh(cls, libraries)[0])
    written = machine.write_batch(batch)
    for name, field in declared.fields.items() if declared is not None else ():
        own = written.fields.get(name)
        if own is None or own.value == UNKNOWN:
            written.fields[name] = field
        elif not own.is_sure:
            written.fields[name] = Field(own.value)
    written.is_typed |= written.is_open and declared is not None and declared.is_annotated


def _owner(machine: Machine, declared: Mapping[str, Declared], arrays: Mapping[str, Array]) -> Record:
    """Return what the names in declared shapes belong to, with the sizes that arrays give them."""
    sizes: dict[str, Size | None] = {}
    owner = Record(machine.next_frame(), sizes)
    for name, array in arrays.items():
        if name in declared:
            with suppress(MismatchError):
                bind(declared[name], array, owner, sizes)
    return owner


def _arrays_in(machine: Machine, batch: Ref) -> dict[str, Array]:
    found = machine.batch_at(batch)
    held = {name: lift(machine, field.value) for name, field in found.fields.items()} if found is not None else {}
    return {name: one for name, one in held.items() if isinstance(one, Array)}


def _is_row(declared: Mapping[str, Declared], arrays: Mapping[str, Array]) -> bool:
    """Return whether a record is made of one row: no field has the axis of the rows that all declare."""
    ranks = [
        (declared[name].shape, len(array.axes))
        for name, array in arrays.items()
        if name in declared and array.axes is not None
    ]
    known = [(shape, rank) for shape, rank in ranks if shape is not None]
    return all(shape.has_rank(rank + 1) for shape, rank in known) and not all(
        shape.has_rank(rank) for shape, rank in known
    )
