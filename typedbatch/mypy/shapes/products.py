"""Products of matrices: ``@``, ``bmm``, ``einsum``, linear layers."""

from __future__ import annotations

from collections.abc import Sequence

from typedbatch.mypy.shapes.asking import UnsureError, array_of, axes_of, same_dtypes, understood
from typedbatch.mypy.shapes.dtypes import Dtypes, of_arithmetic
from typedbatch.mypy.shapes.elementwise import broadcast
from typedbatch.mypy.shapes.sizes import Size, differ
from typedbatch.mypy.shapes.values import UNKNOWN, Arguments, Array, Axis, Literal, MisfitError, Operation, Value, shown


def matmul(one: Value, other: Value) -> Value:
    """``one @ other``.

    Raises:
        MisfitError: the inner sizes certainly differ.
    """
    if not isinstance(one, Array) or not isinstance(other, Array) or one.torch != other.torch:
        return None
    unknown = Array(None, None, one.torch)
    a, b = one.axes, other.axes
    if a is None or b is None:
        return unknown
    if not a or not b:
        raise MisfitError(f"@: {one} and {other}: a number is not a matrix")
    inner, its = a[-1], b[-2:][0]
    if inner.size is not None and its.size is not None and differ(inner.size, its.size):
        raise MisfitError(f"@: {one} and {other} do not fit: {inner.size} against {its.size}")
    front = broadcast([a[:-2], b[:-2]], "@")
    if front is None:
        return unknown
    last = [*([Axis(a[-2].size)] if len(a) > 1 else []), *([Axis(b[-1].size)] if len(b) > 1 else [])]
    return Array((*front, *last), _dtypes([one, other]), one.torch)


def _dtypes(arrays: Sequence[Array]) -> Dtypes | None:
    return same_dtypes(arrays, of_arithmetic)


def _product(one_rank: int | None, other_rank: int | None, name: str) -> Operation:
    """A product of arrays that have so many axes."""

    @understood(2, "other", "mat2", "vec", "tensor", "b")
    def call(arguments: Arguments) -> Value:
        one, other = (
            array_of(arguments, 0, "input", "a", "self"),
            array_of(arguments, 1, "other", "mat2", "vec", "tensor", "b"),
        )
        for array, rank in ((one, one_rank), (other, other_rank)):
            if rank is not None and array.rank not in (None, rank):
                raise MisfitError(f"{name}: {array} has not {rank} axes")
        if name == "bmm" and one.axes is not None and other.axes is not None:
            first, second = one.axes[0].size, other.axes[0].size
            if first is not None and second is not None and differ(first, second):
                raise MisfitError(f"bmm: {one} and {other} do not fit: {first} against {second}")
        if not arguments.torch and name == "dot" and (one.rank != 1 or other.rank != 1):
            raise UnsureError
        return matmul(one, other)

    return call


@understood(2, "vec2", "b")
def _outer(arguments: Arguments) -> Value:
    one, other = array_of(arguments), array_of(arguments, 1, "vec2", "b")
    if len(axes_of(one)) != 1 or len(axes_of(other)) != 1:
        raise UnsureError
    return Array((Axis(axes_of(one)[0].size), Axis(axes_of(other)[0].size)), _dtypes([one, other]), arguments.torch)


@understood(3, "weight", "bias")
def _linear(arguments: Arguments) -> Value:
    array, weight = array_of(arguments), array_of(arguments, 1, "weight")
    axes, sizes = axes_of(array), axes_of(weight)
    if len(sizes) != 2 or not axes:
        raise UnsureError
    if axes[-1].size is not None and sizes[1].size is not None and differ(axes[-1].size, sizes[1].size):
        raise MisfitError(
            f"linear: {array} and a weight of {weight} do not fit: {axes[-1].size} against {sizes[1].size}"
        )
    return Array((*axes[:-1], Axis(sizes[0].size)), _dtypes([array, weight]), torch=True)


@understood(3, "p", "x1", "x2")
def _cdist(arguments: Arguments) -> Value:
    one, other = array_of(arguments, 0, "x1"), array_of(arguments, 1, "x2")
    a, b = axes_of(one), axes_of(other)
    if len(a) != 2 or len(b) != 2:
        raise UnsureError
    return Array((Axis(a[0].size), Axis(b[0].size)), None, torch=True)


@understood(12, "optimize")
def _einsum(arguments: Arguments) -> Value:
    """Each letter is one size."""
    equation = arguments.get(0)
    arrays = [array_of(arguments, place) for place in range(1, len(arguments.given))]
    if not isinstance(equation, Literal) or not isinstance(equation.value, str) or not arrays:
        raise UnsureError
    text = equation.value.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if not arrow or "." in text or len(parts) != len(arrays) or not text.replace("->", "").replace(",", "").isalpha():
        raise UnsureError
    sizes: dict[str, Axis] = {}
    for part, array in zip(parts, arrays, strict=True):
        _bind(part, array, sizes, equation.value)
    if any(letter not in sizes for letter in output):
        raise MisfitError(f"einsum {equation.value!r}: a letter of the result is in no array")
    return Array(tuple(sizes[letter] for letter in output), _dtypes(arrays), arguments.torch)


def _bind(part: str, array: Array, sizes: dict[str, Axis], equation: str) -> None:
    if array.axes is None:
        for letter in part:
            sizes.setdefault(letter, UNKNOWN)
        return
    if len(part) != len(array.axes):
        raise MisfitError(f"einsum {equation!r}: {part!r} has not as many letters as {shown(array.axes)} has axes")
    for letter, axis in zip(part, array.axes, strict=True):
        known: Size | None = sizes[letter].size if letter in sizes else None
        if (
            known is not None
            and axis.size is not None
            and not axis.one
            and known.number != 1
            and differ(known, axis.size)
        ):
            raise MisfitError(f"einsum {equation!r}: {letter} is {known} and {axis.size}")
        if known is None or known.number == 1:
            sizes[letter] = Axis(axis.size)


FUNCTIONS: dict[str, Operation] = {
    "matmul": _product(None, None, "matmul"),
    "mm": _product(2, 2, "mm"),
    "bmm": _product(3, 3, "bmm"),
    "mv": _product(2, 1, "mv"),
    "dot": _product(None, None, "dot"),
    "outer": _outer,
    "linear": _linear,
    "cdist": _cdist,
    "einsum": _einsum,
}
METHODS: dict[str, Operation] = {name: FUNCTIONS[name] for name in ("matmul", "mm", "bmm", "mv", "dot", "outer")}
