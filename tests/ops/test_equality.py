"""Equality and closeness of batches, which give an answer whatever the leaves are."""

from __future__ import annotations

import copy
import operator
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import rollout
from typedbatch import Batch
from typedbatch._core.kinds import object_array


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (rollout(), rollout(), True), (Batch(a=1, b=2), Batch(b=2, a=1), True),
        (Batch(a=[1, 2]), Batch(a=torch.tensor([1, 2])), True), (Batch(a=[1, 2]), Batch(a=[1.0, 2.0]), False),
        (Batch(a=[1, 2]), Batch(a=[1, 3]), False), (Batch(a=[1, 2]), Batch(a=[1, 2], b=1), False),
        (Batch(a=[1, 2]), Batch(b=[1, 2]), False), (Batch(a=[1, 2]), Batch(a=[[1, 2]]), False),
        (Batch(a=1), Batch(a=[1]), False), (Batch(a={"x": 1}), Batch(a={"x": 1}), True),
        (Batch(a={"x": 1}), Batch(a={"x": 2}), False), (Batch(a=None), Batch(a=None), True),
        (Batch(a=None), Batch(a=Batch()), False), (Batch(a="x"), Batch(a="x"), True),
        (Batch(a=[None, "x"]), Batch(a=[None, "x"]), True), (Batch(a=[np.nan]), Batch(a=[np.nan]), False),
        (Batch(a=1), {"a": 1}, False), (Batch(), None, False),
    ],
)  # fmt: skip
def test_equality(one, two, expected):
    assert (one == two) is expected
    assert (one != two) is not expected


def test_batches_are_unhashable():
    with pytest.raises(TypeError):
        hash(Batch())


