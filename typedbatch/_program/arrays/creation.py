"""Creation of arrays, with a shape, from numbers or another library, or at random; and conversions to other dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from typedbatch._program.arrays.arguments import (
    FLOAT64,
    INT64,
    Axes,
    UnsureError,
    array_of,
    axes_of,
    dtype_of,
    floats,
    integers,
    not_negative,
    of_numbers,
    of_torch,
    sizes_from,
    understood,
    whole,
)
from typedbatch._program.arrays.dtypes import FLOATS, SIGNED, Dtypes, is_in
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    DType,
    Literal,
    MismatchError,
    Operation,
    Scalar,
    Several,
    Value,
    is_none,
    sizes_of,
)


def _of_size(place: int, dtypes: Dtypes | None = None) -> Operation:
    """Return a draw with ``size`` at a position; without it, the parameters set the shape, which is not known then."""

    def call(arguments: Arguments) -> Value:
        size = arguments.get(place, "size")
        axes = None if size is None or is_none(size) else sizes_of(size)
        return None if axes is None else Array(axes, None if "dtype" in arguments.named else dtypes, torch=False)

    return call


def _of_sizes(arguments: Arguments) -> Value:
    """Return the result of ``randn(3, 2)``."""
    if not arguments.given or arguments.named:
        return None
    return Array(tuple(Axis(one if isinstance(one, Size) else None) for one in arguments.given), FLOAT64, torch=False)


DRAWS: Final[dict[str, Operation]] = {
    **{name: _of_size(0) for name in ("random", "random_sample", "standard_normal")},
    **{name: _of_size(1) for name in ("exponential", "geometric", "poisson", "standard_gamma")},
    **{name: _of_size(2) for name in ("beta", "binomial", "gamma", "laplace", "normal", "uniform")},
    **dict.fromkeys(("integers", "randint"), _of_size(2, SIGNED)),
    "rand": _of_sizes,
    "randn": _of_sizes,
}
"""Methods of generators, and functions of ``numpy.random``, by their names."""


def _shape(arguments: Arguments, most: int, place: int = 0) -> Axes:
    """Return the shape in arguments: one argument in numpy, one argument or size by size in torch."""
    if not arguments.torch:
        if len(arguments.given) > most + 1:
            raise UnsureError
        arguments = Arguments(arguments.given[:most], arguments.named)
    return _made(sizes_from(arguments, place, "size", "shape"))


def _made(axes: Axes) -> Axes:
    """Return the axes of a new array, where a 1 is a size like any other: ``zeros(n, 1)`` is declared a column.

    A size of 0 is not known, since an empty array is a placeholder for others of any size.
    """
    for axis in axes:
        if axis.size is not None and axis.size.number is not None and axis.size.number < 0:
            raise MismatchError(f"an array of size {axis.size} along an axis")
    return tuple(UNKNOWN if axis.size == number(0) else Axis(axis.size) for axis in axes)


def _filled(of: Callable[[Arguments], Dtypes]) -> Operation:
    @understood(64, "size", "shape", "dtype")
    def call(arguments: Arguments) -> Value:
        axes = _shape(arguments, 1)
        return Array(axes, dtype_of(arguments, of(arguments), -1 if arguments.torch else 1), arguments.torch)

    return call


@understood(3, "size", "shape", "fill_value", "dtype")
def full(arguments: Arguments) -> Value:
    """Return the result of ``full(size, value)``."""
    shape, value = arguments.get(0, "size", "shape"), arguments.get(1, "fill_value")
    axes = sizes_of(shape)
    dtypes = dtype_of(arguments, of_numbers([value], arguments), -1 if arguments.torch else 2)
    return Array(None if axes is None else _made(axes), dtypes, arguments.torch)


@understood(4, "start", "end", "stop", "step", "dtype")
def arange(arguments: Arguments) -> Value:
    """Return the result of ``arange(stop)``, ``arange(start, stop, step)``."""
    bounds = _bounds(arguments)
    whole_numbers = [bound for bound in bounds if isinstance(bound, Size)]
    if len(whole_numbers) < 3:
        return Array((UNKNOWN,), dtype_of(arguments, None), arguments.torch)
    dtypes = dtype_of(arguments, integers(arguments))
    return Array((Axis(_between(*whole_numbers)),), dtypes, arguments.torch)


def _bounds(arguments: Arguments) -> list[Value]:
    given = list(arguments.given[:3])
    if len(given) == 1 and not any(name in arguments.named for name in ("stop", "end")):
        given.insert(0, number(0))
    named = arguments.named
    start = given[0] if given else named.get("start", number(0))
    stop = given[1] if len(given) > 1 else named.get("stop", named.get("end"))
    step = given[2] if len(given) > 2 else named.get("step", number(1))
    return [start, stop, step]


def _between(start: Size, stop: Size, step: Size) -> Size | None:
    if start.number is not None and stop.number is not None and step.number:
        return number(len(range(start.number, stop.number, step.number)))
    if step.number is None or step.number < 1 or not not_negative(stop - start):
        return None
    return (stop - start).divided(step)


@understood(3, "start", "end", "stop", "num", "steps", "dtype", array=False)
def linspace(arguments: Arguments) -> Value:
    """Return the result of ``linspace(start, stop, num)``."""
    ends = [arguments.get(0, "start"), arguments.get(1, "stop", "end")]
    if not all(isinstance(end, (Size, Literal, Scalar)) for end in ends):
        return None
    size = arguments.get(2, "num", "steps") if arguments.has(2, "num", "steps") else number(50)
    axis = Axis(size if isinstance(size, Size) else None)
    return Array((axis,), dtype_of(arguments, floats(arguments)), arguments.torch)


@understood(2, "n", "m", "N", "M", "k", "dtype")
def eye(arguments: Arguments) -> Value:
    """Return the result of ``eye(rows, columns)``."""
    rows = arguments.get(0, "n", "N")
    columns = arguments.get(1, "m", "M") if arguments.has(1, "m", "M") else rows
    if is_none(columns):
        columns = rows
    axes = tuple(Axis(size if isinstance(size, Size) else None) for size in (rows, columns))
    return Array(axes, dtype_of(arguments, floats(arguments)), arguments.torch)


def _like(most: int, *names: str) -> Operation:
    @understood(most + 1, "dtype", *names)
    def call(arguments: Arguments) -> Value:
        array = array_of(arguments)
        return array.typed(dtype_of(arguments, array.dtypes, -1 if arguments.torch else most))

    return call


@understood(3, "low", "high", "size", "dtype")
def randint(arguments: Arguments) -> Value:
    """Return the result of ``randint(low, high, size)``."""
    size = arguments.named["size"] if "size" in arguments.named else arguments.given[-1] if arguments.given else None
    axes = sizes_of(size)
    return Array(axes if isinstance(size, Several) else None, dtype_of(arguments, INT64), arguments.torch)


@understood(1, "n", "dtype")
def randperm(arguments: Arguments) -> Value:
    """Return the result of ``randperm(n)``."""
    size = arguments.get(0, "n")
    return Array((Axis(size if isinstance(size, Size) else None),), dtype_of(arguments, INT64), arguments.torch)


@understood(64, "size", "dtype")
def _new(arguments: Arguments) -> Value:
    """Return the result of ``x.new_zeros(2, 3)``."""
    array = array_of(arguments)
    return array.shaped(_shape(arguments, 2, 1)).typed(dtype_of(arguments, array.dtypes))


@understood(3, "size", "fill_value", "dtype")
def _new_full(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = sizes_of(arguments.get(1, "size"))
    return array.shaped(None if axes is None else _made(axes)).typed(dtype_of(arguments, array.dtypes))


def _of_data(torch: bool, most: int, keeps: bool = True) -> Operation:
    @understood(most, "data", "object", "obj", "dtype")
    def call(arguments: Arguments) -> Value:
        data = arguments.get(0, "data", "object", "obj", "a")
        if isinstance(data, Array):
            kept = data.dtypes if keeps and (torch or data.dtypes != frozenset({"bfloat16"})) else None
            return Array(data.axes, dtype_of(arguments, kept, 1), torch)
        found = _read(data)
        if found is None:
            return Array(None, dtype_of(arguments, None, 1), torch)
        axes, values = found
        return Array(axes, dtype_of(arguments, of_numbers(values, arguments), 1), torch)

    return call


def _read(data: Value) -> tuple[Axes, list[Value]] | None:
    """Return the shape of nested lists and the numbers in them, or None if it is not known."""
    if isinstance(data, (Size, Scalar)) or (isinstance(data, Literal) and isinstance(data.value, (bool, int, float))):
        return (), [data]
    if not isinstance(data, Several):
        return None
    found = [_read(item) for item in data.items]
    shapes = {inside[0] for inside in found if inside is not None}
    if None in found or len(shapes) > 1:
        return None
    inner = shapes.pop() if shapes else ()
    return (Axis(number(len(found))), *inner), [value for inside in found if inside is not None for value in inside[1]]


def _new_tensor(arguments: Arguments) -> Value:
    """Return the result of ``x.new_tensor(data)``, whose dtype is that of the data, or that of ``x`` if it has none."""
    rest = Arguments(arguments.given[1:], arguments.named, torch=True)
    out = _of_data(True, 1)(rest)
    return out.typed(None) if isinstance(out, Array) else None


@understood(2, "num_classes")
def one_hot(arguments: Arguments) -> Value:
    """Return the result of ``one_hot(x, classes)``.

    Raises:
        MismatchError: The array certainly holds floats.
    """
    array = array_of(arguments)
    if is_in(array.dtypes, FLOATS):
        raise MismatchError("one_hot: classes are integers, these are floats", dtype=True)
    classes = arguments.get(1, "num_classes")
    known = isinstance(classes, Size) and classes.number != -1
    return Array((*axes_of(array), Axis(classes if known and isinstance(classes, Size) else None)), INT64, torch=True)


@understood(2, "p")
def bernoulli(arguments: Arguments) -> Value:
    """Return the result of ``bernoulli(p)``."""
    return array_of(arguments)


@understood(3, "num_samples", "replacement")
def multinomial(arguments: Arguments) -> Value:
    """Return the result of ``multinomial(weights, count)``."""
    axes, count = axes_of(array_of(arguments)), arguments.get(1, "num_samples")
    if len(axes) not in (1, 2):
        raise MismatchError(f"multinomial: weights of {len(axes)} axes, 1 or 2 are expected")
    if isinstance(count, Size) and count.number is not None:
        whole(count)
    return Array((*axes[:-1], Axis(count if isinstance(count, Size) else None)), INT64, torch=True)


_FLOATS = _filled(floats)

FUNCTIONS: dict[str, Operation] = {
    **dict.fromkeys(("zeros", "ones", "empty"), _FLOATS),
    **dict.fromkeys(("rand", "randn"), of_torch(_FLOATS)),
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like"), _like(1)),
    **dict.fromkeys(("rand_like", "randn_like"), of_torch(_like(1))),
    "full_like": _like(2, "fill_value"),
    "randint_like": of_torch(_like(3, "low", "high")),
    "full": full,
    "arange": arange,
    "linspace": linspace,
    "eye": eye,
    "randint": of_torch(randint),
    "randperm": of_torch(randperm),
    "bernoulli": of_torch(bernoulli),
    "multinomial": of_torch(multinomial),
    "tensor": of_torch(_of_data(True, 1)),
    "as_tensor": of_torch(_of_data(True, 1)),
    "from_numpy": of_torch(_of_data(True, 1)),
    "array": _of_data(False, 2),
    "asarray": lambda arguments: _of_data(arguments.torch, 1 if arguments.torch else 2)(arguments),
    "one_hot": of_torch(one_hot),
}
METHODS: dict[str, Operation] = {
    **dict.fromkeys(("new_zeros", "new_ones", "new_empty"), of_torch(_new)),
    "new_full": of_torch(_new_full),
    "new_tensor": of_torch(_new_tensor),
    "bernoulli": of_torch(bernoulli),
    "multinomial": of_torch(multinomial),
}


_SHORT: Final = {
    "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8", "double": "float64", "float": "float32", "half": "float16",
    "int": "int32", "long": "int64", "short": "int16",
}  # fmt: skip


def _of_array(operation: Callable[[Array, Arguments], Value]) -> Operation:
    """Return an operation on the array that a method is called on."""

    def call(arguments: Arguments) -> Value:
        array = arguments.array()
        return None if array is None else operation(array, Arguments(arguments.given[1:], arguments.named))

    return call


def _size(array: Array, arguments: Arguments) -> Value:
    if array.axes is None or not array.torch:
        return None
    if not arguments.has(0, "dim"):
        return Several(tuple(axis.size for axis in array.axes))
    at = arguments.whole(0, "dim")
    return array.axes[at].size if at is not None and -len(array.axes) <= at < len(array.axes) else None


def _converted(array: Array, arguments: Arguments) -> Value:
    """Return the result of ``x.to(torch.float32)``, ``x.to("cuda")``, ``x.to(other)``."""
    every = [*arguments.given, *arguments.named.values()]
    dtypes = [value for value in every if isinstance(value, DType)]
    if len(dtypes) == 1:
        return array.typed(dtypes[0].dtypes)
    moved = array.torch and all(isinstance(value, Literal) for value in every)
    return array if moved else array.typed(None)


def _retyped(array: Array, arguments: Arguments) -> Value:
    """Return the result of ``x.astype(np.float32)``, ``x.type("torch.FloatTensor")``."""
    dtypes = [value for value in (*arguments.given, *arguments.named.values()) if isinstance(value, DType)]
    return array.typed(dtypes[0].dtypes if len(dtypes) == 1 else None)


def _to(name: str) -> Operation:
    def convert(array: Array, arguments: Arguments) -> Value:
        return array.typed(frozenset({_SHORT[name]}) if array.torch else None)

    return _of_array(convert)


CONVERSIONS: Final[dict[str, Operation]] = {
    **{name: _to(name) for name in _SHORT},
    **dict.fromkeys(("astype", "type"), _of_array(_retyped)),
    "to": _of_array(_converted),
    **dict.fromkeys(("numel", "tolist"), lambda arguments: None),
    "dim": _of_array(lambda array, arguments: None if array.axes is None else number(len(array.axes))),
    "item": lambda arguments: Scalar(),
    "numpy": _of_array(lambda array, arguments: Array(array.axes, array.dtypes, torch=False)),
    "size": _of_array(_size),
}
"""Methods of arrays and tensors that convert."""
