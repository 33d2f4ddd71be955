"""Operators between batches, numbers, arrays and tensors, and numpy's functions called on a batch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array, assert_identical, assert_shows
from typedbatch import Batch
from typedbatch.errors import TypedBatchError


@pytest.mark.parametrize("column", [[1, 2], [True, False], torch.tensor([1, 2]), np.array([1, 2], np.uint8)], ids=str)
def test_division_works_on_integers(column):
    halves = (Batch(a=column, n={"b": column}) / 2).n.b
    assert [float(x) for x in halves] == [float(x) / 2 for x in column]


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


@pytest.mark.parametrize("ufunc", [np.divmod, np.modf, np.frexp])
def test_a_ufunc_with_two_results_leaves_no_tuple_in_a_batch(ufunc):
    batch = Batch(a=[1.5, 2.5])
    try:
        results = ufunc(batch, 2) if ufunc is np.divmod else ufunc(batch)
    except TypedBatchError:
        return
    expected = ufunc(batch.a, 2) if ufunc is np.divmod else ufunc(batch.a)
    assert type(results) is tuple
    for result, array in zip(results, expected, strict=True):
        assert_array(result.a, array)


def test_np_mean_reduces_over_the_dimensions_that_the_fields_share():
    square_batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5, -5], [1, -2]])
    assert_shows(
        np.mean(square_batch),
        """
        Batch(
            a: 1.5,
            b: -0.25,
        )
        """,
    )
    uneven = Batch.stack((Batch(a=np.array([0.0, 2.0]), b=5), Batch(a=np.array([1.0, 3.0]), b=-5)))
    assert_shows(
        np.mean(uneven),
        """
        Batch(
            a: array([0.5, 2.5]),
            b: 0.0,
        )
        """,
    )


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "std", "var", "prod", "any", "all", "median"])
@pytest.mark.parametrize(
    "column", [[1, 2, 4], [1.0, 2.0, 4.0], [True, False, True], np.array([1, 2, 4], np.uint8)], ids=str
)
def test_reductions_work_on_every_numeric_kind(name, column):
    function = getattr(np, name)
    batch = Batch(a=column, n={"b": column})
    assert function(batch).a == function(np.asarray(column))
    assert function(batch).n.b == function(np.asarray(column))


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "std", "var"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_reductions_work_on_tensors(name, dtype):
    tensor = torch.tensor([1, 2, 4], dtype=dtype)
    reduced = getattr(np, name)(Batch(a=tensor)).a
    assert type(reduced) is torch.Tensor
    np.testing.assert_allclose(reduced.item(), getattr(np, name)(np.array([1.0, 2.0, 4.0])), rtol=1e-6)


@pytest.mark.parametrize("name", ["std", "var", "any", "all"])
@pytest.mark.parametrize("value", [3.0, 0.0], ids=str)
def test_reductions_of_a_scalar_field_are_numpys(name, value):
    function = getattr(np, name)
    result = function(Batch(a=value)).a
    assert result == function(np.asarray(value))
    assert result.dtype == function(np.asarray(value)).dtype


def test_array_equal_of_a_batch_and_something_else_is_false():
    assert np.array_equal(Batch(a=[1]), 5) is False
    assert np.array_equal(5, Batch(a=[1])) is False


def test_arguments_are_taken_as_numpy_takes_them():
    batch = Batch(a=[1.0, 2.0])
    assert np.mean(a=batch).a == 1.5
    assert np.sum(batch, 0, np.float32).a.dtype == np.float32
    assert_array(np.clip(batch, 0, 1.5).a, [1.0, 1.5])
    assert_array(np.clip(batch, a_max=None, a_min=1.5).a, [1.5, 2.0])
    assert_array(np.atleast_2d(batch).a, [[1.0, 2.0]])


def test_batches_beside_one_another_are_paired_by_name():
    batch, low = Batch(a=[1.0, 5.0], t=torch.tensor([1.0, 5.0])), Batch(t=torch.tensor([2.0, 2.0]), a=[2.0, 2.0])
    assert np.isclose(batch, batch) == Batch(a=[True, True], t=torch.tensor([True, True]))
    assert np.clip(batch, low, 4) == Batch(a=[2.0, 4.0], t=torch.tensor([2.0, 4.0]))


@pytest.mark.parametrize("call", [lambda b: np.mean(b, b), lambda b: np.clip(b, min=b), lambda b: np.atleast_1d(b, 5)])
def test_a_batch_where_none_is_expected_is_refused(call):
    with pytest.raises(TypeError):
        call(Batch(a=[1.0, 2.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.complex64], ids=str)
@pytest.mark.parametrize("number", [0.1, 3, True], ids=str)
def test_numbers_beside_tensors_are_what_torch_takes_them_for(dtype, number):
    batch = Batch(a=torch.tensor([2, 1]).to(dtype))
    for one, other in ((np.add(batch, number), batch + number), (np.multiply(number, batch), number * batch)):
        assert one == other
    if not dtype.is_complex:
        assert np.maximum(batch, number).a.tolist() == torch.maximum(batch.a, torch.tensor(number)).tolist()


def test_a_number_is_compared_in_the_precision_of_the_tensor():
    batch = Batch(a=torch.tensor([0.1], dtype=torch.float64))
    assert np.equal(batch, 0.1).a.item()
    assert not np.less(batch, 0.1).a.item()


@pytest.mark.parametrize("name", ["rint", "degrees", "radians", "conjugate", "negative", "exp"])
def test_ufuncs_that_torch_calls_otherwise(name):
    values = np.array([1.4, -2.6])
    result = getattr(np, name)(Batch(a=torch.from_numpy(values))).a
    np.testing.assert_allclose(result.numpy(), getattr(np, name)(values))
