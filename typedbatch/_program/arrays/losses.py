"""Losses, which take two arrays of equal shape, or classes."""

from __future__ import annotations

from collections.abc import Callable

from typedbatch._program.arrays.arguments import (
    Axes,
    UnsureError,
    apart,
    array_of,
    axes_of,
    of_torch,
    place_in,
    same_axis,
    understood,
    whole_of,
)
from typedbatch._program.arrays.dtypes import BOOL, FLOATS, INTS, Dtypes, is_in, of_arithmetic, told
from typedbatch._program.arrays.pointwise import broadcast
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    MismatchError,
    Operation,
    Value,
    shown,
)

_TARGET = ("target",)
_NAMES = ("target", "weight", "reduction", "pos_weight", "beta", "delta", "log_target", "ignore_index")


def _both(arguments: Arguments) -> tuple[Array, Array]:
    return array_of(arguments, 0, "input"), array_of(arguments, 1, *_TARGET)


def _dtypes(one: Array, other: Array) -> Dtypes | None:
    both = of_arithmetic(one.dtypes, other.dtypes)
    return both if is_in(both, FLOATS) else None


def _left(arguments: Arguments, axes: Axes) -> Axes:
    """Return the axes that ``reduction=`` leaves."""
    if "reduction" not in arguments.named:
        return ()
    said = arguments.named["reduction"]
    if not isinstance(said, Literal) or not isinstance(said.value, str):
        raise UnsureError
    return axes if said.value == "none" else ()


def _loss(what: str, shape: Callable[[str, Axes, Axes], Axes]) -> Operation:
    @understood(2, *_NAMES)
    def call(arguments: Arguments) -> Value:
        one, other = _both(arguments)
        axes = shape(what, axes_of(one), axes_of(other))
        return Array(_left(arguments, axes), _dtypes(one, other), torch=True)

    return call


def _meant_same(what: str, one: Axes, other: Axes) -> Axes:
    """Return the shape of two equal shapes; only numbers, and axes of size 1 that the code inserted, are broadcast."""
    if not one or not other:
        return one or other
    if len(one) != len(other) or any(_mismatch(a, b) for a, b in zip(one, other, strict=True)):
        if not any(axis.asked for axis in (*one, *other)):
            raise MismatchError(f"{what}: {shown(one)} and {shown(other)} are not the same shape")
        return _spread(what, one, other)
    return tuple(Axis(a.size) if a.size == b.size else UNKNOWN for a, b in zip(one, other, strict=True))


def _mismatch(one: Axis, other: Axis) -> bool:
    """Return whether two axes differ in size, where a 1 differs from a named size, too."""
    for a, b in ((one, other), (other, one)):
        if a.one and not b.one and b.size is not None and (b.size.number is not None or b.size.name is not None):
            return b.size.name is None or not b.size.name.opaque
    return apart(one, other)


def _spread(what: str, one: Axes, other: Axes) -> Axes:
    shapes = [tuple(ASKED if axis.one else axis for axis in axes) for axes in (one, other)]
    axes = broadcast(shapes, what)
    assert axes is not None
    return axes


def _must_be_same(what: str, one: Axes, other: Axes) -> Axes:
    """Return the shape of two arrays that are not broadcast."""
    asked = any(axis.asked for axis in (*one, *other))
    if len(one) != len(other) or any(
        apart(a, b) or (not asked and _mismatch(a, b)) for a, b in zip(one, other, strict=True)
    ):
        raise MismatchError(f"{what}: {shown(one)} and {shown(other)} are not the same shape")
    return tuple(same_axis(a, b) for a, b in zip(one, other, strict=True))


# ---- classes --------------------------------------------------------------------------------------------------------


def _classes(what: str, *, probabilities: bool) -> Operation:
    """Return a loss of logits ``(N, C, ...)`` for classes ``(N, ...)``."""

    @understood(3, *_NAMES, "label_smoothing")
    def call(arguments: Arguments) -> Value:
        one, other = _both(arguments)
        axes, target = axes_of(one), axes_of(other)
        if not axes or (len(axes) == len(target) == 1 and not apart(target[0], ASKED)):
            raise UnsureError  # An axis of size 1 may hold one class.
        if probabilities and len(target) == len(axes):
            _require_probabilities(what, one, other)
            left = (*axes[:1], *axes[2:]) if len(axes) > 1 else ()
            return Array(_left(arguments, left), _dtypes(one, other), torch=True)
        _require_classes(what, axes, target, other)
        return Array(_left(arguments, target), one.dtypes if is_in(one.dtypes, FLOATS) else None, torch=True)

    return call


def _require_probabilities(what: str, one: Array, other: Array) -> None:
    axes, target = axes_of(one), axes_of(other)
    if is_in(other.dtypes, INTS | BOOL):
        classes = (*axes[:1], *axes[2:]) if len(axes) > 1 else ()
        raise MismatchError(f"{what}: classes of {shown(target)} for {shown(axes)}, {shown(classes)} is expected")
    if any(apart(a, b) for a, b in zip(axes, target, strict=True)):
        raise MismatchError(f"{what}: probabilities of {shown(target)} for {shown(axes)} are not the same shape")


def _require_classes(what: str, axes: Axes, target: Axes, other: Array) -> None:
    expected = (*axes[:1], *axes[2:]) if len(axes) > 1 else ()
    if len(target) != len(expected) or any(apart(a, b) for a, b in zip(expected, target, strict=True)):
        raise MismatchError(f"{what}: classes of {shown(target)} for {shown(axes)}, {shown(expected)} is expected")
    if is_in(other.dtypes, FLOATS):
        raise MismatchError(f"{what}: classes are integers, these are {told(other.dtypes)}", dtype=True)


@understood(4, "x1", "x2", "dim", "eps")
def cosine_similarity(arguments: Arguments) -> Value:
    """Return the result of ``cosine_similarity(x, y, dim)``."""
    one, other = array_of(arguments, 0, "x1"), array_of(arguments, 1, "x2")
    axes = _spread("cosine_similarity", axes_of(one), axes_of(other))
    at = place_in(axes, whole_of(arguments, 1, 2, "dim"), "cosine_similarity")
    return Array((*axes[:at], *axes[at + 1 :]), _dtypes(one, other), torch=True)


FUNCTIONS: dict[str, Operation] = {
    name: of_torch(call)
    for name, call in {
        **{name: _loss(name, _meant_same) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")},
        "binary_cross_entropy": _loss("binary_cross_entropy", _must_be_same),
        "binary_cross_entropy_with_logits": _loss("binary_cross_entropy_with_logits", _must_be_same),
        "kl_div": _loss("kl_div", _spread),
        "cross_entropy": _classes("cross_entropy", probabilities=True),
        "nll_loss": _classes("nll_loss", probabilities=False),
        "cosine_similarity": cosine_similarity,
    }.items()
}
METHODS: dict[str, Operation] = {}
