"""Declared shapes in the language of jaxtyping, the arrays that they describe, and checks of arrays against them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from typedbatch._program.arrays.dtypes import BOOL, Dtypes, told
from typedbatch._program.arrays.sizes import Name, Ranks, Size, differ, named, number
from typedbatch._program.arrays.values import MORE, UNKNOWN, Array, Axis, MismatchError, Record, Several, Value, shown
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort, compute, shape_of_text

_REST: Final = Dim(Sort.REST, "")
_ANY_SHAPE: Final = Shape((_REST,), 0)

STEPS: Final = Dim(Sort.SOME, "steps", implied=True)
"""The axes of the steps of a batch, of which the first is that of the rows."""
ONE_PER_STEP: Final = Shape((STEPS,), 0)
STEPS_FIRST: Final = Shape((STEPS, _REST), 0)


@dataclass(frozen=True)
class Declared:
    """A declared array.

    Attributes:
        shape: Its shape, or None if only the dtype is declared.
        dtypes: Names of the dtypes that it may have, or None for any.
        torch: Whether it is a tensor rather than a numpy array.
    """

    shape: Shape | None
    dtypes: Dtypes | None
    torch: bool

    @property
    def names(self) -> list[str]:
        """Names of single sizes in the shape."""
        dims = self.shape.dims if self.shape is not None else ()
        computed = [name for dim in dims if dim.sort is Sort.COMPUTED for name in dim.names]
        return [*(dim.text for dim in dims if dim.sort is Sort.NAMED), *computed]

    @property
    def runs(self) -> list[Dim]:
        """Named runs of axes in the shape."""
        return [dim for dim in self.shape.dims if dim.sort is Sort.SOME] if self.shape is not None else []

    def marked(self, mark: str) -> Declared:
        """Return the declaration of a field with a mark; a shape that its annotation declares takes precedence."""
        if self.shape is not None:
            return self
        flags = BOOL if mark == "Flag" and self.dtypes is None else self.dtypes
        return Declared(STEPS_FIRST if mark == "StepsFirst" else ONE_PER_STEP, flags, self.torch)


@lru_cache(maxsize=4096)
def shape_in(text: str) -> Shape:
    """Return a shape as it is read at run time; any shape for a text of functions or trees, with ``{`` or ``?``.

    Raises:
        DeclarationError: The text is not in the language of jaxtyping.
    """
    if "{" in text or "?" in text:
        return _ANY_SHAPE
    return shape_of_text(text)


Sizes = dict[str, Size | None]


def array_of(declared: Declared, owner: Record, ranks: Ranks, name: str = "") -> Array:
    """Return the array that a declaration describes, with the sizes of the batch or call that it belongs to.

    Args:
        declared: The declaration.
        owner: The batch or call that its names belong to.
        ranks: Numbers of axes of the runs.
        name: Name of the field or argument, whose ``...`` is not that of another one.
    """
    return Array(_axes(declared, owner, ranks, name), declared.dtypes, declared.torch)


def _axes(declared: Declared, owner: Record, ranks: Ranks, name: str) -> tuple[Axis, ...] | None:
    if declared.shape is None:
        return None
    out: list[Axis] = []
    for dim in declared.shape.dims:
        run: list[Axis] | None = None
        if dim.sort is Sort.REST:
            count = None if owner.called or not name else ranks.count(f"...{name}", may_be_empty=True)
            run = None if count is None else [MORE] * count
        elif dim.sort is Sort.SOME:
            run = run_of(dim, owner, ranks)
        else:
            run = [_axis(dim, owner)]
        if run is None:
            return None
        out += run
    return tuple(out)


def run_of(dim: Dim, owner: Record, ranks: Ranks) -> list[Axis] | None:
    """Return the axes of a named run, or None if nothing is known of them."""
    count = owner.rank(dim.key)
    if count is None and not owner.called:
        count = ranks.count(dim.key)
    if count is None:
        return None
    if dim.broadcasts:
        return [UNKNOWN] * count
    if dim == STEPS:
        rows = [Axis(owner.size(ROWS), step=True)] if count else []
        return [*rows, *(Axis(_size_in_run(dim, owner, at, count), step=True) for at in range(1, count))]
    return [Axis(_size_in_run(dim, owner, at, count)) for at in range(count)]


def _size_in_run(dim: Dim, owner: Record, at: int, count: int) -> Size | None:
    key = f"{dim.key}{at}"
    if key in owner.sizes:
        return owner.sizes[key]
    return named(Name(dim.key if count == 1 else key, owner.scope, declared=True))


def learn_run(dim: Dim, owner: Record, sizes: Sizes, ranks: Ranks) -> None:
    """Add the number and the sizes of the axes of a run that belongs to a function or batch."""
    run = run_of(dim, owner, ranks)
    if run is not None:
        _put_run(dim, tuple(run), sizes)


def _put_run(dim: Dim, axes: tuple[Axis, ...], sizes: Sizes) -> None:
    sizes[dim.key] = number(len(axes))
    sizes.update((f"{dim.key}{at}", axis.size) for at, axis in enumerate(axes))
    if dim == STEPS and axes:
        sizes.setdefault(ROWS, axes[0].size)


def _axis(dim: Dim, owner: Record) -> Axis:
    if dim.broadcasts or dim.sort is Sort.ANY:
        return UNKNOWN
    if dim.sort is Sort.FIXED:
        return Axis(number(dim.size))
    if dim.sort is Sort.NAMED:
        return Axis(owner.size(dim.text))
    return Axis(_computed(dim, owner))


def _computed(dim: Dim, owner: Record) -> Size | None:
    """Return the size of an expression of names, or None if it is not known."""
    sizes: dict[str, Any] = {}
    for name in dim.names:
        size = owner.size(name)
        if size is None:
            return None
        sizes[name] = _Computing(size)
    out: Any = compute(dim.text, sizes)
    if isinstance(out, _Computing):
        return out.size
    return number(out) if isinstance(out, int) and out >= 0 else None


class _Computing:
    """A size in arithmetic with numbers; other operations fail, and their results are not known."""

    def __init__(self, size: Size) -> None:
        self.size = size

    def __add__(self, other: Any) -> _Computing:
        return _Computing(self.size + _size(other))

    def __sub__(self, other: Any) -> _Computing:
        return _Computing(self.size - _size(other))

    def __rsub__(self, other: Any) -> _Computing:
        return _Computing(_size(other) - self.size)

    def __mul__(self, other: Any) -> _Computing:
        return _Computing(self.size * _size(other))

    def __floordiv__(self, other: Any) -> _Computing:
        return _Computing(self.size // _size(other))

    __radd__, __rmul__ = __add__, __mul__


def _size(value: Any) -> Size:
    return value.size if isinstance(value, _Computing) else number(value)


def bind(declared: Declared, array: Array, owner: Record, sizes: Sizes) -> None:
    """Check an array against its declaration, and add the sizes that names in it stand for.

    Args:
        declared: The declaration.
        array: The array.
        owner: The batch or call that the names belong to.
        sizes: Sizes of the owner so far; names that are new are added.

    Raises:
        MismatchError: The array certainly does not fit.
    """
    if declared.torch != array.torch:
        return
    if declared.dtypes is not None and array.dtypes and not declared.dtypes & array.dtypes:
        raise MismatchError(f"takes {told(declared.dtypes)}, got {told(array.dtypes)}", dtype=True)
    if declared.shape is None or array.axes is None:
        return
    if not declared.shape.has_rank(len(array.axes)):
        raise MismatchError(f"takes {declared.shape}, got {shown(array.axes)}")
    pairs, run = _pairs(declared, array.axes, sizes)
    for dim, axis in pairs:
        if dim.sort is Sort.NAMED and dim.text not in sizes and not dim.broadcasts:
            sizes[dim.text] = axis.size
    for dim, axis in pairs:
        expected = None if dim.sort is Sort.NAMED and dim.text not in sizes else _axis(dim, owner).size
        if expected is None or axis.size is None or not differ(expected, axis.size):
            continue
        known = "" if str(expected) == dim.text else f"; {dim.text} is {expected} here"
        raise MismatchError(f"takes {declared.shape}, got {shown(array.axes)}{known}")
    if run is not None:
        _bind_run(declared, run, array.axes, sizes)


def _pairs(
    declared: Declared, axes: tuple[Axis, ...], sizes: Sizes
) -> tuple[list[tuple[Dim, Axis]], tuple[Axis, ...] | None]:
    """Return each single element of a shape with its axis, and the axes of its named run."""
    assert declared.shape is not None
    dims, at = declared.shape.dims, declared.shape.variadic
    if at is None:
        return [*zip(dims, axes, strict=True)], None
    runs = [dim for dim in dims if dim.sort in (Sort.SOME, Sort.REST)]
    if len(runs) > 1:  # The steps, and any axes behind them.
        rank = sizes.get(STEPS.key)
        count = rank.number if rank is not None else None
        return [], None if count is None else axes[:count]
    behind = len(declared.shape.after)
    end = len(axes) - behind
    pairs = [*zip(dims, axes[:at], strict=False), *zip(declared.shape.after, axes[end:], strict=True)]
    return pairs, axes[at:end] if dims[at].sort is Sort.SOME and not dims[at].broadcasts else None


def _bind_run(declared: Declared, run: tuple[Axis, ...], axes: tuple[Axis, ...], sizes: Sizes) -> None:
    assert declared.shape is not None
    dim = next(dim for dim in declared.shape.dims if dim.sort is Sort.SOME)
    rank = sizes.get(dim.key)
    if rank is None or rank.number is None:
        _put_run(dim, run, sizes)
        return
    before = [Axis(sizes.get(f"{dim.key}{at}")) for at in range(rank.number)]
    fits = len(before) == len(run) and not any(
        one.size is not None and other.size is not None and differ(one.size, other.size)
        for one, other in zip(before, run, strict=True)
    )
    if not fits:
        what = "one number per step" if declared.shape == ONE_PER_STEP else str(declared.shape)
        name = "the steps are" if dim == STEPS else f"{dim} is"
        raise MismatchError(f"takes {what}, got {shown(axes)}; {name} {shown(before)} here")


def refined(declared: Value, found: Value) -> Value:
    """Return what a declaration and the body of a function tell together; a declared number takes precedence."""
    if declared is None or found is None:
        return found if declared is None else declared
    if isinstance(declared, Several) and isinstance(found, Several) and len(declared.items) == len(found.items):
        return replace(declared, items=tuple(map(refined, declared.items, found.items)))
    if not isinstance(declared, Array) or not isinstance(found, Array) or declared.torch != found.torch:
        return declared
    dtypes = declared.dtypes if found.dtypes is None else found.dtypes
    if declared.axes is None or found.axes is None or len(declared.axes) != len(found.axes):
        return Array(found.axes if declared.axes is None else declared.axes, dtypes, declared.torch)
    axes = tuple(map(_refined_axis, declared.axes, found.axes))
    return Array(axes, dtypes, declared.torch)


def _refined_axis(declared: Axis, found: Axis) -> Axis:
    fixed = declared.size is not None and declared.size.number is not None
    return declared if fixed or found.size is None or declared.step else Axis(found.size)
