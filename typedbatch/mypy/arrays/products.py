"""Products of matrices and vectors: ``@``, ``einsum``, ``linear``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typedbatch.mypy.arrays.asking import Axes, UnsureError, apart, array_of, axes_of, of_torch, product, understood
from typedbatch.mypy.arrays.dtypes import BOOL, FLOATS, INTS, Dtypes, is_in, of_arithmetic, told
from typedbatch.mypy.arrays.elementwise import broadcast
from typedbatch.mypy.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    MisfitError,
    Operation,
    Several,
    Value,
    shown,
)

_CAST = frozenset({"float32", "float16", "bfloat16"})
"""What torch's autocast makes any of, in products."""


def _dtypes(what: str, one: Array, other: Array) -> Dtypes | None:
    """Torch multiplies one dtype only, and may have cast floats before.

    Raises:
        MisfitError: integers and floats.
    """
    for a, b in ((one, other), (other, one)):
        if one.torch and is_in(a.dtypes, INTS | BOOL) and is_in(b.dtypes, FLOATS):
            raise MisfitError(f"{what}: {told(one.dtypes)} and {told(other.dtypes)}", dtype=True)
    return _cast(of_arithmetic(one.dtypes, other.dtypes), one.torch)


def _cast(dtypes: Dtypes | None, torch: bool) -> Dtypes | None:
    return dtypes | _CAST if torch and dtypes is not None and dtypes & _CAST else dtypes


def _require_same(a: Axis, b: Axis, what: str, one: Axes, other: Axes) -> None:
    if apart(a, b):
        raise MisfitError(f"{what}: {shown(one)} and {shown(other)} do not fit: {a.size} against {b.size}")


def matmul(one: Value, other: Value) -> Value:
    """``one @ other``.

    Raises:
        MisfitError: they do not fit.
    """
    if not isinstance(one, Array) or not isinstance(other, Array) or one.torch != other.torch:
        return None
    dtypes = _dtypes("@", one, other)
    axes = None if one.axes is None or other.axes is None else _multiplied(one.axes, other.axes, "@")
    return Array(axes, dtypes, one.torch)


def _multiplied(one: Axes, other: Axes, what: str) -> Axes:
    if not one or not other:
        raise MisfitError(f"{what}: {shown(one)} and {shown(other)}: a number has no axes to multiply over")
    _require_same(one[-1], other[-2 if len(other) > 1 else 0], what, one, other)
    batches = [tuple(ASKED if axis.one else axis for axis in axes[:-2]) for axes in (one, other)]
    try:
        front = broadcast(batches, what)
    except MisfitError:
        raise MisfitError(f"{what}: {shown(one)} and {shown(other)} do not fit") from None
    return (*(front or ()), *(one[-2:-1] if len(one) > 1 else ()), *(other[-1:] if len(other) > 1 else ()))


def _ranks(what: str, *ranks: int) -> Operation:
    """A product of arrays with so many axes; the first ones of three are those of a batch."""

    @understood(2, "mat2", "vec", "tensor", "vec2", "other")
    def call(arguments: Arguments) -> Value:
        arrays = array_of(arguments), array_of(arguments, 1, "mat2", "vec", "tensor", "vec2", "other")
        for array, rank in zip(arrays, ranks, strict=True):
            if array.rank is not None and array.rank != rank:
                raise MisfitError(f"{what}: {array} has {array.rank} axes, {rank} are expected")
        dtypes = _dtypes(what, *arrays)
        one, other = axes_of(arrays[0]), axes_of(arrays[1])
        if ranks == (3, 3):
            _require_same(one[0], other[0], what, one, other)
        return Array(_multiplied(one, other, what), dtypes, arguments.torch)

    return call


@understood(2, "other", "x1", "x2")
def _matmul(arguments: Arguments) -> Value:
    one, other = array_of(arguments, 0, "input", "x1"), array_of(arguments, 1, "other", "x2")
    return matmul(one, other)


_torch_dot = _ranks("dot", 1, 1)


@understood(2, "b")
def dot(arguments: Arguments) -> Value:
    """``dot(x, y)``: numpy's takes more than vectors."""
    if arguments.torch:
        return _torch_dot(arguments)
    arrays = array_of(arguments), array_of(arguments, 1, "b")
    one, other = axes_of(arrays[0]), axes_of(arrays[1])
    dtypes = of_arithmetic(arrays[0].dtypes, arrays[1].dtypes)
    if not one or not other:
        return Array(one or other, dtypes)
    if len(other) == 1:
        _require_same(one[-1], other[0], "dot", one, other)
        return Array(one[:-1], dtypes)
    _require_same(one[-1], other[-2], "dot", one, other)
    return Array((*one[:-1], *other[:-2], other[-1]), dtypes)


@understood(2, "vec2", "b")
def outer(arguments: Arguments) -> Value:
    """``outer(x, y)``: numpy takes arrays as if they were flat."""
    arrays = array_of(arguments), array_of(arguments, 1, "vec2", "b")
    for array in arrays:
        if arguments.torch and array.rank not in (None, 1):
            raise MisfitError(f"outer: {array} has {array.rank} axes, 1 is expected")
    one, other = (axes_of(array) for array in arrays)
    axes = tuple(axes[0] if len(axes) == 1 else Axis(product(axes)) for axes in (one, other))
    return Array(axes, of_arithmetic(arrays[0].dtypes, arrays[1].dtypes), arguments.torch)


