"""Sizes as polynomials, against what comes out with numbers for the names."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product as combinations
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedbatch._program.arrays.arguments import greater, nonzero, not_negative
from typedbatch._program.arrays.sizes import Name, Size, differ, named, number

DECLARED = [Name(text, 1, declared=True) for text in "AB"]
NAMES = [*DECLARED, Name("x", 2), Name("y", 3)]
ATOMS = st.sampled_from([*map(named, NAMES), *map(number, range(-3, 4))])
SIZES = st.recursive(
    ATOMS,
    lambda inside: st.one_of(
        st.builds(lambda a, b: a + b, inside, inside),
        st.builds(lambda a, b: a - b, inside, inside),
        st.builds(lambda a, b: a * b, inside, inside),
    ),
    max_leaves=5,
)
NUMBERS = st.fixed_dictionaries({name: st.integers(1, 6) for name in NAMES})
ALL = [dict(zip(NAMES, numbers, strict=True)) for numbers in combinations(range(1, 5), repeat=4)]
UNEQUAL = [numbers for numbers in ALL if numbers[DECLARED[0]] != numbers[DECLARED[1]]]
A, B, X, Y = map(named, NAMES)


def value(size: Size, numbers: Mapping[Name, int]) -> int:
    return sum(times * prod(numbers[name] for name in names) for names, times in size.terms)


@given(one=SIZES, other=SIZES, numbers=NUMBERS)
def test_algebra_is_that_of_numbers(one: Size, other: Size, numbers: dict[Name, int]) -> None:
    a, b = value(one, numbers), value(other, numbers)
    assert value(one + other, numbers) == a + b
    assert value(one - other, numbers) == a - b
    assert value(one * other, numbers) == a * b
    assert value(-one, numbers) == -a


@given(one=SIZES, other=SIZES, third=SIZES)
def test_the_same_size_is_written_one_way(one: Size, other: Size, third: Size) -> None:
    assert one + other == other + one
    assert one * other == other * one
    assert one * (other + third) == one * other + one * third
    assert one - one == number(0)
    assert str(one * other) == str(other * one)


@given(one=SIZES, other=SIZES, numbers=NUMBERS)
def test_quotients_are_exact(one: Size, other: Size, numbers: dict[Name, int]) -> None:
    for whole in (one, one * other):
        quotient = whole.divided(other)
        if quotient is not None and value(other, numbers):
            assert value(quotient, numbers) * value(other, numbers) == value(whole, numbers)


@given(one=SIZES, by=ATOMS)
def test_a_product_is_divided_by_a_name(one: Size, by: Size) -> None:
    if by.number != 0:
        assert (one * by).divided(by) == one
        assert (one * by) // by == one
        assert (one * by) % by == number(0)


@given(one=SIZES, other=SIZES)
def test_sizes_that_differ_are_never_equal(one: Size, other: Size) -> None:
    if differ(one, other):
        assert all(value(one, numbers) != value(other, numbers) for numbers in UNEQUAL)
    assert differ(one, other) == differ(other, one)


@given(size=SIZES, other=SIZES)
def test_bounds_hold(size: Size, other: Size) -> None:
    if nonzero(size):
        assert all(value(size, numbers) for numbers in ALL)
    if not_negative(size):
        assert all(value(size, numbers) >= 0 for numbers in ALL)
    if greater(size, other):
        assert all(value(size, numbers) > value(other, numbers) for numbers in ALL)


@given(size=SIZES, numbers=NUMBERS)
def test_names_are_replaced(size: Size, numbers: dict[Name, int]) -> None:
    known = {name: number(numbers[name]) for name in NAMES}
    replaced = size.replaced(known)
    assert replaced is not None
    assert replaced.number == value(size, numbers)


def test_a_size_is_not_known_if_one_of_its_names_is_not() -> None:
    assert (A + X).replaced({NAMES[2]: None}) is None
    assert (A + X).replaced({NAMES[3]: None}) == A + X


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (A, B, True),  # two names of one declaration
        (X, Y, False),
        (A, X, False),
        (A, A - number(1), True),
        (A, number(2) * A, True),
        (A, number(3), False),
        (A, number(0), True),
        (A * B, A, False),  # B may be 1
        (A + B, A, True),
        (number(2), number(3), True),
        (A // number(2), A, True),
        (A // number(2), A - A // number(2), False),  # one more if A is odd
        (A // number(2) * number(2), A, False),
        (A // number(2) * number(2), A + number(1), True),
        (A // number(2), B, False),
        (A - number(1) + A // number(2) * number(2), A, False),  # A may be 1
        (A // B, A, False),  # B may be 1
        (A.over(number(2)), A, True),
        (A.over(number(2)) * number(2), A, False),
        (A // number(2), A // number(2) + number(1), True),
    ],
)
def test_what_differs(one: Size, other: Size, expected: bool) -> None:
    assert differ(one, other) == expected


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (A - number(1), "A-1"), (number(2) * A, "2*A"), (A * B, "A*B"), (A + B, "A+B"), (number(0), "0"), (-A, "-A"),
        ((A - number(1)) // number(2), "(A-1)//2"), (A // number(2), "A//2"),
    ],
)  # fmt: skip
def test_sizes_are_shown_as_people_write_them(size: Size, shown: str) -> None:
    assert str(size) == shown
