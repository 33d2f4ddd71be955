"""Slices with bounds that have names, against numpy: what is known of the rest is so, whatever the names stand for."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedbatch._program.arrays.indexing import getitem
from typedbatch._program.arrays.sizes import Name, Size, named, number
from typedbatch._program.arrays.values import Array, Axis, Literal, Span

NAMES = [Name(text, 1, declared=True) for text in "KLN"]
K, L, N = map(named, NAMES)
NOT_GIVEN = Literal(None)
SIZES = [N, K + L, K + L + N, number(2) * N, K * L, N + number(1), L - number(1), number(5)]
POSITIVE = [K, L, N, K + number(1), K - number(1), K + L, number(2) * N, number(0), number(1), number(2)]
BOUNDS = [NOT_GIVEN, *POSITIVE, *(-size for size in POSITIVE), L - K, N - number(2)]
NUMBERS = [dict(zip(NAMES, numbers, strict=True)) for numbers in product(range(1, 5), repeat=3)]
LONG = 2
"""The least length of an axis that a number is taken to be a place of: ``x[2:]`` of N is N-2."""


def value(size: Size, numbers: Mapping[Name, int]) -> int:
    """Return what a size is with numbers for the names."""
    return sum(times * prod(numbers[name] for name in names) for names, times in size.terms)


def bound(part: Size | Literal, numbers: Mapping[Name, int]) -> int | None:
    """Return a bound of a slice."""
    return value(part, numbers) if isinstance(part, Size) else None


def known(size: Size, start: Size | Literal, stop: Size | Literal, step: Size | Literal = NOT_GIVEN) -> Size | None:
    """Return what is known of the length of a slice."""
    out = getitem(Array((Axis(size),), None, torch=False), Span(start, stop, step))
    assert isinstance(out, Array)
    assert out.axes is not None
    return out.axes[0].size


@given(
    size=st.sampled_from(SIZES),
    start=st.sampled_from(BOUNDS),
    stop=st.sampled_from(BOUNDS),
    step=st.sampled_from([NOT_GIVEN, NOT_GIVEN, number(1), number(2)]),
)
def test_what_is_known_of_a_slice_is_so(
    size: Size, start: Size | Literal, stop: Size | Literal, step: Size | Literal
) -> None:
    found = known(size, start, stop, step)
    for numbers in NUMBERS if found is not None else ():
        assert found is not None
        length = value(size, numbers)
        if length < 2 * LONG and any(isinstance(one, Size) and one.number is not None for one in (start, stop)):
            continue
        real = len(np.zeros(length)[slice(*(bound(one, numbers) for one in (start, stop, step)))])
        assert real == value(found, numbers), f"{size}[{start}:{stop}:{step}] with {numbers}"


@pytest.mark.parametrize(
    ("size", "start", "stop", "expected"),
    [
        (K + L, -K, NOT_GIVEN, K), (K + L, NOT_GIVEN, -K, L), (K + L, -K - L, -L, K), (K + L, K, NOT_GIVEN, L),
        (L, -K, NOT_GIVEN, None), (L, NOT_GIVEN, -K, None), (L, NOT_GIVEN, K, None), (number(2) * N, -N, NOT_GIVEN, N),
        (K + L, L - K, NOT_GIVEN, None), (K + L, K, -L, number(0)), (K + L + N, K, -L, N),
        (N, number(1), number(-1), N - number(2)), (N, number(-3), NOT_GIVEN, None),
    ],
)  # fmt: skip
def test_bounds_that_are_minus_a_size_count_from_the_end(
    size: Size, start: Size | Literal, stop: Size | Literal, expected: Size | None
) -> None:
    assert known(size, start, stop) == expected
