"""Arrays in batches: what the members of a batch do to the shape and dtype of each."""

from __future__ import annotations

from collections.abc import Callable

from typedbatch._program.arrays import indexing
from typedbatch._program.arrays.dtypes import BOOL
from typedbatch._program.arrays.sizes import Name, Size, named
from typedbatch._program.arrays.values import UNKNOWN as UNKNOWN_AXIS
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Axis, MismatchError, item_of
from typedbatch._program.arrays.values import Value as Held
from typedbatch._program.classes import attribute_of
from typedbatch._program.machine import Machine
from typedbatch._program.shapes import lift, lower
from typedbatch._program.values import UNKNOWN, Atom, Ragged, Ref, Shaped, Value


def changed(machine: Machine, ref: Ref, change: Callable[[Known], Held]) -> None:
    """Give the arrays in a batch, and in those in it, another shape or dtype."""
    found = machine.batch_at(ref)
    if found is None:
        return
    fields = dict(found.fields)
    for name, field in fields.items():
        value = tuple(_changed(atom, change) for atom in field.value)
        if value != field.value:
            machine.write_batch(ref).fields[name] = field._replace(value=value)
        for atom in value:
            if isinstance(atom, Ref) and machine.is_batch(atom):
                changed(machine, atom, change)


def _changed(atom: Atom, change: Callable[[Known], Held]) -> Atom:
    if isinstance(atom, Ragged):
        return UNKNOWN[0]
    if not isinstance(atom, Shaped) or not isinstance(atom.held, Known):
        return atom
    return lower(change(atom.held))[0]


def number_of_rows(machine: Machine, value: Value) -> Size | None:
    """Return the number of rows of a batch, if the arrays in it say it.

    The fields of a record have the same number. Of any other batch, the shortest field counts, so all must be known.
    With ``seq_lens``, a row is not a step, and a class may count in another way.
    """
    found = machine.batch_at(value[0]) if len(value) == 1 else None
    if found is None or "seq_lens" in found.fields or (found.declared is None and found.is_open):
        return None
    if found.declared is not None and attribute_of(found.declared, "__len__"):
        return None
    arrays = [lift(machine, field.value) for field in found.fields.values()]
    known = [array for array in arrays if isinstance(array, Known) and array.axes]
    sizes = {array.axes[0].size for array in known if array.axes}
    return sizes.pop() if len(sizes) == 1 and (found.declared is not None or len(known) == len(arrays)) else None


def taken(machine: Machine, index: Value) -> Callable[[Known], Held]:
    """Return what ``batch[index]`` does to each array in a batch."""
    held = lift(machine, index)
    rows = named(Name("rows", machine.next_frame(), opaque=True))

    def take(array: Known) -> Held:
        try:
            taken = indexing.getitem(array, held)
        except MismatchError:
            return array.shaped(None)
        if not taken.axes or taken.axes[0].size is not None or array.axes is None or len(taken.axes) != len(array.axes):
            return taken
        return taken.shaped((Axis(rows), *taken.axes[1:]))

    return take


def row(array: Known) -> Held:
    """Return what one row of an array is."""
    return item_of(array)


def some_rows(array: Known) -> Held:
    """Return an array of another number of rows."""
    return array.shaped((UNKNOWN_AXIS, *array.axes[1:])) if array.axes else array.shaped(None)


def anything(array: Known) -> Held:
    """Return an array of any shape and dtype."""
    return Known(None, None, array.torch)


def retyped(array: Known) -> Held:
    """Return an array of any dtype."""
    return array.typed(None)


def in_library(*, torch: bool) -> Callable[[Known], Held]:
    """Return what the conversion to a library does to each array."""
    return lambda array: Known(array.axes, array.dtypes if array.dtypes == BOOL else None, torch)


def same_rows(machine: Machine) -> Callable[[Known], Held]:
    """Return what gives arrays another number of rows, which is the same for all of them."""
    axis = Axis(named(Name("rows", machine.next_frame(), opaque=True)))
    return lambda array: array.shaped((axis, *array.axes[1:])) if array.axes else array.shaped(None)
