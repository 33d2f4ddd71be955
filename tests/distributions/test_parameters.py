"""Parameters of a result: exact, shared, aliased and differentiable as before."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
import torch.distributions as D

from tests.distributions.cases import CASES, check_log_prob, positive, real, rows_of, squashed, tensors_in, unit
from typedbatch._core.distributions import cat_dists, dists_equal, get_sliced_dist, map_dist, stack_dists
from typedbatch.errors import LeafError, RowIndexError


@pytest.mark.parametrize("name", ["probs", "logits"])
def test_the_given_parameter_keeps_its_name_and_its_bits(name: str) -> None:
    values = torch.rand(1000, 7)
    kinds = D.Categorical, D.OneHotCategorical, D.Bernoulli, partial(D.Multinomial, 3)
    for kind in (*kinds, partial(D.RelaxedOneHotCategorical, torch.tensor(0.7))):
        dist = kind(**{name: values})
        given = getattr(dist, name)
        assert torch.equal(getattr(get_sliced_dist(dist, slice(1, None)), name), given[1:])
        assert torch.equal(getattr(cat_dists([dist, dist]), name), given.repeat(2, 1))
        assert torch.equal(getattr(stack_dists([dist, dist]), name), given.expand(2, -1, -1))
    assert name in vars(get_sliced_dist(D.Categorical(**{name: values}), 0))


def test_logits_far_apart_are_not_clamped() -> None:
    logits = torch.tensor([[0.0, -200.0]])
    for kind in (D.Categorical, D.OneHotCategoricalStraightThrough, partial(D.Multinomial, 3)):
        assert torch.equal(get_sliced_dist(kind(logits=logits), [0]).logits, logits)


@pytest.fixture(params=[True, False])
def validates(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Torch's global setting, which ``torch.compile`` turns off for the rest of the process."""
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(request.param)
    yield request.param
    D.Distribution.set_default_validate_args(before)


def test_invalid_parameters_and_the_global_setting_stay(validates: bool) -> None:
    broken = D.Categorical(logits=torch.full((2, 3), torch.nan), validate_args=False)
    assert get_sliced_dist(broken, 0).logits.isnan().all()
    with pytest.raises(LeafError, match="cannot be built again from loc, scale: no"):
        get_sliced_dist(Picky(torch.zeros(2), torch.ones(2)), 0)
    with pytest.raises(ValueError, match="constraint") if validates else nullcontext():
        D.Normal(torch.zeros(2), -1.0)


class Picky(D.Normal):
    def __init__(self, loc: torch.Tensor, scale: torch.Tensor) -> None:
        if not loc.ndim:
            raise ValueError("no")
        super().__init__(loc, scale)


def test_mixture_with_shared_weights_inside_independent() -> None:
    mix = D.MixtureSameFamily(D.Categorical(unit(5)), D.Normal(real(5, 3, 5), positive(5, 3, 5)))
    dist, x = D.Independent(mix, 1), real(5, 3)
    for index in (2, [1, 0], None, slice(None, None, -1)):
        check_log_prob(dist, index, x)
    other = D.Independent(D.MixtureSameFamily(D.Categorical(unit(5)), D.Normal(real(5, 3, 5), 1.0)), 1)
    torch.testing.assert_close(cat_dists([dist, other]).log_prob(torch.cat([x, x]))[5:], other.log_prob(x))


def test_one_temperature_for_all_rows() -> None:
    for temperature in (torch.tensor(0.7), torch.tensor([0.7])):
        dist = D.RelaxedOneHotCategorical(temperature, logits=real(5, 4))
        x = dist.sample()
        for index in ([0, 0, 4], slice(2), None, slice(None, None, -1)):
            check_log_prob(dist, index, x)
        assert get_sliced_dist(dist, []).rsample().shape == (0, 4)
        twice = cat_dists([dist, dist])
        torch.testing.assert_close(twice.log_prob(torch.cat([x, x])), dist.log_prob(x).repeat(2))
        assert stack_dists([dist, dist]).rsample().shape == (2, 5, 4)


def test_numbers_in_affine_transforms_become_parameters() -> None:
    a, b = D.Gumbel(0.0, positive(5)), D.Gumbel(2.0, positive(5))
    c = D.Gumbel(real(5), positive(5))
    whole, u = cat_dists([a, b, c]), unit(15)
    expected = torch.cat([dist.icdf(part) for dist, part in zip((a, b, c), u.split(5), strict=True)])
    torch.testing.assert_close(whole.icdf(u), expected)
    scalars = stack_dists([D.Gumbel(0.0, 1.0), D.Gumbel(2.0, 3.0)])
    torch.testing.assert_close(
        scalars.icdf(torch.tensor([0.5, 0.5])), torch.tensor([0.3665, 3.0995]), rtol=0, atol=1e-3
    )
    assert dists_equal(get_sliced_dist(whole, slice(5, 10)), b)
    assert not dists_equal(a, b)


