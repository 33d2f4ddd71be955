"""Operations that pick elements by their place: gather, scatter, take, embedding."""

from __future__ import annotations

from typedbatch.mypy.shapes.asking import (
    INT64,
    UnsureError,
    array_of,
    axes_of,
    flag_of,
    greater,
    nothing,
    place_in,
    understood,
    whole,
    whole_of,
)
from typedbatch.mypy.shapes.dtypes import FLOATS, is_in, told
from typedbatch.mypy.shapes.sizes import differ
from typedbatch.mypy.shapes.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    MisfitError,
    Operation,
    Value,
)


def _require_index(index: Array, what: str) -> None:
    if is_in(index.dtypes, FLOATS):
        raise MisfitError(f"{what}: an index of {told(index.dtypes)}; it has to be integers", dtype=True)


def _require_beside(array: Array, index: Array, at: int, what: str) -> None:
    """An index has as many axes, and is nowhere longer, but along its own axis."""
    axes, its = axes_of(array), axes_of(index)
    if len(axes) != len(its):
        raise MisfitError(f"{what}: an index of {index} for {array}: both have the same number of axes")
    for place, (mine, other) in enumerate(zip(axes, its, strict=True)):
        if place == at or mine.size is None or other.size is None or not differ(mine.size, other.size):
            continue
        if not greater(mine.size, other.size):
            raise MisfitError(f"{what}: an index of {index} for {array}: {other.size} against {mine.size}")


@understood(4, "dim", "index", "sparse_grad", "indices", "axis")
def _gather(arguments: Arguments) -> Value:
    array, index = array_of(arguments), array_of(arguments, 2, "index")
    _require_index(index, "gather")
    at = place_in(axes_of(array), whole(arguments.get(1, "dim")), "gather", torch=True)
    _require_beside(array, index, at, "gather")
    return array.shaped([Axis(axis.size) for axis in axes_of(index)])  # nobody asked for its 1 to be broadcast


@understood(3, "indices", "dim", "axis")
def _take_along(arguments: Arguments) -> Value:
    array, index = array_of(arguments, 0, "input", "arr"), array_of(arguments, 1, "indices")
    _require_index(index, "take_along_axis")
    if not arguments.has(2, "dim", "axis"):
        raise UnsureError
    axes, its = axes_of(array), axes_of(index)
    at = place_in(axes, whole(arguments.get(2, "dim", "axis")), "take_along_axis", arguments.torch)
    if len(axes) != len(its):
        raise MisfitError(f"take_along_axis: an index of {index} for {array}: both have the same number of axes")
    out = []
    for place, (mine, other) in enumerate(zip(axes, its, strict=True)):
        if place != at and mine.size != other.size:
            if mine.size is None or other.size is None or mine.one or other.one:
                raise UnsureError
            if differ(mine.size, other.size):
                text = f"take_along_axis: an index of {index} for {array}: {other.size} against {mine.size}"
                raise MisfitError(text)
        out.append(Axis(other.size))
    return array.shaped(out)


@understood(5, "dim", "index", "src", "value", "reduce")
def _scatter(arguments: Arguments) -> Value:
    array, index = array_of(arguments), arguments.array(2, "index")
    axes = axes_of(array)
    if index is not None and index.axes is not None and index.torch == array.torch:
        _require_index(index, "scatter")
        place_in(axes, whole(arguments.get(1, "dim")), "scatter", torch=True)
        if len(index.axes) != len(axes):
            raise MisfitError(f"scatter: an index of {index} for {array}: both have the same number of axes")
    return array


@understood(3, "dim", "index")
def _index_select(arguments: Arguments) -> Value:
    array, index = array_of(arguments), array_of(arguments, 2, "index")
    _require_index(index, "index_select")
    axes, its = axes_of(array), axes_of(index)
    place = place_in(axes, whole(arguments.get(1, "dim")), "index_select", torch=True)
    if len(its) > 1:
        raise MisfitError(f"index_select: an index of one axis, got {index}")
    return array.shaped([*axes[:place], Axis(its[0].size) if its else UNKNOWN, *axes[place + 1 :]])


@understood(3, "indices", "axis")
def _take(arguments: Arguments) -> Value:
    array, index = array_of(arguments), array_of(arguments, 1, "indices", "index")
    if not arguments.has(2, "axis"):
        return array.shaped([Axis(axis.size) for axis in axes_of(index)])
    axes = axes_of(array)
    place = place_in(axes, whole(arguments.get(2, "axis")), "take", arguments.torch)
    return array.shaped([*axes[:place], *axes_of(index), *axes[place + 1 :]])


@understood(2, "mask")
def _masked_select(arguments: Arguments) -> Value:
    return array_of(arguments).shaped([UNKNOWN])


@understood(1)
def _argwhere(arguments: Arguments) -> Value:
    array = array_of(arguments)
    rank = len(axes_of(array))
    if not rank:
        raise UnsureError
    return Array((UNKNOWN, UNKNOWN), INT64 if arguments.torch else None, arguments.torch)


@understood(3, "minlength", "weights")
def _bincount(arguments: Arguments) -> Value:
    array_of(arguments)
    return Array((UNKNOWN,), None, arguments.torch)


@understood(3, "offset", "dim1", "dim2", "axis1", "axis2")
def _diagonal(arguments: Arguments) -> Value:
    """The diagonal of the first two axes comes last."""
    array = array_of(arguments)
    axes = axes_of(array)
    if len(arguments.given) > 1 or arguments.named.keys() & {"offset", "dim1", "dim2", "axis1", "axis2"}:
        raise UnsureError
    if len(axes) < 2:
        raise MisfitError(f"diagonal: two axes or more are needed, got {array}")
    last = Axis(axes[0].size) if axes[0].size == axes[1].size else UNKNOWN
    return array.shaped([*axes[2:], last])


@understood(3, "weight", "padding_idx")
def _embedding(arguments: Arguments) -> Value:
    index, weight = array_of(arguments), array_of(arguments, 1, "weight")
    _require_index(index, "embedding")
    axes, rows = axes_of(index), axes_of(weight)
    if len(rows) != 2:
        raise MisfitError(f"embedding: a weight of two axes, got {weight}")
    return Array((*axes, Axis(rows[1].size)), weight.dtypes, torch=True)


@understood(4, "dims", "shifts", "start_dim", "dim")
def _narrow(arguments: Arguments) -> Value:
    """``x.narrow(dim, start, length)``."""
    array = array_of(arguments)
    axes = axes_of(array)
    place = place_in(axes, whole_of(arguments, 0, 1, "dim"), "narrow", torch=True)
    if len(arguments.given) != 4 or flag_of(arguments, 9):
        raise UnsureError
    length = arguments.whole(3)
    size = axes[place].size
    same = size is not None and length is not None and size.number == length
    return array.shaped([*axes[:place], axes[place] if same else UNKNOWN, *axes[place + 1 :]])


FUNCTIONS: dict[str, Operation] = {
    "gather": _gather,
    **dict.fromkeys(("take_along_dim", "take_along_axis"), _take_along),
    **dict.fromkeys(("scatter", "scatter_add"), _scatter),
    "index_select": _index_select,
    "take": _take,
    "masked_select": _masked_select,
    "argwhere": _argwhere,
    "bincount": _bincount,
    "diagonal": _diagonal,
    "embedding": _embedding,
    **dict.fromkeys(("nonzero", "unique", "searchsorted"), nothing),
}
METHODS: dict[str, Operation] = {
    "narrow": _narrow,
    **{name: call for name, call in FUNCTIONS.items() if name not in ("embedding", "take_along_axis")},
}
