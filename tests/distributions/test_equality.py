"""Equality looks at every parameter and at nothing else, and mapping reaches all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributions as D
from torch import Tensor

from tests.distributions.cases import (
    CASES,
    Shape,
    check_says_the_same,
    draw,
    is_derived,
    is_unchanged,
    memory,
    owners_in,
    rows_of,
    snapshot,
    tensors_in,
)
from typedbatch._core.distributions import cat_dists, dists_equal, get_sliced_dist, map_dist


@pytest.mark.parametrize("case", CASES)
def test_map_reaches_every_tensor(case: str) -> None:
    shape = (5, 3)
    dist = CASES[case](*shape)
    x, before = draw(dist), snapshot(dist)
    clone = map_dist(dist, torch.clone)
    assert is_unchanged(dist, before)
    assert not memory(clone) & memory(dist)
    check_says_the_same(clone, dist, rows_of(shape, ...), x)
    double = map_dist(dist, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    assert all(tensor.dtype != torch.float32 for tensor in tensors_in(double))
    if case != "GeneralizedPareto":  # torch's own log_prob takes no float64
        assert double.log_prob(draw(double)).dtype == torch.float64


@pytest.mark.parametrize("shape", [(), (5,)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_equality_looks_at_every_tensor(case: str, shape: Shape) -> None:
    dist = CASES[case](*shape)
    assert dists_equal(dist, dist)
    assert dists_equal(dist, map_dist(dist, torch.clone))
    torch.manual_seed(7)
    assert dists_equal(dist, CASES[case](*shape))
    calls: list[Tensor] = []
    map_dist(dist, lambda tensor: calls.append(tensor) or tensor)  # type: ignore[func-returns-value]
    assert calls
    derived = [t for owner in owners_in(dist) for name, t in vars(owner).items() if is_derived(owner, name)]
    for changed, tensor in enumerate(calls):
        if any(tensor is other for other in derived):
            continue
        count = iter(range(len(calls)))
        other = map_dist(dist, lambda tensor: tensor + (next(count) == changed))
        assert not dists_equal(dist, other), changed


def test_equality_never_raises() -> None:
    class Odd(D.Normal):
        @property
        def arg_constraints(self) -> Any:
            raise KeyError("odd")

    normal = D.Normal(torch.zeros(2), torch.ones(2))
    odd = object.__new__(Odd)
    vars(odd).update(vars(normal))
    for other in (
        None,
        3,
        "x",
        torch.zeros(2),
        D.Laplace(torch.zeros(2), 1.0),
        object.__new__(D.Normal),
        D.Normal(0, 1),
    ):
        assert not dists_equal(normal, other)
        assert not dists_equal(other, normal)
    assert not dists_equal(odd, odd)
    assert not dists_equal(object.__new__(D.Normal), object.__new__(D.Normal))
    assert not dists_equal(D.Normal(torch.zeros(2).double(), 1.0), D.Normal(torch.zeros(2), 1.0))
    assert not dists_equal(D.Multinomial(3, torch.ones(2)), D.Multinomial(4, torch.ones(2)))
    assert not dists_equal(D.Categorical(torch.ones(5, 1)), D.Categorical(torch.ones(5, 3)))
    one, two = (D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, rank), torch.ones(2)) for rank in (1, 2))
    assert not dists_equal(one, two)


@pytest.mark.parametrize(
    "case", ["Categorical", "Categorical-logits", "MVN-covariance", "VonMises", "Wishart", "Geometric"]
)
def test_values_that_torch_has_computed_meanwhile_do_not_count(case: str) -> None:
    dist = CASES[case](5)
    fresh, other = map_dist(dist, torch.clone), map_dist(dist, torch.clone)
    for name in ("probs", "logits", "variance", "precision_matrix", "scale_tril", "_proposal_r"):
        getattr(dist, name, None)
        getattr(other, name, None)
    computed = vars(other).keys() - vars(fresh).keys()
    assert computed
    vars(other).update({name: vars(other)[name] * 1.0001 for name in computed})  # as another batch size may round
    for a, b in ((dist, fresh), (fresh, dist), (other, fresh), (fresh, other)):
        assert dists_equal(a, b)
    assert dists_equal(dist, other) or case == "Geometric"  # nothing in it tells what was given
    x = dist.sample()
    for index in ([4, 0], slice(1, 3), 2):
        check_says_the_same(get_sliced_dist(dist, index), fresh, rows_of((5,), index), x)
    check_says_the_same(get_sliced_dist(cat_dists([dist, fresh]), slice(5, None)), fresh, rows_of((5,), ...), x)


def test_equality_of_parameters_given_in_different_ways() -> None:
    probs = torch.tensor([0.25, 0.5])
    for kind in (D.Bernoulli, D.Geometric):
        assert dists_equal(kind(probs), kind(logits=kind(probs).logits)) == torch.equal(
            kind(logits=kind(probs).logits).probs, probs
        )
        assert not dists_equal(kind(probs), kind(logits=torch.tensor([1.0, 2.0])))
    tall = D.MultivariateNormal(torch.zeros(2), torch.eye(2))
    assert dists_equal(tall, D.MultivariateNormal(torch.zeros(2), precision_matrix=torch.eye(2)))
    assert not dists_equal(tall, D.MultivariateNormal(torch.zeros(2), precision_matrix=2 * torch.eye(2)))
