"""Operators between batches, numbers, arrays and tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.batch.helpers import assert_array, assert_identical, rollout
from typedbatch import Batch
from typedbatch.errors import TypedBatchError


def test_numbers_are_added_to_every_leaf():
    batch = Batch(a=[1, 2], n={"b": [1.0, 2.0], "t": torch.tensor([1, 2])})
    more = batch + 1
    assert_array(more.a, [2, 3])
    assert_array(more.n.b, [2.0, 3.0])
    assert more.n.t.tolist() == [2, 3]
    assert_array(batch.a, [1, 2])
    array = batch.a
    batch += 1
    assert batch.a is array
    assert_array(array, [2, 3])


def test_a_batch_is_added_to_a_batch():
    total = rollout() + rollout()
    assert_array(total.obs.pos, [2, 4, 6])
    assert total.act.tolist() == [0, 2, 4]
    assert_array(total.rew, [2.0, 4.0, 8.0])


def test_multiplication_and_division_by_a_number():
    batch = Batch(a=[1, 2], t=torch.tensor([1.0, 2.0]))
    assert_array((batch * 3).a, [3, 6])
    assert_array((batch / 2).a, [0.5, 1.0])
    assert (batch / 2).t.tolist() == [0.5, 1.0]
    assert_array(batch.a, [1, 2])


@pytest.mark.parametrize("column", [[1, 2], [True, False], torch.tensor([1, 2]), np.array([1, 2], np.uint8)], ids=str)
def test_division_works_on_integers(column):
    halves = (Batch(a=column, n={"b": column}) / 2).n.b
    assert [float(x) for x in halves] == [float(x) / 2 for x in column]


def test_operators_work_from_the_left_and_with_arrays():
    batch = Batch(a=[1.0, 2.0])
    assert_array((1 + batch).a, [2.0, 3.0])
    assert_array((2 * batch).a, [2.0, 4.0])
    assert_array((1 - batch).a, [0.0, -1.0])
    assert_array((-batch).a, [-1.0, -2.0])
    assert_array((batch - 1).a, [0.0, 1.0])
    assert_array((np.array([3.0, 4.0]) * batch).a, [3.0, 8.0])


@pytest.mark.parametrize("work", [operator.add, operator.sub, operator.mul, operator.truediv], ids=lambda f: f.__name__)
def test_tensor_fields_and_arrays_compute_in_either_order(work):
    # Torch answers ``tensor + array`` with numpy's deprecation warning, which is an error here.
    batch, array = Batch(t=torch.tensor([1.0, 2.0], dtype=torch.float64)), np.array([3.0, 4.0])
    assert work(array, batch).t.tolist() == work(array, np.array([1.0, 2.0])).tolist()
    assert work(batch, array).t.tolist() == work(np.array([1.0, 2.0]), array).tolist()


def test_arithmetic_works_on_tensors_inside_a_graph():
    tensor = torch.ones(2, requires_grad=True) * 2
    for result in (Batch(a=tensor) * 3, Batch(a=tensor) / 0.5, Batch(a=tensor) + 1):
        assert result.a.requires_grad


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.iadd, np.add])
def test_batches_are_paired_by_name_and_not_by_position(operation):
    one, two = Batch(a=[1], n={"x": [3], "y": [30]}, b=[10]), Batch(b=[20], n={"y": [40], "x": [4]}, a=[2])
    work = {operator.iadd: operator.add, np.add: operator.add}.get(operation, operation)
    result = operation(one, two)
    assert list(result.keys()) == ["a", "n", "b"]
    assert_array(result.a, [work(1, 2)])
    assert_array(result.b, [work(10, 20)])
    assert_array(result.n.x, [work(3, 4)])
    assert_array(result.n.y, [work(30, 40)])


def test_batches_with_other_fields_are_not_added_at_all():
    one = Batch(a=[1], b=[2])
    with pytest.raises(ValueError, match=r"(?s)'b'.*'c'"):
        one + Batch(a=[1], c=[2])


@pytest.mark.parametrize("other", ["text", None, [1, 2], {"a": 1}], ids=repr)
def test_other_operands_are_type_errors(other):
    with pytest.raises(TypeError):
        Batch(a=[1, 2]) + other
    with pytest.raises(TypeError):
        Batch(a=[1, 2]) * other


def test_reserved_fields_take_no_part_in_arithmetic():
    batch = Batch(a=[1], r=Batch(), n={"r": Batch()})
    for result in (batch + 1, batch * 2, batch / 2, batch + batch):
        assert result.r == Batch()
        assert result.n.r == Batch()
    batch += 1
    assert batch.r == Batch()


def test_in_place_operators_write_into_the_arrays():
    array = np.array([1.0, 2.0])
    batch = same = Batch(a=array, n={"t": torch.tensor([1.0, 2.0])})
    batch += 1
    batch *= 3
    batch /= 2
    assert batch is same
    assert batch.a is array
    assert_array(array, [3.0, 4.5])
    assert batch.n.t.tolist() == [3.0, 4.5]


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_in_place_arithmetic_equals_the_other_when_the_operand_is_part_of_the_batch(make):
    def fresh() -> Batch:
        return Batch(a=make([1.0, 2.0]), b=make([10.0, 20.0]), c=make([1.0, 1.0]))

    for operand in (lambda b: b.a, lambda b: b, lambda b: Batch(a=b.b, b=b.a, c=b.c), lambda b: b["b"][::1]):
        expected, batch = fresh() + operand(fresh()), fresh()
        batch += operand(batch)
        assert_identical(batch, expected)


@pytest.mark.parametrize("theirs", [None, [2.0], Batch()], ids=["none", "values", "reserved"])
@pytest.mark.parametrize("ours", [None, [1.0], Batch()], ids=["none", "values", "reserved"])
def test_plus_and_plus_equals_agree_about_fields_without_numbers(ours, theirs):
    def outcome(operation: Callable[[Any, Any], Any]) -> str:
        try:
            return repr(operation(Batch(a=[1.0], b=ours), Batch(a=[1.0], b=theirs)))
        except TypedBatchError:
            return "refused"

    assert outcome(operator.add) == outcome(operator.iadd)
