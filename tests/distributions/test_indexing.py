"""Rows of distributions: any index means for every parameter what it means for the samples."""

from __future__ import annotations

import inspect
import math
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
import torch.distributions as D
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.distributions.cases import (
    CASES,
    INDICES,
    SHAPES,
    Shape,
    check_moments_and_samples,
    check_says_the_same,
    draw,
    is_unchanged,
    memory,
    pick,
    real,
    rows_of,
    snapshot,
    stored_parameters,
    tril,
)
from typedbatch import Batch
from typedbatch._core.distributions import dist_to_atleast_2d, get_len_of_dist, get_sliced_dist
from typedbatch.errors import NoLengthError, RowIndexError


def test_every_distribution_of_torch_is_in_the_table() -> None:
    exported = {name for name in D.__all__ if inspect.isclass(getattr(D, name))}
    known = {name for name in exported if issubclass(getattr(D, name), D.Distribution)}
    assert known - {"Distribution", "ExponentialFamily"} <= {type(make(5)).__name__ for make in CASES.values()}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_index_commutes_with_log_prob(case: str, shape: Shape) -> None:
    dist = CASES[case](*shape)
    x = draw(dist)
    for number, index in enumerate(INDICES[shape]):
        before = snapshot(dist)
        part = get_sliced_dist(dist, index)
        assert is_unchanged(dist, before), index
        try:
            rows = rows_of(shape, index)
            check_says_the_same(part, dist, rows, x)
            if rows.size and number % 5 == 0:
                check_moments_and_samples(part, dist, rows)
        except Exception as error:
            raise AssertionError(f"{case} with batch_shape {shape} at {index!r}") from error


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_numpy_index_means_the_same(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    whole = D.MultivariateNormal(torch.arange(math.prod(shape) * 2.0).reshape(*shape, 2), scale_tril=tril(2))
    index = data.draw(
        hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)
        | hnp.integer_array_indices(shape)
        | hnp.arrays(bool, shape)
        | hnp.arrays(bool, shape[:1])
    )
    part = get_sliced_dist(whole, index)
    rows = rows_of(shape, index)
    assert part.batch_shape == rows.shape
    assert torch.equal(part.loc, pick(whole.loc, shape, rows))
    assert part.scale_tril.shape == (*rows.shape, 2, 2)


def test_an_int_beside_an_array_picks_first_as_in_torch() -> None:
    loc = real(2, 5, 3)
    part = get_sliced_dist(D.Normal(loc, 1.0), (0, slice(None), [0, 2]))
    assert torch.equal(part.loc, loc[0, :, [0, 2]])
    assert part.batch_shape == (5, 2)


@pytest.mark.parametrize("case", ["Normal", "MVN-covariance", "Categorical", "Categorical-logits", "Dirichlet"])
def test_ints_and_slices_are_views_and_arrays_copies(case: str) -> None:
    dist = CASES[case](5, 3)
    if case == "MVN-covariance":
        dist.scale_tril  # It is computed once, and stored.
    own = memory(dist)
    for index in (1, -1, slice(1, 4), slice(0, None, 2), ..., None, (2, slice(2)), (slice(None), 1)):
        part = get_sliced_dist(dist, index)
        assert {tensor.untyped_storage().data_ptr() for tensor in stored_parameters(part)} <= own, index
    for compound in ("Independent", "TransformedDistribution"):
        dist = CASES[compound](5, 3)
        assert memory(get_sliced_dist(dist, slice(1, 4))) <= memory(dist)
    normal = D.Normal(real(5), 1.0)
    assert get_sliced_dist(normal, slice(2, 4)).loc.data_ptr() == normal.loc[2:].data_ptr()
    assert not memory(get_sliced_dist(CASES["Normal"](5), [0, 1])) & own
    assert not memory(get_sliced_dist(normal, slice(None, None, -1))) & {normal.loc.untyped_storage().data_ptr()}