class Unruly:
    """Cannot be compared, as some array-likes."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")


LEAVES: dict[str, Callable[[], Any]] = {
    "distribution": lambda: Normal(torch.zeros(2), torch.ones(2)),
    "array": lambda: np.zeros((2, 3)),
    "other array": lambda: np.zeros((3, 2)),
    "tensor": lambda: torch.zeros(2, 3),
    "bfloat16": lambda: torch.zeros(2, dtype=torch.bfloat16),
    "grad": lambda: torch.ones(2, requires_grad=True) * 2,
    "text": lambda: "text",
    "none": lambda: None,
    "number": lambda: 1,
    "reserved": Batch,
    "nested": lambda: Batch(x=[1, 2]),
    "objects": lambda: np.array([np.zeros(2), None, "x"], dtype=object),
    "unruly": Unruly,
    "array of unruly": lambda: np.array([Unruly(), Unruly()], dtype=object),
    "structured": lambda: np.zeros(2, dtype=[("x", int), ("y", float)]),
    "dates": lambda: np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    "set": lambda: {1, 2},
}


@pytest.mark.parametrize("one", LEAVES)
def test_equality_and_closeness_never_raise(one):
    for two in LEAVES:
        left, right = Batch(n={"a": LEAVES[one]()}), Batch(n={"a": LEAVES[two]()})
        assert (left == right) is (one == two and one not in ("unruly", "array of unruly", "dates")), two
        assert left.allclose(right) in (True, False), two


@pytest.mark.parametrize("make", [lambda: torch.eye(2).to_sparse(), lambda: torch.zeros(2, device="meta")])
@pytest.mark.parametrize("compare", [operator.eq, Batch.allclose])
def test_tensors_without_plain_memory_compare_without_an_error(make, compare):
    assert compare(Batch(a=make()), Batch(a=make())) in (True, False)
    for other in LEAVES:
        assert compare(Batch(a=make()), Batch(a=LEAVES[other]())) is False, other
        assert compare(Batch(a=LEAVES[other]()), Batch(a=make())) is False, other


def holding_itself() -> Batch:
    batch = Batch(a=[1])
    batch.me = batch
    return batch


@pytest.mark.parametrize("compare", [operator.eq, Batch.allclose])
def test_of_batches_that_hold_themselves_python_says_so(compare):
    with pytest.raises(RecursionError):
        compare(holding_itself(), holding_itself())
    assert compare(holding_itself(), Batch(a=[1])) is False


def holding(array: Any) -> list[Any]:
    return [{"last": array, "n": [array, ("x", array)]}, (array,), [], None]


@pytest.mark.parametrize("make", [np.array, torch.tensor, lambda x: Batch(a=x)], ids=["array", "tensor", "batch"])
def test_objects_that_hold_arrays_are_compared_with_what_is_in_them(make):
    one, same, other = (Batch(info=object_array(holding(make([1.0, last])))) for last in (2.0, 2.0, 3.0))
    assert one == same == copy.deepcopy(one) == pickle.loads(pickle.dumps(one))
    assert one != other
    assert one.allclose(same)
    assert not one.allclose(other)


@pytest.mark.parametrize(
    ("one", "two"), [({"a": 1}, {"b": 1}), ([1], (1,)), ([1], [1, 2]), ({"a": [1]}, {"a": [2]}), ([1], {"a": 1})]
)
def test_objects_that_differ(one, two):
    assert Batch(o=object_array([one, None])) != Batch(o=object_array([two, None]))


def test_closeness_reaches_into_distributions_and_objects():
    def made(number: float) -> Batch:
        array = np.array([number, None, {"k": [number]}], dtype=object)
        return Batch(d=Normal(torch.full((2,), number), 1.0), o=array, n={"o": array})

    assert made(1.0) != made(1.0 + 1e-7)
    assert made(1.0).allclose(made(1.0 + 1e-7))
    assert not made(1.0).allclose(made(1.1))
    assert made(1.0).allclose(made(1.1), rtol=0.2)


def test_nan_among_objects_is_close_if_that_is_asked_for():
    one, two = (Batch(o=np.array([float("nan"), None], dtype=object)) for _ in range(2))
    assert one.allclose(two, equal_nan=True)
    assert not one.allclose(two)


def test_a_dtype_that_numpy_lacks_equals_no_array():
    wide = torch.tensor([1.5], dtype=torch.bfloat16)
    assert Batch(a=wide) != Batch(a=wide.float())
    assert Batch(a=wide) != Batch(a=wide.float().numpy())
    assert Batch(a=wide).allclose(Batch(a=wide.float().numpy()))


@pytest.mark.parametrize(
    "value", [Decimal("1.5"), Fraction(1, 3), 2**70, "x", {1}, Normal(torch.zeros(2), 1.0)], ids=str
)
def test_objects_are_close_to_their_equals(value):
    one, two = Batch(o=object_array([value, 1])), Batch(o=object_array([copy.deepcopy(value), 1]))
    assert one == two
    assert one.allclose(two)
    assert Batch(o=value).allclose(Batch(o=copy.deepcopy(value)))


@pytest.mark.parametrize(
    ("one", "two"), [(100000, 100001), (True, 1.0000001), (Decimal("1"), Decimal("1.0000001")), ("a", "b"), (1.0, 1.1)]
)
def test_only_floats_are_close_among_objects(one, two):
    assert not Batch(o=object_array([one, None])).allclose(Batch(o=object_array([two, None])))


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, complex], ids=lambda kind: kind.__name__)
def test_floats_of_every_kind_are_close_among_objects(kind):
    one, two, other = (Batch(o=object_array([kind(x), None])) for x in (1.0, 1.000001, float("nan")))
    assert one.allclose(two)
    assert other.allclose(copy.deepcopy(other), equal_nan=True)
    assert not one.allclose(other, equal_nan=True)


class Tagged(list):
    def __init__(self, items: list[Any], tag: str) -> None:
        super().__init__(items)
        self.tag = tag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tagged) and list.__eq__(self, other) and self.tag == other.tag

    __hash__ = None


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (Tagged([1], "x"), Tagged([1], "x"), True),
        (Tagged([1], "x"), Tagged([1], "y"), False),
        (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1), False),
        (Counter(a=1, b=0), Counter(a=1), True),
    ],
    ids=str,
)
def test_containers_with_an_eq_of_their_own_are_asked(one, two, expected):
    assert (Batch(o=object_array([one, 0])) == Batch(o=object_array([two, 0]))) is expected
