"""Elementwise operations: how shapes broadcast, and which shapes and dtypes are mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from typedbatch._program.arrays.dtypes import BOOL, FLOATS, INTS, NUMBERS, Dtypes, is_in, of_arithmetic, of_mean, told
from typedbatch._program.arrays.sizes import Size, differ
from typedbatch._program.arrays.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    MismatchError,
    Operation,
    Scalar,
    Value,
)

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
ORDER = COMPARISONS - {"==", "!="}
BITS = frozenset({"&", "|", "^"})
_ODD = frozenset({"out", "where", "dtype"})


def broadcast(
    shapes: Sequence[tuple[Axis, ...] | None], what: str, *, columns: bool = False
) -> tuple[Axis, ...] | None:
    """Return the shape that arrays are broadcast to, or None if it is not known.

    Args:
        shapes: Shapes of the arrays; None for one that is not known.
        what: Name of the operation, for the report.
        columns: Whether a column and a row are meant to be broadcast, as in an index.

    Raises:
        MismatchError: They cannot be broadcast, or only because ``(N, 1)`` and ``(N,)`` make ``(N, N)``.
    """
    known = [axes for axes in shapes if axes is not None]
    out: tuple[Axis, ...] = known[0] if known else ()
    for axes in known[1:]:
        out = _pair(out, axes, what, columns=columns)
    return out if len(known) == len(shapes) else None


def _pair(one: tuple[Axis, ...], other: tuple[Axis, ...], what: str, *, columns: bool) -> tuple[Axis, ...]:
    for column, row in ((one, other), (other, one)):
        if not columns and _is_column_of(column, row):
            size = row[-1].size
            made = f"make ({size}, {size}): each {size} against every other"
            made = made if len(row) == 1 else "do not go element by element"
            raise MismatchError(f"{what}: {_text(column)} and {_text(row)} {made}")
    return tuple(
        _axis(a, b, one, other, what) for a, b in list(zip_longest(one[::-1], other[::-1], fillvalue=None))[::-1]
    )


def _is_column_of(column: tuple[Axis, ...], row: tuple[Axis, ...]) -> bool:
    """Return whether it is ``(N, 1)`` beside ``(N,)`` by mistake; if ``(N,)`` is steps, ``(N, D, 1)`` counts, too."""
    if not row or len(column) <= len(row) or not column[-1].one or column[-1].asked:
        return False
    if len(column) > len(row) + 1 and not all(axis.step for axis in row):
        return False
    sizes = [axis.size for axis in row]
    if sizes[-1] is None or sizes[-1].number == 1:
        return False
    return sizes == [axis.size for axis in column[: len(row)]]


def _axis(a: Axis | None, b: Axis | None, one: tuple[Axis, ...], other: tuple[Axis, ...], what: str) -> Axis:
    if a is None or b is None:
        axis = a or b
        assert axis is not None
        return axis
    if a.one and b.one:
        return b if a.asked else a
    if a.one or b.one:
        return b if a.one else a
    if a.size is None or b.size is None:
        size, most = a.size or b.size, a.most or b.most
        return Axis(size) if size is not None and (size.number is not None or size == most) else UNKNOWN
    if a.size == b.size:
        return Axis(a.size, step=a.step or b.step)
    if differ(a.size, b.size):
        raise MismatchError(f"{what}: {_text(one)} and {_text(other)} do not fit: {a.size} against {b.size}")
    return UNKNOWN


def _text(axes: tuple[Axis, ...] | None) -> str:
    return "" if axes is None else str(Array(axes))


def binary(sign: str, one: Value, other: Value) -> Value:
    """Return the result of an operator between two values, of which at least one is an array."""
    arrays = [value for value in (one, other) if isinstance(value, Array)]
    if len(arrays) == 2 and arrays[0].torch != arrays[1].torch:
        return None
    if not all(isinstance(value, (Array, Size, Literal, Scalar)) for value in (one, other)):
        return Array(None, BOOL if sign in COMPARISONS else None, arrays[0].torch)
    _require_dtypes(sign, one, other)
    # Positions beside lengths make a table of flags on purpose.
    is_mask = sign in ORDER and all(array.dtypes is not None and array.dtypes <= INTS for array in arrays)
    axes = broadcast([array.axes for array in arrays], sign, columns=is_mask)
    return Array(axes, _dtypes(sign, one, other), arrays[0].torch)


def in_place(sign: str, target: Array, other: Value) -> Value:
    """Return the target of ``target += other``, whose shape stays the same and which ``other`` must fit into."""
    binary(sign, target, other)
    if isinstance(other, Array) and other.axes is not None and target.axes is not None:
        grown = len(other.axes) > len(target.axes) or any(
            a.one and b.size is not None and b.size.number != 1 and not b.one
            for a, b in zip(target.axes[::-1], other.axes[::-1], strict=False)
        )
        if grown:
            raise MismatchError(f"{sign}=: {other} does not fit into {target}")
    return target


def _require_dtypes(sign: str, one: Value, other: Value) -> None:
    flags = [isinstance(value, Array) and is_in(value.dtypes, BOOL) for value in (one, other)]
    if sign != "-" or not any(flags):
        return
    torch = any(isinstance(value, Array) and value.torch for value in (one, other))
    if all(flags) or (torch and not flags[0]) or (torch and isinstance(other, (Size, Literal, Scalar))):
        raise MismatchError("- of bool is an error in torch and numpy; ~ inverts a mask", dtype=True)


def _dtypes(sign: str, one: Value, other: Value) -> Dtypes | None:
    if sign in COMPARISONS:
        return BOOL
    a, b = _of(one), _of(other)
    if sign in BITS:
        return a if a == b else None
    if isinstance(one, Array) and isinstance(other, Array):
        both = of_arithmetic(a, b)
        return of_mean(both) if sign == "/" else None if both == BOOL else both
    array, plain = (a, other) if isinstance(one, Array) else (b, one)
    if array is None or (isinstance(plain, Literal) and isinstance(plain.value, complex)):
        return None
    if array <= FLOATS:
        return array
    if array <= INTS:
        return of_mean(array) if sign == "/" else array if isinstance(plain, Size) else None
    return None


def _of(value: Value) -> Dtypes | None:
    return value.dtypes if isinstance(value, Array) else None


def invert(value: Array) -> Array:
    """Return the result of ``~``, which inverts masks and flips the bits of integers.

    Raises:
        MismatchError: The array certainly holds integers.
    """
    if is_in(value.dtypes, INTS):
        raise MismatchError(
            f"~ of {told(value.dtypes)} flips bits, so that ~1 is not 0; it inverts a mask of bool only", dtype=True
        )
    return value


def _array(arguments: Arguments) -> Array | None:
    """Return the first argument if it is an array, or None where ``out=``, ``where=`` or ``dtype=`` is given."""
    return None if _ODD & arguments.named.keys() else arguments.array(0, "input", "x", "a")


def same(arguments: Arguments) -> Value:
    """Return an array of equal shape, whose dtype is not known."""
    array = _array(arguments)
    return None if array is None else array.typed(None)


def kept(arguments: Arguments) -> Value:
    """Return an array of equal shape and dtype."""
    return _array(arguments)


def floating(arguments: Arguments) -> Value:
    """Return an array of equal shape, whose dtype is that of a mean."""
    array = _array(arguments)
    return None if array is None else array.typed(of_mean(array.dtypes))


def absolute(arguments: Arguments) -> Value:
    """Return an array of equal shape, whose dtype is not known if it may be complex."""
    array = _array(arguments)
    return array if array is None or is_in(array.dtypes, INTS | FLOATS | BOOL) else array.typed(None)


def rounded(arguments: Arguments) -> Value:
    """Return an array of equal shape, whose dtype is known if it has floats: numpy rounds bool to float16."""
    array = _array(arguments)
    return array if array is None or is_in(array.dtypes, FLOATS) else array.typed(None)


def squared(arguments: Arguments) -> Value:
    """Return an array of equal shape, whose dtype is not known if it may be bool."""
    array = _array(arguments)
    return array if array is None or is_in(array.dtypes, NUMBERS) else array.typed(None)


def at_least(rank: int) -> Operation:
    """Return an operation that keeps shape and dtype; in numpy the result has at least ``rank`` axes."""

    def call(arguments: Arguments) -> Value:
        array = arguments.array(0, "input", "a", "m")
        few = array is not None and not array.torch and (array.axes is None or len(array.axes) < rank)
        return array.shaped(None) if few and array is not None else array

    return call


def broadcasting(what: str, count: int, *names: str, keeps: bool = False) -> Operation:
    """Return an operation that broadcasts its arguments.

    Args:
        what: Name of the operation.
        count: Number of arguments.
        names: Names of all arguments but the first.
        keeps: Whether the result has the dtype of the first argument.
    """

    def call(arguments: Arguments) -> Value:
        array = _array(arguments)
        if array is None:
            return None
        others = [arguments.get(at, names[at - 1]) for at in range(1, count)]
        if not all(isinstance(other, (Array, Size, Literal, Scalar)) for other in others):
            return array.shaped(None).typed(None)
        shapes = [array.axes, *(other.axes for other in others if isinstance(other, Array))]
        return array.shaped(broadcast(shapes, what)).typed(array.dtypes if keeps else None)

    return call


def _binary_function(sign: str) -> Operation:
    def call(arguments: Arguments) -> Value:
        one, other = arguments.get(0, "input", "x1"), arguments.get(1, "other", "x2")
        if _ODD & arguments.named.keys() or (not isinstance(one, Array) and not isinstance(other, Array)):
            return None
        return binary("//" if "rounding_mode" in arguments.named else sign, one, other)

    return call


def _floating_pair(arguments: Arguments) -> Value:
    out = _binary_function("+")(arguments)
    return out.typed(None) if isinstance(out, Array) else None


def _flags(arguments: Arguments) -> Value:
    array = arguments.array(0, "input", "x")
    return None if array is None else array.typed(BOOL)


def _clamp(arguments: Arguments) -> Value:
    array = _array(arguments)
    if array is None:
        return None
    bounds = [
        arguments.get(at, *names)
        for at, names in ((1, ("min", "a_min")), (2, ("max", "a_max")))
        if arguments.has(at, *names)
    ]
    if not all(isinstance(bound, (Array, Size, Literal, Scalar)) for bound in bounds):
        return array.shaped(None).typed(None)
    shapes = [array.axes, *(bound.axes for bound in bounds if isinstance(bound, Array))]
    keeps = all(_keeps(array.dtypes, bound) for bound in bounds)
    return array.shaped(broadcast(shapes, "clamp")).typed(array.dtypes if keeps else None)


def _keeps(dtypes: Dtypes | None, bound: Value) -> bool:
    """Return whether the dtype of an array certainly stays the same with a bound."""
    if isinstance(bound, Array):
        return bound.dtypes == dtypes and dtypes is not None and len(dtypes) == 1
    if isinstance(bound, Size) or (isinstance(bound, Literal) and bound.value is None):
        return is_in(dtypes, INTS | FLOATS)
    return is_in(dtypes, FLOATS)


def where(arguments: Arguments) -> Value:
    """Return the result of ``where(condition, one, other)``."""
    if not arguments.has(2, "other", "y"):
        return None
    values = arguments.get(0, "condition"), arguments.get(1, "input", "x"), arguments.get(2, "other", "y")
    arrays = [value for value in values if isinstance(value, Array)]
    if not arrays or not all(isinstance(value, (Array, Size, Literal, Scalar)) for value in values):
        return None
    axes = broadcast([array.axes for array in arrays], "where")
    dtypes = _dtypes("+", values[1], values[2]) if any(isinstance(value, Array) for value in values[1:]) else None
    return Array(axes, dtypes, arrays[0].torch)


_SIGNS = {
    "add": "+", "sub": "-", "subtract": "-", "mul": "*", "multiply": "*", "div": "/", "divide": "/",
    "true_divide": "/", "floor_divide": "//", "remainder": "%", "fmod": "%", "pow": "**", "power": "**",
    "eq": "==", "ne": "!=", "not_equal": "!=", "lt": "<", "less": "<", "le": "<=", "less_equal": "<=",
    "gt": ">", "greater": ">", "ge": ">=", "greater_equal": ">=",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
_PAIRS = ("minimum", "maximum", "fmin", "fmax")
_FLOATING_PAIRS = ("logaddexp", "arctan2", "hypot")
_FLOATING = (
    "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid",
    "softplus", "gelu", "silu", "logsigmoid", "erf", "elu", "mish", "celu", "selu", "softsign",
    "arccos", "arcsin", "arctan", "sinh", "cosh",
)  # fmt: skip
_KEPT = (
    "neg", "negative", "clone", "detach", "contiguous", "copy", "relu", "leaky_relu", "dropout", "cpu", "cuda",
    "requires_grad_", "nan_to_num", "clamp_", "flip", "fliplr", "flipud", "roll", "zero_", "fill_", "positive", "copy_",
    "detach_", "fill_diagonal_", "masked_fill_", "lerp_", "add_", "sub_", "mul_", "div_", "index_fill_", "scatter_",
    "scatter_add_", "index_add_", "index_copy_", "index_fill", "clamp_min_", "clamp_max_", "relu_", "uniform_",
    "normal_", "exponential_", "log_", "exp_", "sqrt_", "neg_", "tanh_", "sigmoid_",
)  # fmt: skip
_FLAGS = ("isnan", "isfinite", "isinf", "logical_not", "signbit")

FUNCTIONS: dict[str, Operation] = {
    **{name: _binary_function(sign) for name, sign in _SIGNS.items()},
    **{name: _binary_function("+") for name in _PAIRS},
    **dict.fromkeys(_FLOATING_PAIRS, _floating_pair),
    **{name: _binary_function("==") for name in ("logical_and", "logical_or", "logical_xor", "isclose")},
    **dict.fromkeys(_FLOATING, floating),
    **dict.fromkeys(_KEPT, kept),
    **dict.fromkeys(_FLAGS, _flags),
    **dict.fromkeys(("reciprocal", "sign", "sgn"), same),
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), rounded),
    **dict.fromkeys(("abs", "absolute"), absolute),
    "square": squared,
    **dict.fromkeys(("tril", "triu"), at_least(2)),
    "ascontiguousarray": at_least(1),
    "masked_fill": broadcasting("masked_fill", 3, "mask", "value", keeps=True),
    "lerp": broadcasting("lerp", 3, "end", "weight"),
    **{name: broadcasting(name, 3, "tensor1", "tensor2") for name in ("addcmul", "addcdiv")},
    **{name: broadcasting(name, 2, name[-3:]) for name in ("clamp_min", "clamp_max")},
    "clamp": _clamp,
    "clip": _clamp,
    "where": where,
}
METHODS: dict[str, Operation] = {name: call for name, call in FUNCTIONS.items() if name not in {"where", "isclose"}}