BAD_INDICES: list[tuple[Shape, Any, str]] = [
    ((5,), 5, "index 5 does not fit Normal with batch_shape (5,)"),
    ((5,), -6, "index -6 does not fit Normal with batch_shape (5,)"),
    ((5,), [0, 7], "index [0, 7] does not fit Normal with batch_shape (5,)"),
    ((5,), (0, 0), "index (0, 0) does not fit Normal with batch_shape (5,)"),
    ((5,), (slice(None), slice(None, None, -1)), "does not fit Normal with batch_shape (5,)"),
    ((5,), (..., ...), "does not fit Normal with batch_shape (5,): it indexes 0 dimensions and has 2 ellipses"),
    ((5,), [True, False], "index [True, False] does not fit Normal with batch_shape (5,)"),
    ((5,), np.ones((5, 2), bool), "does not fit Normal with batch_shape (5,)"),
    ((5,), 1.0, "index 1.0 does not fit Normal with batch_shape (5,): float of float64 is not an index"),
    ((5,), torch.tensor(1.0), "does not fit Normal with batch_shape (5,)"),
    ((5,), np.zeros(0), "does not fit Normal with batch_shape (5,): ndarray of float64 is not an index"),
    ((5,), "loc", "index 'loc' does not fit Normal with batch_shape (5,)"),
    ((5,), object(), "does not fit Normal with batch_shape (5,)"),
    ((5,), slice("a", None), "does not fit Normal with batch_shape (5,)"),
    ((5,), [[0, 1], [2]], "index [[0, 1], [2]] does not fit Normal with batch_shape (5,)"),
    ((5, 3), (0, 3), "index (0, 3) does not fit Normal with batch_shape (5, 3)"),
    ((5, 3), ([0, 1], [0, 1, 2]), "does not fit Normal with batch_shape (5, 3)"),
    ((), 0, "index 0 does not fit Normal with batch_shape (): it indexes 1 dimensions"),
    ((), slice(None), "does not fit Normal with batch_shape ()"),
]


@pytest.mark.parametrize(("shape", "index", "text"), BAD_INDICES, ids=range(len(BAD_INDICES)))
def test_bad_index_says_batch_shape_and_index(shape: Shape, index: Any, text: str) -> None:
    with pytest.raises(RowIndexError) as caught:
        get_sliced_dist(CASES["Normal"](*shape), index)
    assert text in str(caught.value)


def test_event_dimensions_are_out_of_reach() -> None:
    for case in ("Categorical", "Independent", "MultivariateNormal", "Dirichlet", "TransformedDistribution"):
        with pytest.raises(RowIndexError, match="batch_shape"):
            get_sliced_dist(CASES[case](5), (0, 0))


def test_the_text_about_a_long_index_is_short() -> None:
    with pytest.raises(RowIndexError) as caught:
        get_sliced_dist(CASES["Normal"](5), list(range(10000)))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("case", CASES)
def test_at_least_2d(case: str) -> None:
    dist = CASES[case]()
    x = draw(dist)
    before = snapshot(dist)
    row = dist_to_atleast_2d(dist)
    assert is_unchanged(dist, before)
    check_says_the_same(row, dist, np.zeros(1, int), x)
    check_moments_and_samples(row, dist, np.zeros(1, int))
    assert dist_to_atleast_2d(row) is row
    assert get_len_of_dist(row) == 1


def test_length() -> None:
    assert get_len_of_dist(CASES["Categorical"](5, 3)) == 5
    assert get_len_of_dist(CASES["Normal"](0)) == 0
    with pytest.raises(NoLengthError, match=r"Normal with batch_shape \(\) has no length"):
        get_len_of_dist(CASES["Normal"]())


@pytest.mark.parametrize("rows", [2, 600])
def test_rows_of_large_tensors_are_those_of_small_ones(rows):
    batch = Batch(t=torch.arange(rows * 8).reshape(rows, 8), turned=torch.arange(rows * 8).reshape(8, rows).T)
    for index in ([1, 0, 1], [0, -1], [], np.array([1, 0])[::-1]):
        expected = torch.from_numpy(np.array(index, np.intp))
        assert torch.equal(batch[index].t, batch.t[expected])
        assert torch.equal(batch[index].turned, batch.turned[expected])
    for wrong in ([rows], [-rows - 1], [0, rows]):
        with pytest.raises(RowIndexError, match=rf"'t': torch i64\[{rows},8\] cannot be indexed by"):
            batch[wrong]
