"""Operators and calls on the arrays of a run: what comes out, and which shapes do not fit."""

from __future__ import annotations

import ast
from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Final

from typedbatch._program.arrays import tables
from typedbatch._program.arrays.dtypes import INTS, is_in
from typedbatch._program.arrays.layers import contradiction
from typedbatch._program.arrays.pointwise import BITS, COMPARISONS, binary, in_place, invert
from typedbatch._program.arrays.products import matmul
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import Arguments, Distribution, Layer, Literal, Many, Scalar, Several, names_of
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Value as Held
from typedbatch._program.frames import Call
from typedbatch._program.heap import ListObject
from typedbatch._program.machine import Machine
from typedbatch._program.shapes import lift, lower, tried
from typedbatch._program.values import ARRAY, Atom, Value, constant

_ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
SIGNS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Div: "/", ast.Eq: "==", ast.FloorDiv: "//",
    ast.Gt: ">", ast.GtE: ">=", ast.LShift: "<<", ast.Lt: "<", ast.LtE: "<=", ast.MatMult: "@", ast.Mod: "%",
    ast.Mult: "*", ast.NotEq: "!=", ast.Pow: "**", ast.RShift: ">>", ast.Sub: "-",
}  # fmt: skip


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
        machine.compared.update(name for held in both for name in names_of(held))


def take_question(machine: Machine, value: Value) -> None:
    """Take note that a program asks something about sizes, which may be the same from here on."""
    machine.compared.update(names_of(lift(machine, value)))


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
            if isinstance(operand, ast.UnaryOp) and isinstance(operand.op, ast.Invert):
                with machine.silently():
                    held = lift(machine, machine.evaluate(other))
                if isinstance(held, Size) or (isinstance(held, Known) and is_in(held.dtypes, INTS)):
                    machine.bits.add(operand)


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


def operate(sign: str, one: Held, other: Held) -> Held:
    """Return the result of an operator between two values.

    Raises:
        MismatchError: The operation certainly fails, or nobody can have meant its result.
    """
    if sign == "@":
        return matmul(one, other)
    if isinstance(one, Known) or isinstance(other, Known):
        return binary(sign, one, other)
    if isinstance(one, Size) and isinstance(other, Size):
        return _of_sizes(sign, one, other)
    if _is_number(one) and _is_number(other):
        return Scalar()
    if sign == "+" and isinstance(one, Several) and isinstance(other, Several):
        return Several(one.items + other.items, one.listed)
    if sign == "*" and isinstance(one, Several) and isinstance(other, Size):
        return _times(one, other)
    return _times(other, one) if sign == "*" and isinstance(other, Several) and isinstance(one, Size) else None


def _of_sizes(sign: str, one: Size, other: Size) -> Held:
    if sign in ("//", "%"):
        if other.number == 0:
            return None
        return one // other if sign == "//" else one % other
    if sign == "**":
        power = other.number
        return _power(one, power) if power is not None and 0 <= power < 5 else Scalar()
    if sign == "/":
        return Scalar()
    operations: dict[str, Callable[[], Size]] = {
        "+": lambda: one + other,
        "-": lambda: one - other,
        "*": lambda: one * other,
    }
    return operations[sign]() if sign in operations else None


def _power(base: Size, times: int) -> Size:
    out = number(1)
    for _ in range(times):
        out = out * base
    return out


def _times(items: Several, times: Size) -> Held:
    count = times.number
    if count is not None and 0 <= count * len(items.items) <= 64:
        return Several(items.items * count, items.listed)
    return Many(items.items[0]) if len(items.items) == 1 else None


def _is_number(value: Held) -> bool:
    return isinstance(value, (Size, Scalar)) or (isinstance(value, Literal) and isinstance(value.value, (float, bool)))
