"""Products of matrices and vectors, ``@``, ``einsum``, ``linear``; and patterns of einops, ``"b (h d) -> b h d"``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from typedbatch._program.arrays.arguments import (
    Axes,
    UnsureError,
    apart,
    array_of,
    axes_of,
    of_torch,
    product,
    sized,
    understood,
)
from typedbatch._program.arrays.dtypes import BOOL, FLOATS, INTS, Dtypes, is_in, of_arithmetic, told
from typedbatch._program.arrays.pointwise import broadcast
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    MismatchError,
    Operation,
    Several,
    Value,
    shown,
)

_CAST = frozenset({"float32", "float16", "bfloat16"})
"""Dtypes that autocast of torch may choose in products."""


def _dtypes(what: str, one: Array, other: Array) -> Dtypes | None:
    """Return the dtypes of a product; torch refuses integers with floats, and autocast may have changed floats."""
    for a, b in ((one, other), (other, one)):
        if one.torch and is_in(a.dtypes, INTS | BOOL) and is_in(b.dtypes, FLOATS):
            raise MismatchError(f"{what}: {told(one.dtypes)} and {told(other.dtypes)}", dtype=True)
    return _cast(of_arithmetic(one.dtypes, other.dtypes), one.torch)


def _cast(dtypes: Dtypes | None, torch: bool) -> Dtypes | None:
    return dtypes | _CAST if torch and dtypes is not None and dtypes & _CAST else dtypes


def _require_same(a: Axis, b: Axis, what: str, one: Axes, other: Axes) -> None:
    if apart(a, b):
        raise MismatchError(f"{what}: {shown(one)} and {shown(other)} do not fit: {a.size} against {b.size}")


def matmul(one: Value, other: Value) -> Value:
    """Return the result of ``one @ other``.

    Raises:
        MismatchError: The shapes or dtypes do not fit.
    """
    if not isinstance(one, Array) or not isinstance(other, Array) or one.torch != other.torch:
        return None
    dtypes = _dtypes("@", one, other)
    axes = None if one.axes is None or other.axes is None else _multiplied(one.axes, other.axes, "@")
    return Array(axes, dtypes, one.torch)


def _multiplied(one: Axes, other: Axes, what: str) -> Axes:
    if not one or not other:
        raise MismatchError(f"{what}: {shown(one)} and {shown(other)}: a number has no axes to multiply over")
    _require_same(one[-1], other[-2 if len(other) > 1 else 0], what, one, other)
    batches = [tuple(ASKED if axis.one else axis for axis in axes[:-2]) for axes in (one, other)]
    try:
        front = broadcast(batches, what)
    except MismatchError:
        raise MismatchError(f"{what}: {shown(one)} and {shown(other)} do not fit") from None
    return (*(front or ()), *(one[-2:-1] if len(one) > 1 else ()), *(other[-1:] if len(other) > 1 else ()))


def _ranks(what: str, *ranks: int) -> Operation:
    """Return a product of arrays of the given ranks; the first axis of arrays of rank 3 is that of a batch."""

    @understood(2, "mat2", "vec", "tensor", "vec2", "other")
    def call(arguments: Arguments) -> Value:
        arrays = array_of(arguments), array_of(arguments, 1, "mat2", "vec", "tensor", "vec2", "other")
        for array, rank in zip(arrays, ranks, strict=True):
            if array.rank is not None and array.rank != rank:
                raise MismatchError(f"{what}: {array} has {array.rank} axes, {rank} are expected")
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
    """Return the result of ``dot(x, y)``, which takes more than vectors in numpy."""
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
    """Return the result of ``outer(x, y)``; numpy flattens both arrays."""
    arrays = array_of(arguments), array_of(arguments, 1, "vec2", "b")
    for array in arrays:
        if arguments.torch and array.rank not in (None, 1):
            raise MismatchError(f"outer: {array} has {array.rank} axes, 1 is expected")
    one, other = (axes_of(array) for array in arrays)
    axes = tuple(axes[0] if len(axes) == 1 else Axis(product(axes)) for axes in (one, other))
    return Array(axes, of_arithmetic(arrays[0].dtypes, arrays[1].dtypes), arguments.torch)


@understood(2, "other", "b")
def inner(arguments: Arguments) -> Value:
    """Return the result of ``inner(x, y)``, which sums over the last axes of both."""
    arrays = array_of(arguments), array_of(arguments, 1, "other", "b")
    one, other = (axes_of(array) for array in arrays)
    dtypes = _cast(of_arithmetic(arrays[0].dtypes, arrays[1].dtypes), arguments.torch)
    if not one or not other:
        return Array(one or other, dtypes, arguments.torch)
    _require_same(one[-1], other[-1], "inner", one, other)
    return Array((*one[:-1], *other[:-1]), dtypes, arguments.torch)


@understood(3, "weight", "bias")
def linear(arguments: Arguments) -> Value:
    """Return the result of ``linear(x, weight, bias)``, with weights of ``(out, in)``."""
    array, weight = array_of(arguments), array_of(arguments, 1, "weight")
    axes, rows = axes_of(array), axes_of(weight)
    if len(rows) not in (1, 2) or not axes:
        raise UnsureError
    _require_same(axes[-1], rows[-1], "linear", axes, rows)
    return Array((*axes[:-1], *rows[:-1]), _dtypes("linear", array, weight), torch=True)


@understood(3, "x1", "x2", "p")
def cdist(arguments: Arguments) -> Value:
    """Return the result of ``cdist(x, y)``, a distance for each pair of rows."""
    arrays = array_of(arguments, 0, "x1"), array_of(arguments, 1, "x2")
    one, other = (axes_of(array) for array in arrays)
    if len(one) < 2 or len(other) < 2:
        raise MismatchError(f"cdist: {shown(one)} and {shown(other)}: rows are expected")
    made = _multiplied(one, (*other[:-2], other[-1], other[-2]), "cdist")
    return Array(made, None, torch=True)


def _added(what: str, *ranks: int) -> Operation:
    """Return the operation ``baddbmm(x, one, other)``, which adds ``x`` to a product."""
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
    """Return the result of ``einsum("nk,kd->nd", x, y)``."""
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
        raise MismatchError(f"einsum: {equation.value} is for {len(terms)} arrays, not {len(arrays)}")
    sizes = _letters(equation.value, terms, arrays)
    if any(letter not in sizes for letter in result):
        raise MismatchError(f"einsum: {equation.value} gives a letter that it does not take")
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
            raise MismatchError(f"einsum: {term} of {equation} is for {len(term)} axes, not {shown(axes)}")
        for letter, axis in zip(term, axes, strict=True):
            found[letter] = _bound(found.get(letter), axis, f"einsum: {letter} of {equation}")
    return found


def _bound(before: Axis | None, axis: Axis, what: str) -> Axis:
    """Return the axis of a letter that has two sizes, where a size of 1 is broadcast."""
    if before is None or before.one:
        return Axis(axis.size)
    if axis.one or before.size == axis.size:
        return before
    if apart(before, axis):
        raise MismatchError(f"{what} is {before.size} and {axis.size}")
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


Group = tuple[str, ...]
_WORD: Final = re.compile(r"\(([^()]*)\)|([^\s()]+)")


def _groups(text: str) -> list[Group]:
    """Return the axes of one side of a pattern without ``...``; each is one name, or the names of a product."""
    if "." in text:
        raise UnsureError
    return [tuple((inside or word).split()) for inside, word in _WORD.findall(text)]


def _text(value: Value) -> str:
    if not isinstance(value, Literal) or not isinstance(value.value, str):
        raise UnsureError
    return value.value


def _sides(pattern: str) -> tuple[str, str]:
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise UnsureError
    return left, right


def _bound_word(name: str, axis: Axis, found: dict[str, Axis], what: str) -> None:
    before = found.get(name)
    if before is not None and apart(before, axis):
        raise MismatchError(f"{what}: {name} is {before} and {axis}")
    if before is None or before.size is None:
        found[name] = Axis(axis.size)


def _learn(groups: list[Group], axes: Axes, found: dict[str, Axis], what: str) -> None:
    """Add the sizes that a shape gives to the names of a pattern, and refuse contradictions."""
    if len(groups) != len(axes):
        raise MismatchError(f"{what} is for {len(groups)} axes, got {shown(axes)}")
    for group, axis in zip(groups, axes, strict=True):
        names = [name for name in group if not name.isdigit()]
        if len(names) == 1 and len(group) == 1:
            _bound_word(names[0], axis, found, what)
            continue
        open_ = [name for name in names if name not in found]
        inside = product([_of(name, found) for name in group if name not in open_])
        if axis.size is None or inside is None or len(open_) > 1:
            continue
        if not open_:
            if apart(axis, Axis(inside)):
                raise MismatchError(f"{what}: ({' '.join(group)}) is {inside} and {axis}")
            continue
        if inside.number == 0:
            continue
        if axis.size.number is not None and inside.number is not None and axis.size.number % inside.number:
            raise MismatchError(f"{what}: {axis} is not a multiple of {inside}")
        _bound_word(open_[0], Axis(axis.size.over(inside)), found, what)


def _of(name: str, found: Mapping[str, Axis]) -> Axis:
    return sized(number(int(name))) if name.isdigit() else found.get(name, UNKNOWN)


def _made(groups: list[Group], found: Mapping[str, Axis]) -> Axes:
    each = ([_of(name, found) for name in group] for group in groups)
    return tuple(axes[0] if len(axes) == 1 else Axis(product(axes)) for axes in each)


def _names(groups: list[Group]) -> set[str]:
    return {name for group in groups for name in group if not name.isdigit()}


def _rearranged(name: str, pattern_at: int) -> Operation:
    """Return the operation ``rearrange``, ``reduce`` or ``repeat``, which takes a pattern and the sizes of names."""

    def call(arguments: Arguments) -> Value:
        array, pattern = arguments.array(0, "tensor"), arguments.get(pattern_at, "pattern")
        if array is None:
            return None
        try:
            left, right = map(_groups, _sides(_text(pattern)))
            what = f"{name} {_text(pattern)!r}"
            given = {word: sized(value) for word, value in arguments.named.items() if isinstance(value, Size)}
            found = dict(given)
            _require_names(name, what, _names(left), _names(right), set(arguments.named))
            _learn(left, axes_of(array), found, what)
            return Array(_made(right, found), array.dtypes if name != "reduce" else None, array.torch)
        except UnsureError:
            return Array(None, array.dtypes if name != "reduce" else None, array.torch)

    return call


def _require_names(name: str, what: str, left: set[str], right: set[str], given: set[str]) -> None:
    lost, new = sorted(left - right), sorted(right - left - given)
    if (lost and name != "reduce") or (name != "repeat" and right - left) or new:
        word = (lost if name != "reduce" else []) or sorted(right - left)
        raise MismatchError(f"{what}: {', '.join(word)} is on one side only")


def _einsum_of_words(arguments: Arguments) -> Value:
    """Return the result of ``einsum(x, y, "b i, i j -> b j")`` of einops: words as names, and the pattern last."""
    *values, pattern = arguments.given or (None,)
    arrays = [value for value in values if isinstance(value, Array)]
    if not arrays or len(arrays) < len(values):
        return None
    try:
        text = _text(pattern)
        left, right = _sides(text)
        terms = [_groups(term) for term in left.split(",")]
        if len(terms) != len(arrays):
            raise MismatchError(f"einsum {text!r} is for {len(terms)} arrays, not {len(arrays)}")
        found: dict[str, Axis] = {}
        for term, array in zip(terms, arrays, strict=True):
            _learn(term, axes_of(array), found, f"einsum {text!r}")
        result = _groups(right)
        new = sorted(_names(result) - set().union(*map(_names, terms)))
        if new:
            raise MismatchError(f"einsum {text!r}: {', '.join(new)} is on one side only")
        return Array(_made(result, found), None, arrays[0].torch)
    except UnsureError:
        return Array(None, None, arrays[0].torch)


def pack(arguments: Arguments) -> Value:
    """Return the result of ``pack([x, y], "b *")``, one array and the shapes of all."""
    arrays = arguments.get(0, "tensors")
    first = arrays.items[0] if isinstance(arrays, Several) and arrays.items else None
    return Several((Array(None, None, first.torch), None)) if isinstance(first, Array) else None


EINOPS_FUNCTIONS: Final[dict[str, Operation]] = {
    "rearrange": _rearranged("rearrange", 1),
    "reduce": _rearranged("reduce", 1),
    "repeat": _rearranged("repeat", 1),
    "einsum": _einsum_of_words,
    "pack": pack,
}
