"""torch's losses: shapes that have to be the same, or a target that has one axis less."""

from __future__ import annotations

from typedbatch.mypy.shapes.asking import UnsureError, array_of, axes_of, place_in, understood, whole_of
from typedbatch.mypy.shapes.dtypes import FLOATS, is_in, told
from typedbatch.mypy.shapes.elementwise import broadcast
from typedbatch.mypy.shapes.sizes import differ
from typedbatch.mypy.shapes.values import Arguments, Array, Axis, Literal, MisfitError, Operation, Value

_REDUCED = ("reduction", "size_average", "reduce")


def _result(arguments: Arguments, axes: tuple[Axis, ...], dtypes: frozenset[str] | None) -> Array:
    """One number, unless ``reduction="none"``."""
    how = arguments.named.get("reduction", Literal("mean"))
    if not isinstance(how, Literal) or how.value not in ("mean", "sum", "none", "batchmean"):
        raise UnsureError
    kept = dtypes if is_in(dtypes, FLOATS) else None
    return Array(axes if how.value == "none" else (), kept, torch=True)


def _same(name: str) -> Operation:
    """A loss between arrays of one shape."""

    @understood(2, "target", "reduction", "beta", "delta", "weight", "pos_weight", "log_target")
    def call(arguments: Arguments) -> Value:
        if not arguments.torch:
            raise UnsureError
        one, other = array_of(arguments), array_of(arguments, 1, "target")
        axes = axes_of(one)
        _require_same(one, other, name)
        return _result(arguments, axes, one.dtypes)

    return call


def _require_same(one: Array, other: Array, name: str) -> None:
    axes, others = axes_of(one), axes_of(other)
    text = f"{name}: {one} and {other} are not the same shape"
    if len(axes) != len(others):
        if any(axis.asked for axis in (*axes, *others)) or not axes or not others:
            raise UnsureError
        raise MisfitError(text)
    for mine, its in zip(axes, others, strict=True):
        if mine.size is None or its.size is None or mine.asked or its.asked:
            continue
        column = mine.one != its.one and all(axis.one or axis.size is not None for axis in (mine, its))
        if differ(mine.size, its.size) or (column and _is_name(mine if its.one else its)):
            raise MisfitError(text)


def _is_name(axis: Axis) -> bool:
    return axis.size is not None and axis.size.number is None


def _classes(name: str) -> Operation:
    """Cross entropy: a class for each row, or probabilities of the same shape."""

    @understood(2, "target", "reduction", "ignore_index", "label_smoothing", "weight")
    def call(arguments: Arguments) -> Value:
        if not arguments.torch:
            raise UnsureError
        scores, target = array_of(arguments), array_of(arguments, 1, "target")
        axes, its = axes_of(scores), axes_of(target)
        if len(axes) == len(its):
            if name == "nll_loss" or not _may_be_same(axes, its):
                raise MisfitError(f"{name}: {scores} takes {_expected(axes)} of classes, got {target}")
            return _result(arguments, (), None) if "reduction" not in arguments.named else Array(None, None, torch=True)
        rest = axes[:1] + axes[2:] if len(axes) > 1 else ()
        wanted = _expected(axes)
        if len(rest) != len(its) or any(_differ(a, b) for a, b in zip(rest, its, strict=True)):
            raise MisfitError(f"{name}: {scores} takes {wanted} of classes, got {target}")
        if is_in(target.dtypes, FLOATS):
            raise MisfitError(f"{name}: classes are integers, got {told(target.dtypes)}", dtype=True)
        return _result(arguments, its, scores.dtypes)

    return call


def _expected(axes: tuple[Axis, ...]) -> str:
    return str(Array(axes[:1] + axes[2:] if len(axes) > 1 else ()))


def _differ(one: Axis, other: Axis) -> bool:
    return one.size is not None and other.size is not None and differ(one.size, other.size)


def _may_be_same(one: tuple[Axis, ...], other: tuple[Axis, ...]) -> bool:
    if any((a.one != b.one) and (_is_name(a) or _is_name(b)) for a, b in zip(one, other, strict=True)):
        return False
    return not any(_differ(a, b) for a, b in zip(one, other, strict=True))


@understood(4, "x1", "x2", "dim", "eps")
def _cosine(arguments: Arguments) -> Value:
    one, other = array_of(arguments, 0, "x1"), array_of(arguments, 1, "x2")
    axes = broadcast([axes_of(one), axes_of(other)], "cosine_similarity")
    if axes is None:
        raise UnsureError
    at = place_in(axes, whole_of(arguments, 1, 2, "dim"), "cosine_similarity", torch=True)
    return Array((*axes[:at], *axes[at + 1 :]), None, torch=True)


FUNCTIONS: dict[str, Operation] = {
    **{
        name: _same(name)
        for name in (
            "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
            "binary_cross_entropy", "binary_cross_entropy_with_logits",
        )
    },
    **{name: _classes(name) for name in ("cross_entropy", "nll_loss")},
    "cosine_similarity": _cosine,
}  # fmt: skip
METHODS: dict[str, Operation] = {}
