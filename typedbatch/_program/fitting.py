"""Fields of records beside their declared shapes: what does not fit, and what a declaration adds."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress

from typedbatch._program.arrays.declared import Declared
from typedbatch._program.arrays.held import array_of, bind
from typedbatch._program.arrays.sizes import Size
from typedbatch._program.arrays.values import Array, MismatchError, Record
from typedbatch._program.classes import declared_arrays, name_of
from typedbatch._program.frames import Call
from typedbatch._program.machine import Machine
from typedbatch._program.shapes import lift, lower
from typedbatch._program.values import UNKNOWN, Class, External, Ref


def fit_fields(machine: Machine, batch: Ref, cls: Class | External, call: Call) -> None:
    """Report fields of a new record that are not as it declares them, and set the shapes that it declares."""
    declared = declared_arrays(cls)
    if not declared:
        return
    arrays = _arrays_in(machine, batch)
    sizes: dict[str, Size | None] = {}
    owner = Record(None, machine.next_frame(), sizes, called=True)
    is_row = _is_row(declared, arrays)
    for name in [one for one in arrays if one in declared]:
        expected = Declared(None, declared[name].dtypes, declared[name].torch) if is_row else declared[name]
        try:
            bind(expected, arrays[name], owner, sizes)
        except MismatchError as error:
            text = f'Argument "{name}" of "{name_of(cls)}" {error}'
            machine.take_mismatch(call.argument(None, name), MismatchError(text, dtype=error.dtype))
    fields = machine.write_batch(batch).fields
    for name, one in declared.items():
        if name in fields and fields[name].value == UNKNOWN and not is_row:
            fields[name] = fields[name]._replace(value=lower(array_of(one, owner, machine.ranks), UNKNOWN))


def fit_field(machine: Machine, batch: Ref, name: str, node: ast.AST | None) -> None:
    """Report a field that has been set, and is not as the record of the batch declares it."""
    found = machine.batch_at(batch)
    if found is None or found.declared is None:
        return
    arrays = _arrays_in(machine, batch)
    declared = declared_arrays(found.declared, (any(array.torch for array in arrays.values()),))
    arrays = arrays if name in declared else {}
    if name not in arrays:
        return
    sizes: dict[str, Size | None] = {}
    owner = Record(None, machine.next_frame(), sizes)
    for other, array in arrays.items():  # The axes of the steps are those of the other fields.
        if other != name and other in declared and declared[other].runs:
            with suppress(MismatchError):
                bind(declared[other], array, owner, sizes)
    try:
        bind(declared[name], arrays[name], owner, sizes)
    except MismatchError as error:
        machine.take_mismatch(node, MismatchError(f'Field "{name}" {error}', dtype=error.dtype))


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
