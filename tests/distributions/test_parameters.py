"""Parameters of a result: exact, shared and differentiable; equality by every one; classes that are not of torch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions as D
from torch import Tensor

from tests.distributions.cases import (
    CASES,
    Careless,
    Linear,
    Shape,
    check_log_prob,
    check_says_the_same,
    draw,
    is_derived,
    is_unchanged,
    memory,
    owners_in,
    positive,
    real,
    rows_of,
    several,
    snapshot,
    squashed,
    tensors_in,
    tril,
    unit,
)
from typedbatch import Batch
from typedbatch._core.distributions import cat_dists, dists_equal, get_sliced_dist, map_dist, stack_dists
from typedbatch.errors import LeafError, RowIndexError, StructureError


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


@pytest.mark.parametrize("scale", [(5, 4), (4,), (1, 4), (1,), ()], ids=str)
def test_own_class_without_proper_constraints(scale: Shape) -> None:
    dist, x = Careless(real(5, 4), positive(*scale).expand(scale)), real(5, 4)
    if len(scale) < 1 or scale == (1,):
        dist.scale = dist.scale.expand(4)
    assert dist.total.shape == (5,)
    for index in (0, [3, 1], slice(None, None, -1), None):
        check_log_prob(dist, index, x)
        assert torch.equal(get_sliced_dist(dist, index).total, get_sliced_dist(dist, index).loc.sum(-1))
        assert torch.equal(get_sliced_dist(dist, index)._table, dist._table)
    square, y = Careless(real(5, 5), positive(5, 5)), real(5, 5)
    for index in (0, [3, 1], slice(None, None, -1)):
        check_log_prob(square, index, y)
    other = Careless(real(3, 4), positive(3, 4))
    whole = cat_dists([dist, other])
    torch.testing.assert_close(whole.log_prob(torch.cat([x, x[:3]]))[5:], other.log_prob(x[:3]))
    assert whole.total.shape == (8,)


def test_own_class_with_a_list_of_distributions() -> None:
    dist, x = several((5, 2), (5, 3)), torch.randint(2, (5, 2))
    for index in (0, [3, 1], slice(None, None, -1), None):
        check_log_prob(dist, index, x)
    whole = cat_dists([dist, dist])
    torch.testing.assert_close(whole.log_prob(torch.cat([x, x])), dist.log_prob(x).repeat(2))
    assert not memory(map_dist(dist, torch.clone)) & memory(dist)
    with pytest.raises(StructureError, match=r"Several with event_shape \(2,\) and \(1,\)"):
        cat_dists([dist, several((5, 2))])
    with pytest.raises(StructureError, match=r"Several\._?name differs: None and 'x'"):
        cat_dists([dist, several((5, 2), (5, 3), name="x")])
    empty, more = several((5, 2)), several((4, 2))
    empty.parts, more.parts = [], []
    assert dists_equal(empty, empty)
    assert not dists_equal(empty, more)
    two = several((5, 2), (5, 3))
    two.parts = two.parts[:1]
    with pytest.raises(StructureError, match=r"Several\.parts differs in kind or length"):
        cat_dists([dist, two])


class Shifted(D.Normal):
    """A class with keywords that only ``arg_constraints`` declares."""

    def __init__(self, shift: torch.Tensor, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shift = shift


class Squashed(D.Independent):
    """A class that does not store the parameters of its constructor."""

    def __init__(self, loc: torch.Tensor, log_scale: torch.Tensor) -> None:
        super().__init__(D.Normal(loc, log_scale.exp()), 1)


def test_own_class_with_keywords() -> None:
    part = get_sliced_dist(Shifted(real(5), loc=real(5), scale=positive(5), validate_args=False), [3, 1])
    assert part.batch_shape == part.shift.shape == part.loc.shape == (2,)
    assert part._validate_args is False


def test_own_class_that_cannot_be_built_again_is_named() -> None:
    with pytest.raises(LeafError, match="Squashed cannot be taken apart: its constructor takes 'loc'"):
        get_sliced_dist(Squashed(real(5, 2), real(5, 2)), 0)
    noted = D.Normal(real(5), positive(5))
    noted.note = "x"
    with pytest.raises(LeafError, match=r"Normal\.note would be lost, since its constructor does not set it"):
        get_sliced_dist(noted, 0)
    with pytest.raises(LeafError, match="'dist': Squashed cannot be taken apart"):
        Batch(a=np.zeros(5), dist=Squashed(real(5, 2), real(5, 2)))[0]
    batch = Batch(a=np.zeros(5), dist=D.Normal(real(5), positive(5)))
    assert batch[:2] == batch[:2].copy()


def test_own_transform_with_a_constant() -> None:
    base, x = D.Independent(D.Normal(real(5, 3), positive(5, 3)), 1), real(5, 3)
    dist = D.TransformedDistribution(base, [Linear(tril(3))])
    for index in (2, [1, 0], slice(2)):
        check_log_prob(dist, index, x)
    torch.testing.assert_close(cat_dists([dist, dist]).log_prob(torch.cat([x, x])), dist.log_prob(x).repeat(2))
    with pytest.raises(StructureError, match=r"Linear\.matrix differs, but all rows have to share one value"):
        cat_dists([dist, D.TransformedDistribution(base, [Linear(tril(3))])])


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
