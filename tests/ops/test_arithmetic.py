"""Operators between batches, numbers, arrays and tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array, assert_identical, rollout
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


def test_an_operand_that_is_about_to_change_is_copied_as_it_is():
    flags = np.array([False, True, True])
    batch = Batch(a=flags[:2])
    batch *= flags[1:]
    assert flags.tolist() == [False, True, True]
    zeros = np.array([1.0, -0.0, -0.0])
    batch = Batch(a=zeros[:2])
    with np.errstate(divide="ignore", invalid="ignore"):
        batch /= zeros[1:]
    assert zeros[0] == -np.inf
    words = np.array([["a", "b"], ["c", "d"]], object)
    with pytest.raises(TypedBatchError, match="field 'a'"):
        operator.isub(Batch(a=words[0]), words[0][::-1])
    assert words.tolist() == [["a", "b"], ["c", "d"]]
    times = np.array([1, 2, 3], "m8[s]")
    batch = Batch(a=times[:2])
    batch += times[1:]
    assert times.astype(int).tolist() == [3, 5, 3]


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        *(
            (operator.add, r"\+ needs"),
            (operator.sub, "- needs"),
            (operator.mul, r"\* needs"),
            (operator.pow, r"\*\* needs"),
        ),
        *((operator.truediv, "/ needs"), (operator.floordiv, "// needs"), (operator.mod, "% needs")),
        *((operator.iadd, r"\+= needs"), (operator.isub, "-= needs"), (operator.imul, r"\*= needs")),
        *((operator.ipow, r"\*\*= needs"), (operator.itruediv, "/= needs"), (operator.ifloordiv, "//= needs")),
        (operator.imod, "%= needs"),
    ],
)
def test_errors_call_an_operation_what_a_person_writes(operation, text):
    with pytest.raises(TypedBatchError, match=f"field 's': {text} numbers, got str"):
        operation(Batch(s="text"), 2)


def test_errors_say_which_operation_in_place_is_refused():
    with pytest.raises(TypedBatchError, match=r"^field 'a': \+= cannot take i64\[2\] and float: "):
        operator.iadd(Batch(a=[1, 2]), 0.5)
    with pytest.raises(TypedBatchError, match=r"^field 'a': - needs numbers, got str$"):
        -Batch(a="text")
    with pytest.raises(TypedBatchError, match=r"^field 'a': abs\(\) needs numbers, got str$"):
        abs(Batch(a="text"))
    with pytest.raises(TypedBatchError, match=r"^field 'a': \+ pairs fields by name, got Batch\(x\) and i64\[1\]$"):
        Batch(a={"x": [1]}) + Batch(a=[1])


SIZES = ["i1", "u1", "i8", "f4", "f8", "c16", "?", "O", "m8[s]"]


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # numpy 2.5, of numbers and durations
@pytest.mark.parametrize("work", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"])
@pytest.mark.parametrize("dtype", SIZES)
def test_in_place_is_as_in_numpy_or_refused(work, dtype):
    in_place = getattr(operator, "i" + work)
    for other in (2, -1, 300, 2.5, True, 10**30, np.ones(3, dtype), np.float32(1), np.zeros(3, "f4")):
        array, batch = np.ones(3, dtype), Batch(a=np.ones(3, dtype), n={"b": np.ones(3, dtype)})
        given_ = Batch(a=other, n={"b": other}) if isinstance(other, np.ndarray) else other
        with np.errstate(all="ignore"):
            try:
                in_place(array, other)
            except (TypeError, ValueError, OverflowError, ZeroDivisionError):
                array = np.ones(3, dtype)
                with pytest.raises(TypedBatchError):
                    in_place(batch, given_)
            else:
                in_place(batch, given_)
        np.testing.assert_array_equal(batch.a, array)
        np.testing.assert_array_equal(batch.n.b, array)


@pytest.mark.parametrize("theirs", [None, [2.0], Batch()], ids=["none", "values", "reserved"])
@pytest.mark.parametrize("ours", [None, [1.0], Batch()], ids=["none", "values", "reserved"])
def test_plus_and_plus_equals_agree_about_fields_without_numbers(ours, theirs):
    def outcome(operation: Callable[[Any, Any], Any]) -> str:
        try:
            return repr(operation(Batch(a=[1.0], b=ours), Batch(a=[1.0], b=theirs)))
        except TypedBatchError:
            return "refused"

    assert outcome(operator.add) == outcome(operator.iadd)
