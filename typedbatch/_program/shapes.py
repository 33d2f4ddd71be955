"""Shapes in a run: the operations of ``arrays`` are called with the values of the run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from typedbatch._program.arrays import indexing, tables
from typedbatch._program.arrays.asking import MOST, greater
from typedbatch._program.arrays.distributions import attribute as distribution_attribute
from typedbatch._program.arrays.dtypes import BOOL, INTS, dtype_named, is_in, of_python
from typedbatch._program.arrays.elementwise import BITS, COMPARISONS, binary, in_place, invert
from typedbatch._program.arrays.layers import contradiction
from typedbatch._program.arrays.operators import operate
from typedbatch._program.arrays.sizes import Name, Size, named, number
from typedbatch._program.arrays.values import (
    UNKNOWN as UNKNOWN_AXIS,
)
from typedbatch._program.arrays.values import (
    Arguments,
    Axis,
    Distribution,
    DType,
    Layer,
    Layers,
    Many,
    MismatchError,
    Scalar,
    Several,
    Span,
    item_of,
    join,
)
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Literal as Plain
from typedbatch._program.arrays.values import Value as Held
from typedbatch._program.classes import attribute_of
from typedbatch._program.frames import Call
from typedbatch._program.heap import InstanceObject, ListObject
from typedbatch._program.machine import Machine
from typedbatch._program.values import (
    ARRAY,
    Array,
    Atom,
    External,
    Literal,
    Made,
    Member,
    Ref,
    Shaped,
    Value,
    constant,
)  # fmt: skip

SIGNS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Div: "/", ast.Eq: "==", ast.FloorDiv: "//",
    ast.Gt: ">", ast.GtE: ">=", ast.LShift: "<<", ast.Lt: "<", ast.LtE: "<=", ast.MatMult: "@", ast.Mod: "%",
    ast.Mult: "*", ast.NotEq: "!=", ast.Pow: "**", ast.RShift: ">>", ast.Sub: "-",
}  # fmt: skip
_ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
ELLIPSIS: Final = Made("builtins.Ellipsis", Plain(...))
_NAMED_RESULTS: Final = {"values": 0, "indices": 1}
_DEEPEST: Final = 3
MOST_ROUNDS: Final = 16
"""Most items that a loop or comprehension goes through one by one."""
_Operation = Callable[[Arguments], Held]


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


def without(held: Held, names: set[Name]) -> Held:
    """Return a value in which sizes of some names are not known."""
    if isinstance(held, Size):
        return None if held.names() & names else held
    if isinstance(held, Known) and held.axes is not None:
        return held.shaped([UNKNOWN_AXIS if a.size is not None and a.size.names() & names else a for a in held.axes])
    if isinstance(held, Several):
        return Several(tuple(without(item, names) for item in held.items), held.listed, held.names)
    if isinstance(held, Many):
        return Many(without(held.item, names))
    return held


def each(held: Held) -> Held:
    """Return an item of many: sizes with names are those of each, and may differ."""
    if isinstance(held, Known) and held.axes is not None:
        return held.shaped([a if a.size is None or a.size.number is not None else UNKNOWN_AXIS for a in held.axes])
    return held


def filled(machine: Machine, value: Value, said: Known) -> Value:
    """Return an array with the sizes that only its declaration knows."""
    held = lift(machine, value)
    if not isinstance(held, Known):
        return lower(said) if held is None else value
    if held.axes is None or said.axes is None or len(held.axes) != len(said.axes):
        return lower(said if held.axes is None else held)
    axes = [two if one.size is None else one for one, two in zip(held.axes, said.axes, strict=True)]
    return lower(held.shaped(axes))


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


# Operators


def operated(machine: Machine, left: Value, right: Value, sign: str, node: ast.AST | None) -> Value | None:
    """Return the result of an operator; None if it has nothing to do with shapes."""
    one, other = lift(machine, left), lift(machine, right)
    if not _counts(one) and not _counts(other):
        return None
    if sign in COMPARISONS:
        if not isinstance(one, Known) and not isinstance(other, Known):
            if isinstance(one, Size) and isinstance(other, Size) and machine.is_certain():
                left_number, right_number = one.number, other.number
                if left_number is not None and right_number is not None:
                    return constant(_ORDERS[sign](left_number, right_number))
            _take_comparison(machine, sign, one, other)
            return None
        return lower(tried(machine, node, lambda: binary(sign, one, other)))
    found = tried(machine, node, lambda: operate(sign, one, other))
    if isinstance(found, Several) and any(_is_list(machine, value) for value in (left, right)):
        return machine.list_of([lower(one) for one in found.items])
    if found is None and not isinstance(one, Known) and not isinstance(other, Known):
        return None
    return lower(found)


def _is_list(machine: Machine, value: Value) -> bool:
    """Return whether a value may be a list, which may be changed."""
    found = [machine.object_at(atom) for atom in value]
    return any(isinstance(one, ListObject) and not one.is_tuple for one in found)


def _counts(held: Held) -> bool:
    return isinstance(held, (Known, Size, Scalar, Several))


def _take_comparison(machine: Machine, sign: str, one: Held, other: Held) -> None:
    """Take note that sizes are compared, which may be the same from here on."""
    both = (one, other)
    if sign in ("==", "!=") and not any(isinstance(held, Size) and held.number == 0 for held in both):
        machine.compared.update(name for held in both for name in _names_in(held))


def take_question(machine: Machine, value: Value) -> None:
    """Take note that a program asks something about sizes, which may be the same from here on."""
    machine.compared.update(_names_in(lift(machine, value)))


def _names_in(held: Held) -> Iterable[Name]:
    if isinstance(held, Size):
        yield from held.names()
    elif isinstance(held, Known):
        for axis in held.axes or ():
            yield from _names_in(axis.size)
    elif isinstance(held, Several):
        for item in held.items:
            yield from _names_in(item)


def negated(machine: Machine, value: Value, node: ast.UnaryOp) -> Value | None:
    """Return the result of ``-x``, ``+x`` and ``~x``; None if it has nothing to do with shapes."""
    held = lift(machine, value)
    if isinstance(held, Size) and isinstance(node.op, ast.USub):
        return lower(-held)
    if not isinstance(held, Known):
        return None
    if not isinstance(node.op, ast.Invert):
        return lower(held)
    if node in machine.bits:
        return lower(held.typed(None))
    return lower(tried(machine, node, lambda: invert(held)) or held.typed(None))


def assigned_in_place(machine: Machine, left: Value, right: Value, sign: str, node: ast.AST) -> Value | None:
    """Return what ``left`` is after ``left += right``; None if it has nothing to do with shapes."""
    target, given = lift(machine, left), lift(machine, right)
    if isinstance(target, Known):
        return lower(tried(machine, node, lambda: in_place(sign, target, given)) or target)
    return operated(machine, left, right, sign, node)


def note_bits(machine: Machine, node: ast.BinOp) -> None:
    """Take note of ``~`` beside ``&`` and ``|`` of a whole number, which is meant for bits."""
    if SIGNS[type(node.op)] in BITS:
        for operand, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(operand, ast.UnaryOp):
                with machine.silently():
                    held = lift(machine, machine.evaluate(other))
                if isinstance(held, Size) or (isinstance(held, Known) and is_in(held.dtypes, INTS)):
                    machine.bits.add(operand)


# Items and attributes


def item(machine: Machine, value: Value, index: Value, node: ast.AST) -> Value | None:
    """Return an item of an array, or of a tuple that an operation gave; None for other values."""
    held = lift(machine, value) if all(isinstance(atom, (Shaped, Made)) for atom in value) else None
    if isinstance(held, Known):
        return lower(tried(machine, node, lambda: indexing.take(held, lift(machine, index))) or held.shaped(None))
    if isinstance(held, Several):
        return lower(_item_of(held, lift(machine, index)))
    if isinstance(held, Many):
        return lower(held if isinstance(lift(machine, index), Span) else held.item)
    return None


def _item_of(held: Several, index: Held) -> Held:
    if isinstance(index, Size):
        at = index.number
        return held.items[at] if at is not None and -len(held.items) <= at < len(held.items) else None
    if isinstance(index, Span):
        bounds = _slice_of(index)
        return None if bounds is None else Several(held.items[bounds], held.listed)
    return None


def bounds_of(machine: Machine, index: Value) -> slice | None:
    """Return a slice whose bounds are known, or None."""
    span = lift(machine, index)
    return _slice_of(span) if isinstance(span, Span) else None


def _slice_of(span: Span) -> slice | None:
    parts = [_bound(part) for part in (span.start, span.stop, span.step)]
    return None if any(isinstance(part, str) for part in parts) or parts[2] == 0 else slice(*parts)


def _bound(part: Held) -> Any:
    """Return a bound of a slice; a text if it is not known."""
    if isinstance(part, Size) and part.number is not None:
        return part.number
    return None if isinstance(part, Plain) and part.value is None else "unknown"


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
        at = held.names.index(name) if name in held.names else None
        if at is None and name in _NAMED_RESULTS and len(held.items) == 2:
            at = _NAMED_RESULTS[name]
        return None if at is None else lower(held.items[at])
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


# Calls


def arguments_of(machine: Machine, call: Call, given: tuple[Held, ...] = (), *, torch: bool) -> Arguments | None:
    """Return the arguments of a call as the tables take them; None if there may be others."""
    if call.is_starred or call.has_more:
        return None
    args = tuple(lift(machine, value) for value in call.args)
    named = {name: lift(machine, value) for name, value in call.named.items()}
    return Arguments((*given, *args), named, torch)


def call_function(machine: Machine, name: str, call: Call) -> Value | None:
    """Call a function of numpy, torch or einops, or construct a layer or distribution; None if no table has it."""
    if name in tables.KEEPS_ARGUMENT:
        is_array = name.endswith(("Parameter", "Buffer"))
        held = lift(machine, call.first or ())
        return call.first if not is_array else lower(held) if isinstance(held, Known) else None
    if name in ("torch.nn.ModuleList", "torch.nn.ModuleDict"):
        return _container(machine, name, call)
    found = tables.operation_named(name)
    if found is None:
        return None
    operation, torch = found
    for atom in call.named.get("out", ()):
        machine.forget_arrays(atom)
    arguments = arguments_of(machine, call, torch=torch)
    if arguments is None:
        return None
    error = contradiction(arguments) if name in ("torch.nn.Sequential", "torch.nn.modules.Sequential") else None
    if error is not None and call.node is not None:
        machine.take_mismatch(call.node, error)
        return None
    return lower(tried(machine, call.node, lambda: operation(arguments)), ())


def _container(machine: Machine, name: str, call: Call) -> Value | None:
    """Return the list or dict of modules that a container of torch's holds."""
    if name.endswith("Dict"):
        return call.first
    if call.first is None:
        return machine.list_of(())
    items, element = machine.iterate(call.first, call.node)
    return machine.list_of(items, element)


