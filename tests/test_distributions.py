"""Every distribution of torch as a leaf: what an operation gives must say the same about the same samples."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
import torch.distributions as D
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import constraints

from typedbatch.distributions import (
    cat_dists,
    dist_to_atleast_2d,
    dists_equal,
    get_len_of_dist,
    get_sliced_dist,
    map_dist,
    stack_dists,
)
from typedbatch.errors import LeafError, NoLengthError, RowIndexError, StructureError

Shape = tuple[int, ...]

# torch takes proper samples of Wishart for singular ones and says so
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected")


def real(*shape: int) -> Tensor:
    return torch.randn(shape)


def positive(*shape: int) -> Tensor:
    return torch.rand(shape) * 1.5 + 0.5


def unit(*shape: int) -> Tensor:
    return torch.rand(shape) * 0.8 + 0.1


def tril(*shape: int) -> Tensor:
    return torch.tril(real(*shape, shape[-1]), -1) + torch.diag_embed(positive(*shape))


def posdef(*shape: int) -> Tensor:
    factor = tril(*shape)
    return factor @ factor.mT


def mixture(*b: int, shared: bool = False) -> D.Distribution:
    return D.MixtureSameFamily(
        D.Categorical(logits=real(*(() if shared else b), 4)), D.Normal(real(*b, 4), positive(*b, 4))
    )


def squashed(*b: int) -> D.Distribution:
    base = D.Independent(D.Normal(real(*b, 2), positive(*b, 2)), 1)
    affine = D.AffineTransform(real(*b, 2), positive(2), event_dim=1)
    return D.TransformedDistribution(base, [D.TanhTransform(cache_size=1), affine])


CASES: dict[str, Callable[..., D.Distribution]] = {
    "Bernoulli": lambda *b: D.Bernoulli(unit(*b)),
    "Bernoulli-logits": lambda *b: D.Bernoulli(logits=real(*b)),
    "Beta": lambda *b: D.Beta(positive(*b), positive(*b)),
    "Binomial": lambda *b: D.Binomial(torch.randint(3, 9, b), unit(*b)),
    "Binomial-count": lambda *b: D.Binomial(7, logits=real(*b)),
    "Categorical": lambda *b: D.Categorical(unit(*b, 4)),
    "Categorical-logits": lambda *b: D.Categorical(logits=real(*b, 3)),
    "Categorical-5-of-5": lambda *b: D.Categorical(logits=real(*b, 5)),
    "Cauchy": lambda *b: D.Cauchy(real(*b), positive(*b)),
    "Chi2": lambda *b: D.Chi2(positive(*b)),
    "ContinuousBernoulli": lambda *b: D.ContinuousBernoulli(unit(*b)),
    "Dirichlet": lambda *b: D.Dirichlet(positive(*b, 3)),
    "Exponential": lambda *b: D.Exponential(positive(*b)),
    "FisherSnedecor": lambda *b: D.FisherSnedecor(positive(*b), positive(*b) + 4),
    "Gamma": lambda *b: D.Gamma(positive(*b), positive(*b)),
    "GeneralizedPareto": lambda *b: D.GeneralizedPareto(real(*b), positive(*b), unit(*b) / 4),
    "Geometric": lambda *b: D.Geometric(unit(*b)),
    "Gumbel": lambda *b: D.Gumbel(real(*b), positive(*b)),
    "Gumbel-number": lambda *b: D.Gumbel(0.5, positive(*b)),
    "HalfCauchy": lambda *b: D.HalfCauchy(positive(*b)),
    "HalfNormal": lambda *b: D.HalfNormal(positive(*b)),
    "Independent": lambda *b: D.Independent(D.Normal(real(*b, 3), positive(*b, 3)), 1),
    "Independent-2": lambda *b: D.Independent(D.Normal(real(*b, 5, 3), positive(*b, 5, 3)), 2),
    "Independent-0": lambda *b: D.Independent(D.Normal(real(*b), positive(*b)), 0),
    "Independent-nested": lambda *b: D.Independent(D.Independent(D.Normal(real(*b, 5, 3), positive(3)), 1), 1),
    "Independent-MVN": lambda *b: D.Independent(D.MultivariateNormal(real(*b, 3, 2), scale_tril=tril(3, 2)), 1),
    "Independent-Categorical": lambda *b: D.Independent(D.Categorical(logits=real(*b, 5, 3)), 1),
    "InverseGamma": lambda *b: D.InverseGamma(positive(*b) + 2, positive(*b)),
    "Kumaraswamy": lambda *b: D.Kumaraswamy(positive(*b), positive(*b)),
    "LKJCholesky": lambda *b: D.LKJCholesky(3, positive(*b)),
    "Laplace": lambda *b: D.Laplace(real(*b), positive(*b)),
    "LogNormal": lambda *b: D.LogNormal(real(*b), positive(*b)),
    "LogisticNormal": lambda *b: D.LogisticNormal(real(*b, 3), positive(*b, 3)),
    "LowRankMultivariateNormal": lambda *b: D.LowRankMultivariateNormal(real(*b, 3), real(*b, 3, 2), positive(*b, 3)),
    "LowRank-shared": lambda *b: D.LowRankMultivariateNormal(real(*b, 5), real(5, 3), positive(5)),
    "MixtureSameFamily": mixture,
    "Mixture-shared": partial(mixture, shared=True),
    "Mixture-of-vectors": lambda *b: D.MixtureSameFamily(
        D.Categorical(unit(*b, 4)), D.Independent(D.Normal(real(*b, 4, 2), positive(*b, 4, 2)), 1)
    ),
    "Multinomial": lambda *b: D.Multinomial(6, unit(*b, 4)),
    "Multinomial-expanded": lambda *b: D.Multinomial(6, logits=real(4)).expand(b),
    "MultivariateNormal": lambda *b: D.MultivariateNormal(real(*b, 2), scale_tril=tril(*b, 2)),
    "MVN-covariance": lambda *b: D.MultivariateNormal(real(*b, 3), posdef(*b, 3)),
    "MVN-precision": lambda *b: D.MultivariateNormal(real(*b, 3), precision_matrix=posdef(*b, 3)),
    "MVN-shared": lambda *b: D.MultivariateNormal(real(*b, 5), scale_tril=tril(5)),
    "MVN-partly-shared": lambda *b: D.MultivariateNormal(real(*b, 2), posdef(*b[1:], 2)),
    "NegativeBinomial": lambda *b: D.NegativeBinomial(positive(*b), unit(*b)),
    "Normal": lambda *b: D.Normal(real(*b), positive(*b)),
    "Normal-expanded": lambda *b: D.Normal(0.0, 1.0).expand(b),
    "OneHotCategorical": lambda *b: D.OneHotCategorical(unit(*b, 4)),
    "OneHotCategoricalStraightThrough": lambda *b: D.OneHotCategoricalStraightThrough(logits=real(*b, 4)),
    "Pareto": lambda *b: D.Pareto(positive(*b), positive(*b)),
    "Poisson": lambda *b: D.Poisson(positive(*b)),
    "RelaxedBernoulli": lambda *b: D.RelaxedBernoulli(torch.tensor(0.7), unit(*b)),
    "RelaxedBernoulli-temperatures": lambda *b: D.RelaxedBernoulli(positive(*b), logits=real(*b)),
    "RelaxedOneHotCategorical": lambda *b: D.RelaxedOneHotCategorical(torch.tensor(0.7), unit(*b, 4)),
    "StudentT": lambda *b: D.StudentT(positive(*b) + 2, real(*b), positive(*b)),
    "TransformedDistribution": squashed,
    "Transformed-affine": lambda *b: D.TransformedDistribution(
        D.Normal(real(*b), positive(*b)), [D.TanhTransform(), D.AffineTransform(real(*b), positive())]
    ),
    "Transformed-compose": lambda *b: D.TransformedDistribution(
        D.Independent(D.Normal(real(*b, 3), positive(*b, 3)), 1),
        D.ComposeTransform([D.AffineTransform(real(3), positive(*b, 1)), D.SigmoidTransform()]),
    ),
    "Transformed-inverse": lambda *b: D.TransformedDistribution(
        D.Normal(real(*b), positive(*b)), [D.AffineTransform(real(*b), positive(*b)).inv, D.ExpTransform()]
    ),
    "Transformed-compose-inverse": lambda *b: D.TransformedDistribution(
        D.Normal(real(*b), positive(*b)),
        [D.ComposeTransform([D.AffineTransform(real(*b), 2.0), D.AffineTransform(0.5, positive(*b))]).inv],
    ),
    "Transformed-reshape": lambda *b: D.TransformedDistribution(
        D.Normal(real(*b, 6), positive(*b, 6)),
        [
            D.AffineTransform(real(*b, 6), positive(6)),
            D.ReshapeTransform((6,), (3, 2)),
            D.AffineTransform(real(*b, 3, 2), positive(3, 2)),
        ],
    ),
    "Transformed-matrix": lambda *b: D.TransformedDistribution(
        D.Normal(real(*b, 3), positive(*b, 3)), [D.AffineTransform(real(*b, 3), 2.0), D.CorrCholeskyTransform()]
    ),
    "Transformed-matrix-inverse": lambda *b: D.TransformedDistribution(
        D.LKJCholesky(3, positive(*b)), [D.CorrCholeskyTransform().inv, D.AffineTransform(real(*b, 3), 2.0)]
    ),
    "Transformed-matrix-wrapped": lambda *b: D.TransformedDistribution(
        D.LKJCholesky(3, positive(*b)),
        D.IndependentTransform(
            D.ComposeTransform([D.AffineTransform(real(*b, 3), 2.0), D.CorrCholeskyTransform()]), 0
        ).inv,
    ),
    "Transformed-independent": lambda *b: D.TransformedDistribution(
        D.Normal(real(*b, 3), positive(*b, 3)),
        D.IndependentTransform(D.AffineTransform(real(*b, 3), positive(*b, 3)), 1),
    ),
    "Transformed-simplex": lambda *b: D.TransformedDistribution(
        D.Normal(real(*b, 3), positive(*b, 3)), [D.AffineTransform(real(*b, 3), 2.0), D.StickBreakingTransform()]
    ),
    "Transformed-cat": lambda *b: D.TransformedDistribution(
        D.Independent(D.Normal(real(*b, 3), positive(*b, 3)), 1),
        D.CatTransform([D.ExpTransform(), D.AffineTransform(real(*b, 2), 2.0)], dim=-1, lengths=[1, 2]),
    ),
    "Transformed-copula": lambda *b: D.TransformedDistribution(
        D.MultivariateNormal(real(*b, 2), scale_tril=tril(2)),
        D.CumulativeDistributionTransform(D.Normal(real(*b, 2), positive(2) + 3)),
    ),
    "Uniform": lambda *b: D.Uniform(real(*b), positive(*b) + 5),
    "VonMises": lambda *b: D.VonMises(real(*b), positive(*b)),
    "Weibull": lambda *b: D.Weibull(positive(*b), positive(*b)),
    "Wishart": lambda *b: D.Wishart(positive(*b) + 3, scale_tril=tril(*b, 2)),
    "Wishart-number": lambda *b: D.Wishart(4.0, posdef(*b, 2)),
    "Wishart-shared": lambda *b: D.Wishart(positive(*b) + 3, posdef(2)),
}
if not hasattr(D, "GeneralizedPareto"):  # older torch
    del CASES["GeneralizedPareto"]
SHAPES: list[Shape] = [(), (5,), (5, 3)]
INDICES: dict[Shape, list[Any]] = {
    (): [..., None, (), (None, ...), (None, None)],
    (5,): [
        *(0, -1, np.int64(2), np.array(1), torch.tensor(3), (2,), (..., 4)),
        *(slice(1, 4), slice(None, None, 2), slice(np.int64(1), None), slice(3, 3), slice(0, 100)),
        *(slice(None, None, -1), slice(4, 0, -2), slice(-1, -100, -1)),
        *(..., None, (), (None, 1), (slice(2), None), (None, ..., None)),
        *([3, 0, 0], [], range(3), np.array([1, -1]), np.array([4, 1], np.uint8), np.zeros(0, np.int32)),
        *(torch.tensor([2, 2]), torch.tensor([[0, 1], [4, 3]]), torch.tensor([1], dtype=torch.int32), ([0, 1],)),
        *([True, False, True, False, True], np.zeros(5, bool), torch.tensor([False, True, True, False, False])),
    ],
    (5, 3): [
        *(0, (4, 2), (np.int64(1), torch.tensor(-1)), (..., 1), (3, ...), (slice(None), 2), (slice(1, 3), slice(1))),
        *(slice(None, None, -1), (slice(None, None, -2), slice(None, None, -1)), (..., slice(2, None, -1))),
        *(None, (None, 1), (slice(None), None), (0, None, 1), (..., None), (None, slice(None, None, -1), None, 0)),
        *([4, 0, 0], ([0, 1], [2, 2]), (slice(None, None, -1), [0, 2]), (..., [1, 0]), (np.array([[0], [4]]), [0, 2])),
        *([], ([3], None), ([True, False, False, True, True], 1), (slice(3), np.array([True, False, True]))),
        *(np.eye(5, 3) == 1, torch.eye(5, 3) == 1, torch.zeros(5, 3, dtype=torch.bool)),
    ],
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Tensors this small are several times slower when threads have to share a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


def as_numpy_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(as_numpy_index(item) for item in index)
    if isinstance(index, list) and not index:
        return np.zeros(0, int)
    return index.numpy() if isinstance(index, Tensor) else index


def rows_of(shape: Shape, index: Any) -> np.ndarray[Any, Any]:
    """Positions in the flattened batch, by numpy, as the reference for what an index means."""
    positions = np.arange(math.prod(shape)).reshape(shape)
    return np.asarray(positions[as_numpy_index(index)])


def pick(tensor: Tensor, shape: Shape, rows: np.ndarray[Any, Any]) -> Tensor:
    rest = tensor.shape[len(shape) :]
    return tensor.reshape((math.prod(shape), *rest))[torch.from_numpy(rows.flatten())].reshape((*rows.shape, *rest))


def owners_in(value: Any, seen: list[Any] | None = None) -> list[Any]:
    """The distributions and transforms that an object is made of, by a walk that knows nothing of their structure."""
    seen = [] if seen is None else seen
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, D.Distribution | D.Transform) and not any(item is other for other in seen):
            seen.append(item)
            owners_in(list(vars(item).values()), seen)
        elif isinstance(item, list | tuple):
            owners_in(item, seen)
    return seen


def tensors_in(dist: D.Distribution) -> Iterator[Tensor]:
    for owner in owners_in(dist):
        for value in vars(owner).values():
            yield from (
                item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, Tensor)
            )


def is_derived(owner: Any, name: str) -> bool:
    """Whether torch can compute an attribute from the others."""
    if name in ("scale_tril", "covariance_matrix", "precision_matrix"):
        return hasattr(owner, "_unbroadcasted_scale_tril")
    return name in ("probs", "logits") and vars(owner)[name] is not getattr(owner, "_param", vars(owner)[name])


def memory(dist: D.Distribution) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors_in(dist) if tensor.numel()}


def parameters(dist: D.Distribution) -> dict[str, Tensor]:
    return {name: getattr(dist, name) for name in dist.arg_constraints}


def snapshot(dist: D.Distribution) -> list[tuple[Any, Any]]:
    return [(id(tensor), tensor.clone()) for tensor in tensors_in(dist)]


def is_unchanged(dist: D.Distribution, before: list[tuple[Any, Any]]) -> bool:
    after = snapshot(dist)
    pairs = zip(before, after, strict=False)
    return len(before) == len(after) and all(i == j and torch.equal(a, b) for (i, a), (j, b) in pairs)


def draw(dist: D.Distribution) -> Tensor:
    if isinstance(dist, D.MixtureSameFamily) and dist.mixture_distribution.batch_shape != dist.batch_shape:
        return dist.component_distribution.sample()[..., 0]  # torch cannot sample with weights that all rows share
    return dist.sample()


def check_says_the_same(part: D.Distribution, whole: D.Distribution, rows: np.ndarray[Any, Any], x: Tensor) -> None:
    """``part`` is the rows ``rows`` of the flattened batch of ``whole``, of which ``x`` is a sample."""
    shape = tuple(whole.batch_shape)
    assert type(part) is type(whole)
    assert part.batch_shape == rows.shape
    assert part.event_shape == whole.event_shape
    if rows.size:
        close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5, equal_nan=True)
        close(part.log_prob(pick(x, shape, rows)), pick(whole.log_prob(x), shape, rows))


def check_moments_and_samples(part: D.Distribution, whole: D.Distribution, rows: np.ndarray[Any, Any]) -> None:
    shape = tuple(whole.batch_shape)
    for name in ("mean", "variance"):
        with suppress(NotImplementedError, RuntimeError):  # RuntimeError: torch's Wishart with one df for all rows
            expected = getattr(whole, name)
            if expected.shape == whole.batch_shape + whole.event_shape:  # not so for Independent of vectors
                actual = getattr(part, name)
                torch.testing.assert_close(actual, pick(expected, shape, rows), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert draw(part).shape == part.batch_shape + part.event_shape
    if whole.has_rsample:
        assert part.rsample((2,)).shape == (2, *part.batch_shape, *part.event_shape)


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


@pytest.mark.parametrize("case", ["Normal", "MVN-covariance", "Independent", "TransformedDistribution", "Kumaraswamy"])
def test_ints_and_slices_are_views_and_arrays_copies(case: str) -> None:
    dist = CASES[case](5, 3)
    own = memory(dist)
    for index in (1, -1, slice(1, 4), slice(0, None, 2), ..., None, (2, slice(2)), (slice(None), 1)):
        part = get_sliced_dist(dist, index)
        assert memory(part) <= own, index
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
    ((5,), 1.0, "index 1.0 does not fit Normal with batch_shape (5,): float of float64 is no index"),
    ((5,), torch.tensor(1.0), "does not fit Normal with batch_shape (5,)"),
    ((5,), np.zeros(0), "does not fit Normal with batch_shape (5,): ndarray of float64 is no index"),
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
    assert memory(row) <= memory(dist)
    check_says_the_same(row, dist, np.zeros(1, int), x)
    check_moments_and_samples(row, dist, np.zeros(1, int))
    assert dist_to_atleast_2d(row) is row
    assert get_len_of_dist(row) == 1


def test_length() -> None:
    assert get_len_of_dist(CASES["Categorical"](5, 3)) == 5
    assert get_len_of_dist(CASES["Normal"](0)) == 0
    with pytest.raises(NoLengthError, match=r"Normal with batch_shape \(\) has no length"):
        get_len_of_dist(CASES["Normal"]())


@pytest.mark.parametrize("shape", [(5,), (5, 3)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_cat_of_slices_is_the_original(case: str, shape: Shape) -> None:
    dist = CASES[case](*shape)
    x = draw(dist)
    before, given_parameters = snapshot(dist), set(parameters(copy.copy(dist))) & set(vars(dist))
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


def test_the_second_name_of_a_parameter_stays_the_same_tensor() -> None:
    dist = D.Categorical(logits=real(5, 3))
    for new in (get_sliced_dist(dist, [0]), map_dist(dist, torch.clone), cat_dists([dist, dist]), stack_dists([dist])):
        assert new._param is new.logits
    probs = get_sliced_dist(D.Bernoulli(unit(5)), slice(2))
    assert probs._param is probs.probs


def test_probabilities_are_not_normalised_again() -> None:
    probs = torch.rand(1000, 7)
    dist = D.Categorical(probs)
    assert torch.equal(get_sliced_dist(dist, slice(1, None)).probs, dist.probs[1:])
    assert torch.equal(cat_dists([dist, dist]).probs, dist.probs.repeat(2, 1))


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
        cat_dists,
        CASES["Multinomial"](5),
        D.Multinomial(9, torch.ones(5, 4)),
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
        stack_dists,
        D.Independent(D.Normal(torch.zeros(5, 2, 2), 1.0), 2),
        D.Independent(D.Independent(D.Normal(torch.zeros(5, 2, 2), 1.0), 1), 1),
        "cannot combine Normal and Independent",
    ),
    (
        cat_dists,
        D.Independent(D.Dirichlet(torch.ones(5, 2, 3)), 1),
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
        "ExpRelaxedCategorical.temperature differs, but there can be only one",
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
]


@pytest.mark.parametrize(("join", "a", "b", "text"), MISFITS, ids=lambda value: value if isinstance(value, str) else "")
def test_misfits_say_what_differs(join: Callable[..., Any], a: D.Distribution, b: D.Distribution, text: str) -> None:
    with pytest.raises(StructureError) as caught:
        join([a, b])
    assert text in str(caught.value)
    assert not dists_equal(a, b)


def test_nothing_to_join_and_no_such_axis() -> None:
    for join in (cat_dists, stack_dists):
        with pytest.raises(StructureError, match="no distributions"):
            join([])
    for axis in (2, -3):
        with pytest.raises(StructureError, match=f"axis {axis} is out of range for a stack with 2 batch dimensions"):
            stack_dists([CASES["Normal"](5)], axis)


def test_shared_matrix_as_large_as_the_batch() -> None:
    matrix = torch.tensor([[1.0, 0.0], [3.0, 2.0]])
    dist, x = D.MultivariateNormal(real(2, 2), scale_tril=matrix), real(2, 2)
    for index in (0, 1, [1], slice(None, None, -1), np.array([False, True])):
        part = get_sliced_dist(dist, index)
        assert part._unbroadcasted_scale_tril is dist._unbroadcasted_scale_tril
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


def test_mixture_with_shared_weights_inside_independent() -> None:
    mix = D.MixtureSameFamily(D.Categorical(unit(5)), D.Normal(real(5, 3, 5), positive(5, 3, 5)))
    dist, x = D.Independent(mix, 1), real(5, 3)
    for index in (2, [1, 0], None, slice(None, None, -1)):
        check_log_prob(dist, index, x)
    other = D.Independent(D.MixtureSameFamily(D.Categorical(unit(5)), D.Normal(real(5, 3, 5), 1.0)), 1)
    torch.testing.assert_close(cat_dists([dist, other]).log_prob(torch.cat([x, x]))[5:], other.log_prob(x))


def check_log_prob(dist: D.Distribution, index: Any, x: Tensor) -> None:
    shape = tuple(dist.batch_shape)
    rows = rows_of(shape, index)
    part = get_sliced_dist(dist, index)
    assert part.batch_shape == rows.shape
    torch.testing.assert_close(part.log_prob(pick(x, shape, rows)), pick(dist.log_prob(x), shape, rows))


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


class Careless(D.Distribution):
    """As people write them: constraints that do not tell the event dimension, private tensors, a cached value."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.dependent}  # noqa: RUF012
    support = constraints.real_vector

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        self.loc, self.scale, self._doubled = loc, scale, 2 * loc
        self._table, self._half = torch.arange(17.0), loc.sum(-1) / 2
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    @cached_property
    def total(self) -> Tensor:
        return self.loc.sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        z = (value - self._doubled + self.loc) / self.scale
        return -z.square().sum(-1) - self._half - self.scale.log().sum(-1)


