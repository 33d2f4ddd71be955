"""Every distribution of torch, and ways to see what an operation did to one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
import torch.distributions as D
from torch import Tensor
from torch.distributions import constraints

from typedbatch._core.distributions import get_sliced_dist

Shape = tuple[int, ...]


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
        *(slice(None, None, -1), slice(4, 0, -2), slice(-1, -100, -1), slice(None, None, -(2**63))),
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
    return name in ("probs", "logits") and name != next(key for key in vars(owner) if key in ("probs", "logits"))


def memory(dist: D.Distribution) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors_in(dist) if tensor.numel()}


def stored_parameters(dist: D.Distribution) -> list[Tensor]:
    return [vars(dist)[name] for name in dist.arg_constraints if name in vars(dist)]


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

    def __init__(self, parts: list[D.Categorical], name: str | None = None) -> None:
        self.parts, self._name = parts, name
        super().__init__(parts[0].batch_shape, torch.Size([len(parts)]), validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.stack([part.log_prob(x) for part, x in zip(self.parts, value.unbind(-1), strict=True)]).sum(0)


def several(*sizes: tuple[int, int], name: str | None = None) -> Several:
    return Several([D.Categorical(logits=real(*size)) for size in sizes], name)


class Linear(D.Transform):
    """A transform whose matrix is not an elementwise parameter."""

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = matrix

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.linalg.solve(self.matrix, y.unsqueeze(-1)).squeeze(-1)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.linalg.slogdet(self.matrix).logabsdet


def check_log_prob(dist: D.Distribution, index: Any, x: Tensor) -> None:
    shape = tuple(dist.batch_shape)
    rows = rows_of(shape, index)
    part = get_sliced_dist(dist, index)
    assert part.batch_shape == rows.shape
    torch.testing.assert_close(part.log_prob(pick(x, shape, rows)), pick(dist.log_prob(x), shape, rows))