def call_layer(machine: Machine, layer: Layer, call: Call) -> Value:
    """Call a layer of torch's."""
    arguments = None if machine.are_layers_changed else arguments_of(machine, call, torch=True)
    return ARRAY if arguments is None else lower(tried(machine, call.node, lambda: layer.call(arguments)))


def call_member(machine: Machine, receiver: Atom, name: str, call: Call) -> Value | None:
    """Call a method of an array, distribution or layer; None if it is not known what it gives."""
    held = lift(machine, (receiver,))
    if isinstance(held, Layer):
        machine.are_layers_changed |= name in tables.CHANGES_LAYER
        return (receiver,)
    if isinstance(held, Distribution):
        given = arguments_of(machine, call, torch=True)
        if given is None:
            return None
        return lower(tried(machine, call.node, lambda: tables.OF_DISTRIBUTIONS[name](held, given)), ())
    if not isinstance(held, Known):
        return None
    if name in tables.RESHAPED_IN_PLACE:
        machine.forget_arrays(receiver)
        return lower(held.shaped(None))
    arguments = arguments_of(machine, call, (held,), torch=held.torch)
    if arguments is None:
        return lower(Known(None, None, held.torch))
    operation = tables.METHODS.get(name) or tables.CONVERSIONS[name]
    return lower(tried(machine, call.node, lambda: operation(arguments)), ())


# Fields of batches


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
    if not isinstance(atom, Shaped) or not isinstance(atom.held, Known):
        return atom
    return lower(change(atom.held))[0]


def taken(machine: Machine, index: Value) -> Callable[[Known], Held]:
    """Return what ``batch[index]`` does to each array in a batch."""
    held = lift(machine, index)
    rows = named(Name("rows", machine.next_frame(), opaque=True))

    def take(array: Known) -> Held:
        try:
            taken = indexing.take(array, held)
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
