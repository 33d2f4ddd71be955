"""Operations that make arrays: of sizes, of numbers, of other arrays."""

from __future__ import annotations

from typedbatch.mypy.shapes.asking import (
    UnsureError,
    array_of,
    axis_of,
    dtype_of,
    floats,
    integers,
    of_numbers,
    sizes_from,
    understood,
    whole,
)
from typedbatch.mypy.shapes.dtypes import FLOATS
from typedbatch.mypy.shapes.sizes import Size, number
from typedbatch.mypy.shapes.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    Operation,
    Several,
    Value,
)


def _declared(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """A 1 in the shape of a new array is a size as any other: ``zeros((n, 1))`` is a column by declaration."""
    return tuple(Axis(axis.size) for axis in axes)


@understood(8, "size", "shape", "dtype")
def _filled(arguments: Arguments) -> Value:
    """``zeros(2, 3)``, ``ones((n, 4))``; numpy's second argument is the dtype."""
    first = arguments if arguments.torch else Arguments(arguments.given[:1], arguments.named, torch=False)
    dtypes = dtype_of(arguments, floats(arguments), -1 if arguments.torch else 1)
    return Array(_declared(sizes_from(first, 0, "size", "shape")), dtypes, arguments.torch)


@understood(8, "size", "low", "high", "dtype")
def _random(arguments: Arguments) -> Value:
    if not arguments.torch:
        raise UnsureError
    return Array(_declared(sizes_from(arguments, 0, "size")), dtype_of(arguments, FLOATS), torch=True)


@understood(3, "size", "low", "high", "dtype")
def _randint(arguments: Arguments) -> Value:
    if not arguments.torch:
        raise UnsureError
    shape = next((value for value in (*arguments.given, *arguments.named.values()) if isinstance(value, Several)), None)
    if shape is None:
        raise UnsureError
    axes = sizes_from(Arguments((shape,)), 0)
    return Array(_declared(axes), dtype_of(arguments, frozenset({"int64"})), torch=True)


@understood(3, "size", "shape", "fill_value", "dtype")
def _full(arguments: Arguments) -> Value:
    shape = Arguments(arguments.given[:1], arguments.named)
    value = arguments.get(1, "fill_value")
    usual = of_numbers([value], arguments) if value is not None else None
    return Array(_declared(sizes_from(shape, 0, "size", "shape")), dtype_of(arguments, usual, 2), arguments.torch)


@understood(3, "other", "dtype", "fill_value", "prototype")
def _like(arguments: Arguments) -> Value:
    array = array_of(arguments, 0, "input", "a", "prototype")
    given = arguments.given[:1] if arguments.torch or len(arguments.given) < 3 else arguments.given
    return array.typed(dtype_of(Arguments(given, arguments.named, arguments.torch), array.dtypes, 1))


@understood(3, "start", "end", "stop", "step", "dtype")
def _arange(arguments: Arguments) -> Value:
    values = [arguments.get(place) for place in range(len(arguments.given))]
    if not values or arguments.has(-1, "start", "end", "stop", "step"):
        raise UnsureError
    if not all(isinstance(value, Size) for value in values):
        return Array((UNKNOWN,), dtype_of(arguments, None), arguments.torch)
    start, stop = (values[0], values[1]) if len(values) > 1 else (number(0), values[0])
    assert isinstance(start, Size)
    assert isinstance(stop, Size)
    length = UNKNOWN if len(values) > 2 else Axis(_length(start, stop))
    return Array((length,), dtype_of(arguments, integers(arguments)), arguments.torch)


def _length(start: Size, stop: Size) -> Size | None:
    if start.number == 0:
        return stop if stop.number is None or stop.number >= 0 else None
    if start.number is not None and stop.number is not None:
        return number(max(0, stop.number - start.number))
    return stop - start


@understood(3, "start", "end", "stop", "steps", "num", "dtype")
def _linspace(arguments: Arguments) -> Value:
    count = arguments.get(2, "steps", "num")
    return Array((axis_of(count) if isinstance(count, Size) else UNKNOWN,), dtype_of(arguments, None), arguments.torch)


@understood(2, "n", "m", "N", "M", "dtype")
def _eye(arguments: Arguments) -> Value:
    rows = axis_of(arguments.get(0, "n", "N"))
    columns = axis_of(arguments.get(1, "m", "M")) if arguments.has(1, "m", "M") else rows
    return Array(_declared((rows, columns)), dtype_of(arguments, floats(arguments)), arguments.torch)


@understood(1, "n", "dtype")
def _randperm(arguments: Arguments) -> Value:
    return Array(
        (Axis(axis_of(arguments.get(0, "n")).size),), dtype_of(arguments, frozenset({"int64"})), arguments.torch
    )


@understood(8, "size", "dtype")
def _new(arguments: Arguments) -> Value:
    """``x.new_zeros(2, 3)``."""
    array = array_of(arguments)
    rest = Arguments(arguments.given[1:], arguments.named, torch=True)
    return Array(_declared(sizes_from(rest, 0, "size")), dtype_of(arguments, array.dtypes), torch=True)


@understood(2, "data", "object", "dtype", "obj")
def _of_data(arguments: Arguments) -> Value:
    """``torch.tensor(x)``, ``np.asarray(x)``: of an array, or of numbers in lists."""
    data = arguments.get(0, "data", "object", "a", "obj")
    if isinstance(data, Array):
        return Array(data.axes, dtype_of(arguments, data.dtypes, -1 if arguments.torch else 1), arguments.torch)
    if isinstance(data, Several):
        axes, leaves = _nested(data)
        return Array(axes, dtype_of(arguments, of_numbers(leaves, arguments), 1), arguments.torch)
    if isinstance(data, (Size, Literal)) and not isinstance(getattr(data, "value", 0), (str, type(None))):
        return Array((), dtype_of(arguments, of_numbers([data], arguments), 1), arguments.torch)
    raise UnsureError


def _nested(data: Several) -> tuple[tuple[Axis, ...], list[Value]]:
    """The shape of nested lists of numbers, and the numbers."""
    length = Axis(number(len(data.items)))
    if all(isinstance(item, (Size, Literal)) for item in data.items) and data.items:
        return (length,), list(data.items)
    inner = [_nested(item) for item in data.items if isinstance(item, Several)]
    if len(inner) != len(data.items) or len({axes for axes, _ in inner}) != 1:
        raise UnsureError
    return (length, *inner[0][0]), [leaf for _, leaves in inner for leaf in leaves]


@understood(2, "num_classes", "tensor")
def _one_hot(arguments: Arguments) -> Value:
    array = array_of(arguments, 0, "input", "tensor")
    if array.axes is None:
        raise UnsureError
    classes = arguments.get(1, "num_classes")
    known = isinstance(classes, Size) and classes.number != -1
    last = Axis(classes) if known and isinstance(classes, Size) else UNKNOWN
    return Array((*array.axes, last), frozenset({"int64"}), arguments.torch)


@understood(1)
def _bernoulli(arguments: Arguments) -> Value:
    return array_of(arguments)


@understood(2, "num_samples")
def _multinomial(arguments: Arguments) -> Value:
    array = array_of(arguments)
    if array.axes is None or whole(arguments.get(1, "num_samples")) < 1:
        raise UnsureError
    return Array(
        (*array.axes[:-1], Axis(number(whole(arguments.get(1, "num_samples"))))), frozenset({"int64"}), torch=True
    )


FUNCTIONS: dict[str, Operation] = {
    **dict.fromkeys(("zeros", "ones", "empty"), _filled),
    **dict.fromkeys(("rand", "randn"), _random),
    "randint": _randint,
    "full": _full,
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"), _like),
    "arange": _arange,
    "linspace": _linspace,
    "eye": _eye,
    "randperm": _randperm,
    **dict.fromkeys(("tensor", "as_tensor", "from_numpy", "array", "asarray"), _of_data),
    "one_hot": _one_hot,
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
}
METHODS: dict[str, Operation] = {
    **dict.fromkeys(("new_zeros", "new_ones", "new_empty"), _new),
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
}
