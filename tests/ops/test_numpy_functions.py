"""Numpy's functions called on a batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array, assert_shows
from typedbatch import Batch
from typedbatch.errors import TypedBatchError


def test_numpy_functions_go_to_every_leaf():
    batch = Batch(a=[0.0, 1.0], n={"t": torch.tensor([0.0, 1.0])})
    result = np.exp(batch)
    assert_array(result.a, np.exp([0.0, 1.0]))
    torch.testing.assert_close(result.n.t, torch.tensor([0.0, 1.0]).exp())


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
