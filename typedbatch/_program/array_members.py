"""Items and attributes of arrays, and of what operations return, and loops over them."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Final

from typedbatch._program.arrays import indexing, tables
from typedbatch._program.arrays.arguments import greater
from typedbatch._program.arrays.distributions import attribute as distribution_attribute
from typedbatch._program.arrays.sizes import Name, named, number
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Distribution, Layer, Many, Several, Span, item_at, item_of, named_part
from typedbatch._program.machine import Machine
from typedbatch._program.shapes import lift, lower, tried
from typedbatch._program.values import Atom, Made, Member, Shaped, Value

MOST_ROUNDS: Final = 16
"""Most items that a loop or comprehension goes through one by one."""


def item(machine: Machine, value: Value, index: Value, node: ast.AST) -> Value | None:
    """Return an item of an array, or of a tuple that an operation gave; None for other values."""
    held = lift(machine, value) if all(isinstance(atom, (Shaped, Made)) for atom in value) else None
    if isinstance(held, Known):
        found = tried(machine, node, lambda: indexing.getitem(held, lift(machine, index)))
        return lower(_named(machine, found) if isinstance(found, Known) else held.shaped(None))
    if isinstance(held, Several):
        return lower(item_at(held, lift(machine, index)))
    if isinstance(held, Many):
        return lower(held if isinstance(lift(machine, index), Span) else held.item)
    return None


def _named(machine: Machine, array: Known) -> Known:
    """Return an array in which sizes that an index leaves open have names, by which they are known to be the same."""
    axes = array.axes or ()
    if not any(axis.size is None and not axis.more and axis.most is None for axis in axes):
        return array
    return array.shaped(
        [
            axis
            if axis.size is not None or axis.more or axis.most is not None
            else replace(axis, size=named(Name("?", machine.next_frame(), opaque=True)))
            for axis in axes
        ]
    )


def set_item(machine: Machine, value: Value, index: Value, given: Value, node: ast.AST) -> None:
    """Hold what is assigned to some items of an array against these."""
    held = lift(machine, value) if all(isinstance(atom, Shaped) for atom in value) else None
    if isinstance(held, Known):
        tried(machine, node, lambda: indexing.assign(held, lift(machine, index), lift(machine, given)))


def set_attribute(machine: Machine, atom: Shaped | Made, name: str, given: Value) -> None:
    """Take note of what is set of an array or layer: its shape may be another one from here on."""
    if isinstance(atom, Made):
        machine.are_layers_changed = True
    elif name in ("shape", "data", "dtype", "strides"):
        one, other = lift(machine, (atom,)), lift(machine, given)
        if not (isinstance(one, Known) and isinstance(other, Known) and one.axes == other.axes):
            machine.are_layers_changed = True
            machine.forget_arrays(atom)


def items_of(machine: Machine, atom: Atom) -> tuple[tuple[Value, ...] | None, Value]:
    """Return the items of an array or tuple, or None if they are not known one by one, and what any item may be."""
    held = lift(machine, (atom,))
    if isinstance(held, Several):
        items = tuple(lower(one) for one in held.items)
        return items, lower(item_of(held))
    return None, lower(item_of(held))


def is_never_empty(machine: Machine, value: Value) -> bool:
    """Return whether a loop over a value has a round: sizes of axes that have a name are one or more."""
    held = lift(machine, value)
    if isinstance(held, Known) and held.axes:
        size = held.axes[0].size
    else:
        size = held.count if isinstance(held, Many) else None
    return size is not None and greater(size, number(0))


def rounds_of(machine: Machine, value: Value) -> tuple[Value, ...] | None:
    """Return the numbers of a range whose length is known and small, or None."""
    held = lift(machine, value)
    count = held.count.number if isinstance(held, Many) and held.count is not None else None
    return tuple(lower(number(at)) for at in range(count)) if count is not None and 0 <= count <= MOST_ROUNDS else None


def attribute(machine: Machine, atom: Shaped | Made, name: str, node: ast.AST | None) -> Value | None:
    """Return an attribute of an array, distribution or layer; None if it is not known."""
    held = lift(machine, (atom,))
    if isinstance(held, Known):
        if name in tables.METHODS or name in tables.CONVERSIONS or name in tables.RESHAPED_IN_PLACE:
            return (Member(atom, name),)
        return lower(tried(machine, node, lambda: tables.attribute_of(held, name)), ())
    if isinstance(held, Several):
        return lower(named_part(held, name), ())
    if isinstance(held, Distribution):
        if name in tables.OF_DISTRIBUTIONS:
            return (Member(atom, name),)
        return lower(distribution_attribute(held, name), ())
    if isinstance(held, Layer):
        if name in ("forward", "__call__"):
            return (atom,)
        if name in tables.KEEPS_LAYER | tables.CHANGES_LAYER:
            return (Member(atom, name),)
        return lower(held.attributes.get(name), ())
    return None
