"""Distributions of torch: the shapes of samples, log-probabilities and entropies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from typedbatch._program.arrays.pointwise import broadcast
from typedbatch._program.arrays.sizes import Size
from typedbatch._program.arrays.values import (
    Arguments,
    Array,
    Axis,
    Distribution,
    Literal,
    Scalar,
    Value,
    is_none,
    sizes_of,
)

Shape = tuple[Axis, ...]


def _shape(value: Value) -> Shape | None:
    """Return the shape of a parameter, which may be a number; None if it is not known."""
    if isinstance(value, Array):
        return value.axes
    return () if isinstance(value, (Size, Scalar, Literal)) and not is_none(value) else None


def _of_parameters(name: str, *parameters: str) -> Callable[[Arguments], Distribution | None]:
    """Return the constructor of a distribution of numbers, whose parameters are broadcast."""

    def construct(arguments: Arguments) -> Distribution | None:
        given = [arguments.get(at, word) for at, word in enumerate(parameters) if arguments.has(at, word)]
        batch = broadcast([_shape(value) for value in given], name)
        return None if batch is None else Distribution(batch, ())

    return construct


def _of_probabilities(name: str, events: int) -> Callable[[Arguments], Distribution | None]:
    """Return a constructor by ``probs`` or ``logits``, whose last axis is that of classes if ``events`` is -1 or 1."""

    def construct(arguments: Arguments) -> Distribution | None:
        values = [arguments.get(0, "probs"), arguments.get(1, "logits")]
        given = [value for value in values if value is not None and not is_none(value)]
        shape = _shape(given[0]) if len(given) == 1 else None
        if shape is None or (events and not shape):
            return None
        if not events:
            return Distribution(shape, ())
        return Distribution(shape[:-1], shape[-1:] if events > 0 else ())

    return construct


def _independent(arguments: Arguments) -> Distribution | None:
    """Return the result of ``Independent(base, 1)``, which makes the last axes those of one event."""
    base, count = arguments.get(0, "base_distribution"), arguments.whole(1, "reinterpreted_batch_ndims")
    if not isinstance(base, Distribution) or count is None or not 0 <= count <= len(base.batch):
        return None
    at = len(base.batch) - count
    return Distribution(base.batch[:at], (*base.batch[at:], *base.event))


CONSTRUCTORS: Final[dict[str, Callable[[Arguments], Distribution | None]]] = {
    **{
        name: _of_parameters(name, *words)
        for name, *words in (
            ("Beta", "concentration1", "concentration0"),
            ("Cauchy", "loc", "scale"),
            ("Exponential", "rate"),
            ("Gamma", "concentration", "rate"),
            ("Gumbel", "loc", "scale"),
            ("HalfNormal", "scale"),
            ("Laplace", "loc", "scale"),
            ("LogNormal", "loc", "scale"),
            ("Normal", "loc", "scale"),
            ("Poisson", "rate"),
            ("StudentT", "df", "loc", "scale"),
            ("Uniform", "low", "high"),
        )
    },
    "Bernoulli": _of_probabilities("Bernoulli", 0),
    "Categorical": _of_probabilities("Categorical", -1),
    "OneHotCategorical": _of_probabilities("OneHotCategorical", 1),
    "Independent": _independent,
}
"""Distributions by the names of their classes."""


def _tensor(axes: Shape | None) -> Array:
    return Array(axes, None, torch=True)


def log_prob(distribution: Distribution, arguments: Arguments) -> Value:
    """Return the result of ``dist.log_prob(value)``, one number for each event.

    Raises:
        MismatchError: The value does not fit the distribution, or each of its rows is broadcast against every other.
    """
    value, whole = arguments.array(0, "value"), (*distribution.batch, *distribution.event)
    if value is None or value.axes is None:
        return None
    together = broadcast([value.axes, whole], "log_prob")
    if together is None or len(distribution.event) > len(together):
        return None
    return _tensor(together[: len(together) - len(distribution.event)])


def _drawn(distribution: Distribution, arguments: Arguments) -> Value:
    """Return the result of ``dist.sample((3,))``."""
    whole = (*distribution.batch, *distribution.event)
    if not arguments.has(0, "sample_shape"):
        return _tensor(whole)
    before = sizes_of(arguments.get(0, "sample_shape"))
    return None if before is None else _tensor((*before, *whole))


METHODS: Final[dict[str, Callable[[Distribution, Arguments], Value]]] = {
    "log_prob": log_prob,
    "entropy": lambda distribution, arguments: _tensor(distribution.batch),
    "sample": _drawn,
    "rsample": _drawn,
}


def attribute(distribution: Distribution, name: str) -> Value:
    """Return ``dist.mean``, ``dist.stddev`` or ``dist.variance``, or None for another attribute."""
    known = name in ("mean", "stddev", "variance")
    return _tensor((*distribution.batch, *distribution.event)) if known else None


def divergence(arguments: Arguments) -> Value:
    """Return the result of ``kl_divergence(p, q)``, one number for each event."""
    both = [arguments.get(at, word) for at, word in enumerate("pq")]
    batches = [one.batch for one in both if isinstance(one, Distribution)]
    return _tensor(broadcast(batches, "kl_divergence")) if len(batches) == len(both) else None