class Several(D.Distribution):
    """Independent choices of different sizes, as a list of distributions."""

    arg_constraints = {}  # noqa: RUF012
    support = constraints.independent(constraints.nonnegative_integer, 1)

    def __init__(self, logits: list[Tensor], name: str | None = None) -> None:
        self.parts = [D.Categorical(logits=part) for part in logits]
        if name:
            self.name = name
        super().__init__(logits[0].shape[:-1], torch.Size([len(logits)]), validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.stack([part.log_prob(x) for part, x in zip(self.parts, value.unbind(-1), strict=True)]).sum(0)


@pytest.mark.parametrize("scale", [(5, 4), (4,), (1, 4), (1,), ()], ids=str)
def test_own_class_without_proper_constraints(scale: Shape) -> None:
    dist, x = Careless(real(5, 4), positive(*scale).expand(scale)), real(5, 4)
    if len(scale) < 1 or scale == (1,):
        dist.scale = dist.scale.expand(4)
    assert dist.total.shape == (5,)
    for index in (0, [3, 1], slice(None, None, -1), None):
        check_log_prob(dist, index, x)
        assert torch.equal(get_sliced_dist(dist, index).total, get_sliced_dist(dist, index).loc.sum(-1))
        assert get_sliced_dist(dist, index)._table is dist._table
    square, y = Careless(real(5, 5), positive(5, 5)), real(5, 5)
    for index in (0, [3, 1], slice(None, None, -1)):
        check_log_prob(square, index, y)
    other = Careless(real(3, 4), positive(3, 4))
    whole = cat_dists([dist, other])
    torch.testing.assert_close(whole.log_prob(torch.cat([x, x[:3]]))[5:], other.log_prob(x[:3]))
    assert whole.total.shape == (8,)


def test_own_class_with_a_list_of_distributions() -> None:
    dist, x = Several([real(5, 2), real(5, 3)]), torch.randint(2, (5, 2))
    for index in (0, [3, 1], slice(None, None, -1), None):
        check_log_prob(dist, index, x)
    whole = cat_dists([dist, dist])
    torch.testing.assert_close(whole.log_prob(torch.cat([x, x])), dist.log_prob(x).repeat(2))
    assert not memory(map_dist(dist, torch.clone)) & memory(dist)
    with pytest.raises(StructureError, match=r"Several with event_shape \(2,\) and \(1,\)"):
        cat_dists([dist, Several([real(5, 2)])])
    one, two = (Several([real(5, 2), real(5, 3)]) for _ in range(2))
    one.options, two.options = {"a": np.zeros(2)}, {"a": np.zeros(2)}
    with pytest.raises(StructureError, match=r"Several\.options differs: \{'a'"):
        cat_dists([one, two])
    assert get_sliced_dist(one, 0).options is one.options
    empty, more = Several([real(5, 2)]), Several([real(4, 2)])
    empty.parts, more.parts = [], []
    assert dists_equal(empty, empty)
    assert not dists_equal(empty, more)
    with pytest.raises(StructureError, match="not every Several has the attribute 'name'"):
        cat_dists([dist, Several([real(5, 2), real(5, 3)], "x")])


def test_own_class_with_a_dict_of_distributions() -> None:
    dist = Several([real(5, 2), real(5, 3)])
    dist.parts = {"left": dist.parts[0], "right": dist.parts[1]}
    part = get_sliced_dist(dist, [4, 0])
    assert torch.equal(part.parts["right"].logits, dist.parts["right"].logits[[4, 0]])
    assert list(part.parts) == ["left", "right"]
    assert dists_equal(cat_dists([get_sliced_dist(dist, slice(2)), get_sliced_dist(dist, slice(2, None))]), dist)
    with pytest.raises(StructureError, match=r"Several\.parts differs in kind or length"):
        cat_dists([dist, Several([real(5, 2), real(5, 3)])])


class Linear(D.Transform):
    """A transform whose matrix is no elementwise parameter."""

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = matrix

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.linalg.solve(self.matrix, y.unsqueeze(-1)).squeeze(-1)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.linalg.slogdet(self.matrix).logabsdet


def test_own_transform_with_a_constant() -> None:
    base, x = D.Independent(D.Normal(real(5, 3), positive(5, 3)), 1), real(5, 3)
    dist = D.TransformedDistribution(base, [Linear(tril(3))])
    for index in (2, [1, 0], slice(2)):
        check_log_prob(dist, index, x)
    torch.testing.assert_close(cat_dists([dist, dist]).log_prob(torch.cat([x, x])), dist.log_prob(x).repeat(2))
    with pytest.raises(StructureError, match=r"Linear\.matrix differs, but there can be only one for all rows"):
        cat_dists([dist, D.TransformedDistribution(base, [Linear(tril(3))])])


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
