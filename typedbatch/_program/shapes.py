"""Shapes in a run: the operations of ``arrays`` are called with the values of the run."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from typedbatch._program.arrays.arguments import MOST
from typedbatch._program.arrays.dtypes import dtype_named, of_python
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    Arguments,
    Distribution,
    DType,
    Layer,
    Layers,
    Many,
    MismatchError,
    Scalar,
    Several,
    Span,
    filled_in,
    join,
    without,
)
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Literal as Plain
from typedbatch._program.arrays.values import Value as Held
from typedbatch._program.classes import attribute_of
from typedbatch._program.frames import Call
from typedbatch._program.heap import InstanceObject, ListObject
from typedbatch._program.machine import Machine
from typedbatch._program.values import ARRAY, Array, Atom, External, Literal, Made, Ref, Shaped, Value, constant

_DEEPEST: Final = 3
ELLIPSIS: Final = Made("builtins.Ellipsis", Plain(...))


# From values of the run to those of the tables, and back


def lift(machine: Machine, value: Value, depth: int = _DEEPEST) -> Held:
    """Return what the tables of operations know of a value; None for nothing."""
    if not value:
        return None
    found = _lifted(machine, value[0], depth)
    for atom in value[1:]:
        if found is None:
            return None
        found = join(found, _lifted(machine, atom, depth))
    return found


def _lifted(machine: Machine, atom: Atom, depth: int) -> Held:
    match atom:
        case Made(_, Layer() | Layers()) if machine.are_layers_changed:
            return None
        case Shaped(held) | Made(_, held):
            return without(held, machine.compared) if machine.compared else held
        case Literal(bool() as value) | Literal(float() as value):
            return Plain(value)
        case Literal(int() as value):
            return number(value)
        case Literal(value):
            return Plain(value)
        case External(name):
            return _constant(name)
        case Ref():
            found = machine.heap.read(atom)
            if isinstance(found, ListObject) and depth:
                if found.items is None or len(found.items) > MOST:
                    item = lift(machine, found.any_item, depth - 1)
                    return None if item is None else Many(item)
                items = tuple(lift(machine, item, depth - 1) for item in found.items)
                return Several(items, listed=not found.is_tuple)
            if isinstance(found, InstanceObject) and attribute_of(found.owner, "forward") is not None:
                return Layer(lambda arguments: _call_module(machine, atom, arguments), found.owner)
            return None
        case _:
            return None


def _call_module(machine: Machine, module: Ref, arguments: Arguments) -> Held:
    """Call a module of the program that a layer of torch's holds."""
    args = [lower(value) for value in arguments.given]
    named = {name: lower(value) for name, value in arguments.named.items()}
    return lift(machine, machine.call((module,), Call(args, named, machine.operation)))


def _constant(name: str) -> Held:
    """Return a dtype, or ``numpy.newaxis``."""
    root, _, last = name.partition(".")
    if name == "numpy.newaxis":
        return Plain(None)
    if root in ("numpy", "torch"):
        dtypes = dtype_named(last, torch=root == "torch")
        return None if dtypes is None else DType(dtypes)
    dtypes = of_python(last, torch=False) if root == "builtins" else None
    return None if dtypes is None else DType(dtypes)


def lower(held: Held, unknown: Value = ARRAY) -> Value:
    """Return the value of the run for what a table knows; ``unknown`` if it knows nothing."""
    match held:
        case Plain(value) if value is None or isinstance(value, (bool, str)):
            return constant(value)
        case Known() | Size() | Scalar() | DType() | Span() | Several() | Many():
            return (Shaped(held),)
        case Layer() | Layers():
            return (Made("torch.nn.layer", held),)
        case Distribution():
            return (Made("torch.distributions.distribution", held),)
        case _:
            return unknown


def filled(machine: Machine, value: Value, said: Known) -> Value:
    """Return an array with the sizes that only its declaration knows."""
    held = lift(machine, value)
    if not isinstance(held, Known):
        return lower(said) if held is None else value
    return lower(said if held.axes is None else filled_in(held, said))


def unranked(machine: Machine, value: Value) -> Value:
    """Return a value in which no number of axes is known."""
    changed: list[Atom] = []
    for atom in value:
        found = machine.object_at(atom)
        if isinstance(atom, Shaped) and isinstance(atom.held, Known):
            changed.append(Shaped(atom.held.shaped(None)))
        elif isinstance(found, ListObject) and found.is_tuple and found.items is not None:
            changed += machine.list_of([unranked(machine, one) for one in found.items], is_tuple=True)
        else:
            changed.append(atom)
    return tuple(changed)


def array_in(value: Value) -> Known | None:
    """Return the array that a value is, if it is one of which something is known."""
    atom = value[0] if len(value) == 1 else None
    return atom.held if isinstance(atom, Shaped) and isinstance(atom.held, Known) else None


def is_array(atom: Atom) -> bool:
    """Return whether an atom is an array or number, and no tuple of sizes or unknown member of a library."""
    if not isinstance(atom, Shaped):
        return isinstance(atom, Array)
    return isinstance(atom.held, Known) and atom.held != Known(None, None, atom.held.torch)


def tried(machine: Machine, node: ast.AST | None, operation: Callable[[], Held]) -> Held:
    """Return what an operation gives; None after the report of a mismatch."""
    before, machine.operation = machine.operation, node
    try:
        return operation()
    except MismatchError as error:
        machine.take_mismatch(node, error)
        return None
    finally:
        machine.operation = before
