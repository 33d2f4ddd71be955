"""Random arrays of numpy's: the shape is what is asked for as ``size``."""

from __future__ import annotations

from typing import Final

from typedbatch.mypy.arrays.sizes import Size
from typedbatch.mypy.arrays.values import Arguments, Array, Axis, Operation, Value, is_none, sizes_of

OWNERS: Final = frozenset({"numpy.random._generator.Generator", "numpy.random.mtrand.RandomState"})


def _of_size(place: int) -> Operation:
    """A draw with ``size`` at a place; without it, the shape is that of the parameters."""

    def call(arguments: Arguments) -> Value:
        size = arguments.get(place, "size")
        axes = None if size is None or is_none(size) else sizes_of(size)
        return None if axes is None else Array(axes, None, torch=False)

    return call


def _of_sizes(arguments: Arguments) -> Value:
    """``randn(3, 2)``."""
    if not arguments.given or arguments.named:
        return None
    return Array(tuple(Axis(one if isinstance(one, Size) else None) for one in arguments.given), None, torch=False)


DRAWS: Final[dict[str, Operation]] = {
    **{name: _of_size(0) for name in ("random", "random_sample", "standard_normal")},
    **{name: _of_size(1) for name in ("exponential", "geometric", "poisson", "standard_gamma")},
    **{
        name: _of_size(2)
        for name in ("beta", "binomial", "gamma", "integers", "laplace", "normal", "randint", "uniform")
    },
    "rand": _of_sizes,
    "randn": _of_sizes,
}
"""Methods of generators, and functions of ``numpy.random``, by their names."""