def test_caches_of_transforms_are_dropped() -> None:
    dist = squashed(5)
    x = dist.rsample()
    assert dist.transforms[0]._cached_x_y[0] is not None
    for new in (get_sliced_dist(dist, slice(2)), map_dist(dist, torch.clone), cat_dists([dist, dist])):
        assert new.transforms[0]._cached_x_y == (None, None)
    assert dist.transforms[0]._cached_x_y[0] is not None
    part = get_sliced_dist(dist, 3)
    torch.testing.assert_close(part.log_prob(x[3]), dist.log_prob(x)[3], rtol=1e-3, atol=1e-4)


def test_inverse_transforms_use_the_new_parameters() -> None:
    dist = CASES["Transformed-inverse"](5)
    dist.transforms[0].inv.inv
    part = get_sliced_dist(dist, [4])
    inverse, forward = part.transforms[0], part.transforms[0].inv
    assert torch.equal(forward.loc, dist.transforms[0].inv.loc[[4]])
    assert torch.equal(forward.inv(torch.ones(1)), inverse(torch.ones(1)))
    compose = get_sliced_dist(CASES["Transformed-compose-inverse"](5), 0)
    assert compose.transforms[0].inv.parts[0].loc.shape == ()


def test_stack_transform_follows_the_rows() -> None:
    parts = [D.ExpTransform(), D.AffineTransform(real(5), positive(5))]
    dist = D.TransformedDistribution(D.Normal(real(5, 2), 1.0), D.StackTransform(parts, dim=-1))
    z = real(5, 2)  # torch's log_prob does not work with a StackTransform
    for index in (1, [4, 0], slice(2)):
        assert torch.equal(get_sliced_dist(dist, index).transforms[0](z[index]), dist.transforms[0](z)[index])
    whole = cat_dists([dist, dist])
    assert torch.equal(whole.transforms[0](z.repeat(2, 1)), dist.transforms[0](z).repeat(2, 1))


def test_transforms_along_the_rows_are_refused() -> None:
    cat = D.CatTransform([D.ExpTransform(), D.TanhTransform()], dim=0, lengths=[2, 3])
    dist = D.TransformedDistribution(D.Normal(real(5), 1.0), cat)
    for act in (partial(get_sliced_dist, dist, 0), partial(cat_dists, [dist]), partial(stack_dists, [dist])):
        with pytest.raises(LeafError, match="CatTransform with dim=0 has no rows"):
            act()
    assert dists_equal(map_dist(dist, torch.clone), dist)


def test_gradients_flow_through() -> None:
    loc = real(5).requires_grad_()
    dist = D.Normal(loc, torch.ones(5))
    cat_dists([get_sliced_dist(dist, slice(2)), get_sliced_dist(dist, [4])]).log_prob(torch.zeros(3)).sum().backward()
    torch.testing.assert_close(loc.grad, -loc.detach() * torch.tensor([1.0, 1, 0, 0, 1]))
    assert not map_dist(dist, torch.Tensor.detach).loc.requires_grad


def test_result_is_an_ordinary_distribution() -> None:
    part = get_sliced_dist(CASES["TransformedDistribution"](5), slice(1, 4))
    assert dists_equal(pickle.loads(pickle.dumps(part)), part)
    assert part.expand((2, 3)).batch_shape == (2, 3)
    assert "Normal(loc: torch.Size([2])" in repr(get_sliced_dist(D.Normal(real(5), 1.0), [0, 1]))
    assert torch.equal(D.kl_divergence(D.Normal(real(5), 1.0), D.Normal(real(5), 1.0)).isfinite(), torch.ones(5) == 1)
    mvn = get_sliced_dist(CASES["MultivariateNormal"](5), [1, 2])
    assert D.kl_divergence(mvn, mvn).shape == (2,)
    with pytest.raises(ValueError, match="support"):
        get_sliced_dist(D.Exponential(torch.ones(5), validate_args=True), 0).log_prob(torch.tensor(-1.0))
    quiet = get_sliced_dist(D.Exponential(torch.ones(5), validate_args=False), 0)
    assert quiet.log_prob(torch.tensor(-1.0)) == 1


def test_another_device() -> None:
    for case in ("Normal", "MVN-shared", "Categorical", "Weibull"):
        dist = map_dist(CASES[case](5), lambda tensor: tensor.to("meta"))
        for index in (2, np.int64(1), torch.tensor(4), slice(None, None, -1), [0, 1], torch.tensor([3])):
            part = get_sliced_dist(dist, index)
            assert all(tensor.is_meta for tensor in tensors_in(part))
            assert part.batch_shape == rows_of((5,), index).shape
        with pytest.raises(RowIndexError):
            get_sliced_dist(dist, [5])
        assert cat_dists([dist, dist]).batch_shape == (10,)
