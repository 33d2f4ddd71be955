"""Distributions as fields: indexed, joined and measured like the arrays beside them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Independent, Normal

from tests.ops.helpers import assert_array
from typedbatch import Batch
from typedbatch._core.distributions import dist_to_atleast_2d, get_len_of_dist, get_sliced_dist


def test_a_slice_takes_the_rows_of_a_categorical():
    probs = torch.tensor([[0.3, 0.7], [0.4, 0.6], [0.5, 0.5]])
    batch = Batch(dist=Categorical(probs=probs), values=np.array([1, 2, 3]))
    assert len(batch) == 3
    part = batch[0:2]
    assert len(part) == 2
    assert type(part.dist) is Categorical
    torch.testing.assert_close(part.dist.probs, probs[:2])
    assert_array(part["values"], [1, 2])


def test_an_int_takes_one_row_of_a_normal():
    batch = Batch(dist=Normal(torch.tensor([0.0, 1.0, 2.0]), torch.ones(3)), actions=np.array([0.5, 1.5, 2.5]))
    row = batch[1]
    assert row.dist.mean == 1.0
    assert row.dist.batch_shape == ()
    assert row.actions == 1.5


def test_distributions_are_indexed_by_row_and_not_as_one_blob():
    batch = Batch(dist=Normal(torch.arange(4.0), torch.ones(4)))
    assert batch[3].dist.mean == 3.0
    assert batch[[1, 2]].dist.mean.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "dist",
    [
        Independent(Normal(torch.arange(6.0).reshape(3, 2), torch.ones(3, 2)), 1),
        Bernoulli(torch.tensor([0.1, 0.2, 0.3])),
    ],
    ids=["independent", "bernoulli"],
)
def test_other_distributions_are_sliced_joined_and_stacked_too(dist):
    batch = Batch(dist=dist)
    torch.testing.assert_close(batch[[2, 0]].dist.mean, dist.mean[[2, 0]])
    torch.testing.assert_close(Batch.cat([batch[:1], batch[1:]]).dist.mean, dist.mean)
    assert Batch.stack([batch, batch]).dist.batch_shape == (2, 3)


def test_a_scalar_distribution_gets_a_batch_dimension():
    scalar = Categorical(probs=torch.tensor([0.3, 0.7]))
    assert scalar.batch_shape == ()
    assert dist_to_atleast_2d(scalar).batch_shape == (1,)
    batch = Batch(a=1, b=2, dist=Categorical(probs=torch.ones(3))).to_at_least_2d()
    assert batch.dist.batch_shape == (1,)
    assert_array(batch.a, [[1]])


@pytest.mark.parametrize(
    "dist",
    [
        Categorical(logits=torch.arange(6.0).reshape(3, 2)),
        Normal(torch.arange(3.0), torch.ones(3)),
        Independent(Normal(torch.arange(6.0).reshape(3, 2), torch.ones(3, 2)), 1),
    ],
    ids=["categorical", "normal", "independent"],
)
def test_functions_for_distributions(dist):
    assert get_len_of_dist(dist) == 3
    part = get_sliced_dist(dist, [2, 0])
    assert type(part) is type(dist)
    torch.testing.assert_close(part.entropy(), dist.entropy()[[2, 0]])
    assert dist_to_atleast_2d(dist) is dist
    assert dist_to_atleast_2d(get_sliced_dist(dist, 1)).batch_shape == (1,)


def test_a_scalar_distribution_has_no_length():
    with pytest.raises(TypeError):
        get_len_of_dist(Normal(0.0, 1.0))
