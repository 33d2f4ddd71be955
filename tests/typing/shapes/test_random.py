"""numpy's random arrays against numpy itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from typedbatch._program.arrays.creation import DRAWS
from typedbatch._program.arrays.sizes import number
from typedbatch._program.arrays.values import Arguments, Array, Literal, Several, Value

PARAMETERS = {
    "beta": (1.0, 2.0), "binomial": (5, 0.5), "exponential": (1.0,), "gamma": (1.0, 2.0), "geometric": (0.5,),
    "integers": (0, 5), "laplace": (0.0, 1.0), "normal": (0.0, 1.0), "poisson": (1.0,), "randint": (0, 5),
    "standard_gamma": (1.0,), "uniform": (0.0, 1.0),
}  # fmt: skip
GENERATORS = [np.random.default_rng(0), np.random.RandomState(0)]


def told(value: Any) -> Value:
    """Return an argument as the table knows it."""
    if isinstance(value, tuple):
        return Several(tuple(map(told, value)))
    return number(value) if isinstance(value, int) else Literal(value)


@pytest.mark.parametrize("name", sorted(DRAWS.keys() - {"rand", "randn"}))
@pytest.mark.parametrize("size", [3, (3, 2), ()])
@pytest.mark.parametrize("by_name", [False, True])
def test_the_shape_is_the_size(name: str, size: Any, by_name: bool) -> None:
    given = PARAMETERS.get(name, ())
    for generator in GENERATORS:
        if not hasattr(generator, name):
            continue
        draw = getattr(generator, name)
        real = draw(*given, size=size) if by_name else draw(*given, size)
        named = {"size": told(size)} if by_name else {}
        found = DRAWS[name](Arguments(tuple(map(told, given if by_name else (*given, size))), named))
        assert isinstance(found, Array)
        assert [axis.size and axis.size.number for axis in found.axes or ()] == list(np.shape(real))


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_without_a_size_the_shape_is_unknown(name: str) -> None:
    assert DRAWS[name](Arguments(tuple(map(told, PARAMETERS.get(name, ()))))) is None


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_sizes_one_by_one(name: str) -> None:
    found = DRAWS[name](Arguments((number(3), number(2))))
    assert str(found) == str(getattr(np.random.RandomState(0), name)(3, 2).shape)