@understood(2, "other", "b")
def inner(arguments: Arguments) -> Value:
    """``inner(x, y)``: over the last axes of both."""
    arrays = array_of(arguments), array_of(arguments, 1, "other", "b")
    one, other = (axes_of(array) for array in arrays)
    dtypes = _cast(of_arithmetic(arrays[0].dtypes, arrays[1].dtypes), arguments.torch)
    if not one or not other:
        return Array(one or other, dtypes, arguments.torch)
    _require_same(one[-1], other[-1], "inner", one, other)
    return Array((*one[:-1], *other[:-1]), dtypes, arguments.torch)


@understood(3, "weight", "bias")
def linear(arguments: Arguments) -> Value:
    """``linear(x, weight, bias)``: weights of ``(out, in)``."""
    array, weight = array_of(arguments), array_of(arguments, 1, "weight")
    axes, rows = axes_of(array), axes_of(weight)
    if len(rows) not in (1, 2) or not axes:
        raise UnsureError
    _require_same(axes[-1], rows[-1], "linear", axes, rows)
    return Array((*axes[:-1], *rows[:-1]), _dtypes("linear", array, weight), torch=True)


@understood(3, "x1", "x2", "p")
def cdist(arguments: Arguments) -> Value:
    """``cdist(x, y)``: each row against each."""
    arrays = array_of(arguments, 0, "x1"), array_of(arguments, 1, "x2")
    one, other = (axes_of(array) for array in arrays)
    if len(one) < 2 or len(other) < 2:
        raise MisfitError(f"cdist: {shown(one)} and {shown(other)}: rows are expected")
    made = _multiplied(one, (*other[:-2], other[-1], other[-2]), "cdist")
    return Array(made, None, torch=True)


def _added(what: str, *ranks: int) -> Operation:
    """``baddbmm(x, one, other)``: a product, and what is added to it."""
    product_of = _ranks(what, *ranks)

    @understood(3, "batch1", "batch2", "mat1", "mat2", "mat", "vec", "beta", "alpha")
    def call(arguments: Arguments) -> Value:
        made = product_of(Arguments(arguments.given[1:3], torch=True))
        added = array_of(arguments)
        if len(arguments.given) < 3 or not isinstance(made, Array) or made.axes is None or added.axes is None:
            raise UnsureError
        asked = [tuple(ASKED if axis.one else axis for axis in axes) for axes in (added.axes, made.axes)]
        broadcast(asked, what)
        return made

    return call


# ---- einsum ---------------------------------------------------------------------------------------------------------


@understood(64, "optimize")
def einsum(arguments: Arguments) -> Value:
    """``einsum("nk,kd->nd", x, y)``."""
    equation = arguments.get(0)
    if not isinstance(equation, Literal) or not isinstance(equation.value, str) or "." in equation.value:
        raise UnsureError
    values: Sequence[Value] = arguments.given[1:]
    if len(values) == 1 and isinstance(values[0], Several):
        values = values[0].items
    arrays = [value for value in values if isinstance(value, Array) and value.torch == arguments.torch]
    if len(arrays) < len(values) or not arrays:
        raise UnsureError
    terms, result = _parsed(equation.value)
    if len(terms) != len(arrays):
        raise MisfitError(f"einsum: {equation.value} is for {len(terms)} arrays, not {len(arrays)}")
    sizes = _letters(equation.value, terms, arrays)
    if any(letter not in sizes for letter in result):
        raise MisfitError(f"einsum: {equation.value} gives a letter that it does not take")
    dtypes = arrays[0].dtypes
    for array in arrays[1:]:
        dtypes = of_arithmetic(dtypes, array.dtypes)
    return Array(tuple(sizes[letter] for letter in result), _cast(dtypes, arguments.torch), arguments.torch)


def _parsed(equation: str) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    if arrow:
        return left.split(","), right
    letters = left.replace(",", "")
    return left.split(","), "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))


def _letters(equation: str, terms: list[str], arrays: list[Array]) -> dict[str, Axis]:
    found: dict[str, Axis] = {}
    for term, array in zip(terms, arrays, strict=True):
        axes = array.axes
        if axes is None:
            axes = (UNKNOWN,) * len(term)
        if len(axes) != len(term):
            raise MisfitError(f"einsum: {term} of {equation} is for {len(term)} axes, not {shown(axes)}")
        for letter, axis in zip(term, axes, strict=True):
            found[letter] = _bound(found.get(letter), axis, f"einsum: {letter} of {equation}")
    return found


def _bound(before: Axis | None, axis: Axis, what: str) -> Axis:
    """A letter's size: one of 1 broadcasts."""
    if before is None or before.one:
        return Axis(axis.size)
    if axis.one or before.size == axis.size:
        return before
    if apart(before, axis):
        raise MisfitError(f"{what} is {before.size} and {axis.size}")
    for one in (before, axis):
        if one.size is not None and one.size.number is not None:
            return one if None in (before.size, axis.size) else UNKNOWN
    return UNKNOWN


_TORCH: dict[str, Callable[[Arguments], Value]] = {
    "bmm": _ranks("bmm", 3, 3),
    "mm": _ranks("mm", 2, 2),
    "mv": _ranks("mv", 2, 1),
}
_BOTH: dict[str, Operation] = {
    **{name: of_torch(call) for name, call in _TORCH.items()},
    "matmul": _matmul,
    "dot": dot,
    "outer": outer,
    "inner": inner,
}
FUNCTIONS: dict[str, Operation] = {
    **_BOTH,
    "einsum": einsum,
    "linear": of_torch(linear),
    "addmm": of_torch(_added("addmm", 2, 2)),
    "baddbmm": of_torch(_added("baddbmm", 3, 3)),
    "cdist": of_torch(cdist),
}
METHODS: dict[str, Operation] = {**_BOTH, "addmm": FUNCTIONS["addmm"], "baddbmm": FUNCTIONS["baddbmm"]}
