"""Concatenated and stacked distributions say what their parts say, or refuse and name what differs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions as D

from tests.distributions.cases import (
    CASES,
    SHAPES,
    Shape,
    check_says_the_same,
    draw,
    is_unchanged,
    memory,
    parameters,
    positive,
    real,
    rows_of,
    snapshot,
    tril,
    unit,
)
from typedbatch._core.distributions import cat_dists, dists_equal, get_sliced_dist, stack_dists
from typedbatch.errors import StructureError


@pytest.mark.parametrize("shape", [(5,), (5, 3)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_cat_of_slices_is_the_original(case: str, shape: Shape) -> None:
    dist = CASES[case](*shape)
    x = draw(dist)
    # first, as asking makes torch compute logits from probs, unless it did so to validate them (off once it compiles)
    given_parameters = set(parameters(copy.copy(dist))) & set(vars(dist))
    before = snapshot(dist)
    whole = cat_dists([get_sliced_dist(dist, rows) for rows in (slice(2), slice(2, 2), [2], slice(3, None))])
    assert is_unchanged(dist, before)
    assert not memory(whole) & memory(dist)
    check_says_the_same(whole, dist, rows_of(shape, ...), x)
    for name in given_parameters:
        whole_parameter = getattr(whole, name)
        assert torch.equal(whole_parameter, getattr(dist, name).expand_as(whole_parameter)), name
    assert dists_equal(whole, dist)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_stack_then_index_gives_back(case: str, shape: Shape) -> None:
    dists = [CASES[case](*shape) for _ in range(2)]
    x = [draw(dist) for dist in dists]
    for axis in range(-1 - len(shape), len(shape) + 1):
        stacked, at = stack_dists(dists, axis), axis % (len(shape) + 1)
        assert stacked.batch_shape == (*shape[:at], 2, *shape[at:])
        assert not memory(stacked) & (memory(dists[0]) | memory(dists[1]))
        expected = torch.stack([dist.log_prob(y) for dist, y in zip(dists, x, strict=True)], at)
        torch.testing.assert_close(stacked.log_prob(torch.stack(x, at)), expected, rtol=1e-4, atol=1e-5)
        for i, dist in enumerate(dists):
            assert dists_equal(get_sliced_dist(stacked, (*[slice(None)] * at, i)), dist)
    if not case.startswith("Mixture-shared"):
        assert stacked.sample().shape == stacked.batch_shape + stacked.event_shape


def test_probs_and_logits_combine() -> None:
    a, b = D.Categorical(torch.tensor([[0.0, 0.5, 0.5]])), D.Categorical(logits=torch.tensor([[0.0, -60.0, 2.0]]))
    for first, second in ((a, b), (b, a)):
        for whole in (cat_dists([first, second]), cat_dists([cat_dists([first]), cat_dists([second])])):
            assert torch.equal(whole.probs, torch.cat([first.probs, second.probs]))
            assert torch.equal(whole.logits, torch.cat([first.logits, second.logits]))
            for i, source in enumerate((first, second)):
                row = get_sliced_dist(whole, slice(i, i + 1))
                assert torch.equal(row.probs, source.probs)
                assert torch.equal(row.logits, source.logits)
    fresh = D.Categorical(torch.tensor([[0.5, 0.5, 0.0]]))
    cat_dists([fresh, b])
    assert "logits" not in vars(fresh)
    both = stack_dists([D.Bernoulli(unit(5)), D.Bernoulli(logits=real(5))])
    assert both.sample().shape == (2, 5)
    assert both.log_prob(torch.ones(2, 5)).shape == (2, 5)


def test_private_attributes_that_only_some_have_are_left_out() -> None:
    new, expanded = D.Multinomial(6, unit(5, 4)), D.Multinomial(6, unit(4)).expand((5,))
    assert vars(new).keys() - vars(expanded).keys() == {"_binomial"}
    for dists in ([new, expanded], [expanded, new]):
        whole, x = cat_dists(dists), torch.cat([dist.sample() for dist in dists])
        expected = torch.cat([dist.log_prob(part) for dist, part in zip(dists, x.split(5), strict=True)])
        torch.testing.assert_close(whole.log_prob(x), expected)


def test_ways_to_give_a_covariance_combine() -> None:
    dists = [CASES[case](5) for case in ("MVN-covariance", "MVN-precision")]
    dists.append(D.MultivariateNormal(real(5, 3), scale_tril=tril(3)))
    whole, x = cat_dists(dists), real(15, 3)
    expected = torch.cat([dist.log_prob(x[5 * i : 5 * i + 5]) for i, dist in enumerate(dists)])
    torch.testing.assert_close(whole.log_prob(x), expected)
    assert torch.equal(whole.precision_matrix[5:10], dists[1].precision_matrix)


MISFITS: list[tuple[Callable[..., D.Distribution], D.Distribution, D.Distribution, str]] = [
    (cat_dists, D.Normal(torch.zeros(2), 1.0), D.Laplace(torch.zeros(2), 1.0), "cannot combine Normal and Laplace"),
    (cat_dists, CASES["Normal"](5, 3), CASES["Normal"](5, 2), "Normal with batch_shape (5, 3) and (5, 2)"),
    (cat_dists, CASES["Normal"](5, 3), CASES["Normal"](5), "Normal with batch_shape (5, 3) and (5,)"),
    (cat_dists, CASES["Normal"](), CASES["Normal"](), "batch_shape () has no rows to concatenate; stack it"),
    (stack_dists, CASES["Normal"](5), CASES["Normal"](4), "Normal with batch_shape (5,) and (4,)"),
    (cat_dists, CASES["Dirichlet"](5), D.Dirichlet(torch.ones(5, 4)), "Dirichlet with event_shape (3,) and (4,)"),
    (
        cat_dists, CASES["Multinomial"](5), D.Multinomial(9, torch.ones(5, 4)),
        "Multinomial.total_count differs: 6 and 9",
    ),
    (stack_dists, CASES["Categorical"](5), D.Categorical(torch.ones(5, 3)), "Categorical.probs differs: stack expects"),
    (
        stack_dists,
        D.Independent(D.Normal(torch.zeros(5, 2), 1.0), 1),
        D.Independent(D.MultivariateNormal(torch.zeros(5, 2), torch.eye(2)), 0),
        "cannot combine Normal and MultivariateNormal",
    ),
    (
        stack_dists, D.Independent(D.Normal(torch.zeros(5, 2, 2), 1.0), 2),
        D.Independent(D.Independent(D.Normal(torch.zeros(5, 2, 2), 1.0), 1), 1),
        "cannot combine Normal and Independent",
    ),
    (
        cat_dists, D.Independent(D.Dirichlet(torch.ones(5, 2, 3)), 1),
        D.Independent(D.Independent(D.Gamma(torch.ones(5, 2, 3), 1.0), 1), 1),
        "cannot combine Dirichlet and Independent",
    ),
    (
        cat_dists,
        D.TransformedDistribution(CASES["Normal"](5), [D.TanhTransform()]),
        D.TransformedDistribution(CASES["Normal"](5), [D.TanhTransform(), D.ExpTransform()]),
        "TransformedDistribution.transforms differs in kind or length",
    ),
    (
        cat_dists,
        D.TransformedDistribution(CASES["Normal"](5), [D.TanhTransform()]),
        D.TransformedDistribution(CASES["Normal"](5), [D.ExpTransform()]),
        "cannot combine TanhTransform and ExpTransform",
    ),
    (
        cat_dists,
        D.TransformedDistribution(CASES["Normal"](5), [D.AffineTransform(0.0, 1.0)]),
        D.TransformedDistribution(CASES["Normal"](5), [D.AffineTransform(0.5, 1.0)]),
        "AffineTransform.loc differs: 0.0 and 0.5",
    ),
    (
        cat_dists,
        D.RelaxedOneHotCategorical(torch.tensor(0.5), torch.ones(5, 2)),
        D.RelaxedOneHotCategorical(torch.tensor(0.6), torch.ones(5, 2)),
        "RelaxedOneHotCategorical.temperature differs, but all rows have to share one",
    ),
    (
        cat_dists,
        D.LowRankMultivariateNormal(torch.zeros(5, 3), torch.ones(5, 3, 1), torch.ones(5, 3)),
        D.LowRankMultivariateNormal(torch.zeros(5, 3), torch.ones(5, 3, 2), torch.ones(5, 3)),
        "LowRankMultivariateNormal.cov_factor differs",
    ),
    (
        cat_dists,
        D.MixtureSameFamily(D.Categorical(torch.ones(5, 2)), D.Normal(torch.zeros(5, 2), 1.0)),
        D.MixtureSameFamily(D.Categorical(torch.ones(5, 1)), D.Normal(torch.zeros(5, 1), 1.0)),
        "differs",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("join", "a", "b", "text"), MISFITS, ids=lambda value: value if isinstance(value, str) else "")
def test_misfits_say_what_differs(join: Callable[..., Any], a: D.Distribution, b: D.Distribution, text: str) -> None:
    with pytest.raises(StructureError) as caught:
        join([a, b])
    assert text in str(caught.value)
    assert not dists_equal(a, b)


def test_nothing_to_join_and_no_such_axis() -> None:
    for join in (cat_dists, stack_dists):
        with pytest.raises(StructureError, match="one or more distributions"):
            join([])
    for axis in (2, -3):
        with pytest.raises(StructureError, match=f"axis {axis} is out of range for a stack with 2 batch dimensions"):
            stack_dists([CASES["Normal"](5)], axis)


def test_shared_matrix_as_large_as_the_batch() -> None:
    matrix = torch.tensor([[1.0, 0.0], [3.0, 2.0]])
    dist, x = D.MultivariateNormal(real(2, 2), scale_tril=matrix), real(2, 2)
    for index in (0, 1, [1], slice(None, None, -1), np.array([False, True])):
        part = get_sliced_dist(dist, index)
        assert torch.equal(part.scale_tril, matrix.expand(*part.batch_shape, 2, 2))
        check_says_the_same(part, dist, rows_of((2,), index), x)
    low = D.LowRankMultivariateNormal(real(3, 3), real(3, 3), positive(3))
    for index in (1, [2, 0]):
        check_says_the_same(get_sliced_dist(low, index), low, rows_of((3,), index), real(3, 3))
    base = D.Independent(D.Normal(real(3, 3), 1.0), 1)
    affine = D.TransformedDistribution(base, [D.AffineTransform(real(3), positive(3), event_dim=1)])
    for index in (1, [2, 0]):
        part = get_sliced_dist(affine, index)
        assert part.transforms[0].loc is affine.transforms[0].loc
        check_says_the_same(part, affine, rows_of((3,), index), real(3, 3))


def test_shared_and_own_matrices_combine() -> None:
    shared, own = D.MultivariateNormal(real(5, 2), scale_tril=tril(2)), CASES["MultivariateNormal"](5)
    for order in ([shared, own], [own, shared], [shared, shared]):
        whole, x = cat_dists(order), real(10, 2)
        expected = torch.cat([dist.log_prob(part) for dist, part in zip(order, x.split(5), strict=True)])
        torch.testing.assert_close(whole.log_prob(x), expected)
    inner = [D.Independent(D.MultivariateNormal(real(5, 3, 2), scale_tril=t), 1) for t in (tril(2), tril(3, 2))]
    whole, x = stack_dists(inner), real(2, 5, 3, 2)
    torch.testing.assert_close(
        whole.log_prob(x), torch.stack([dist.log_prob(y) for dist, y in zip(inner, x, strict=True)])
    )
    weights = [CASES["Mixture-shared"](5), CASES["MixtureSameFamily"](5)]
    whole, x = cat_dists(weights), real(10)
    torch.testing.assert_close(whole.log_prob(x)[:5], weights[0].log_prob(x[:5]))
    torch.testing.assert_close(whole.log_prob(x)[5:], weights[1].log_prob(x[5:]))
