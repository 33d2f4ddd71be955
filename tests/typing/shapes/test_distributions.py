"""torch's distributions against torch itself: shapes of draws, log-probabilities, entropies, divergences."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributions

from tests.typing.shapes.drawing import K, N
from typedbatch._program.arrays.distributions import CONSTRUCTORS, METHODS, attribute, divergence
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Distribution,
    Literal,
    MismatchError,
    Several,
    Value,
)

NUMBERS = {N: 3, K: 4}
Drawn = tuple[Any, Value]
"""A value, and what is known of it."""


def tensor(random: Random, *sizes: Size | int, low: float = 0.2, high: float = 0.8) -> Drawn:
    """Draw a tensor; of some of its sizes nothing is known."""
    shape = [NUMBERS[size] if isinstance(size, Size) else size for size in sizes]
    axes = (Axis(size if isinstance(size, Size) else number(size)) for size in sizes)
    blurred = tuple(axis if random.random() < 0.9 else UNKNOWN for axis in axes)
    return low + (high - low) * torch.rand(shape), Array(blurred, None, torch=True)


def parameter(random: Random) -> Drawn:
    """Draw a parameter of a distribution of numbers: of the batch, a part of it, or a number."""
    if random.random() < 0.15:
        return 0.5, Literal(0.5)
    return tensor(random, *random.choice([(N, K), (N, K), (K,), (N, 1), (5, N, K)]))


def distribution(random: Random, name: str) -> tuple[Any, Distribution | None] | None:
    """Draw a distribution; None if its parameters do not fit."""
    if name in ("Bernoulli", "Categorical", "OneHotCategorical"):
        real, told = tensor(random, *random.choice([(N, K), (K,), (5, N, K)]))
        word = random.choice(["probs", "logits"])
        return getattr(distributions, name)(**{word: real}), CONSTRUCTORS[name](Arguments((), {word: told}, torch=True))
    if name == "Independent":
        base = distribution(random, "Normal")
        if base is None or base[1] is None or not base[0].batch_shape:
            return None
        count = random.randint(0, len(base[0].batch_shape))
        return distributions.Independent(base[0], count), CONSTRUCTORS[name](
            Arguments((base[1], number(count)), torch=True)
        )
    count = {"Exponential": 1, "HalfNormal": 1, "Poisson": 1, "StudentT": 3}.get(name, 2)
    drawn = [parameter(random) for _ in range(count)]
    if name == "Uniform":
        drawn[1] = tensor(random, N, K, low=2.0, high=3.0)
    return getattr(distributions, name)(*(real for real, _ in drawn)), CONSTRUCTORS[name](
        Arguments(tuple(told for _, told in drawn), torch=True)
    )


def agrees(known: Value, real: torch.Tensor) -> bool:
    """Return whether what is known of a tensor is so."""
    if not isinstance(known, Array) or known.axes is None:
        return True
    sizes = [axis.size and NUMBERS.get(axis.size, axis.size.number) for axis in known.axes]
    return len(sizes) == real.dim() and all(a in (None, b) for a, b in zip(sizes, real.shape, strict=True))


@pytest.mark.parametrize("name", sorted(CONSTRUCTORS))
@given(random=st.randoms(use_true_random=False))
def test_what_is_known_is_so(name: str, random: Random) -> None:
    drawn = distribution(random, name)
    if drawn is None or drawn[1] is None:
        return
    real, told = drawn
    assert agrees(METHODS["sample"](told, Arguments(())), real.sample())
    several = Arguments((Several((number(2), number(3))),), torch=True)
    assert agrees(METHODS["sample"](told, several), real.sample((2, 3)))
    value = Array((*told.batch, *told.event), None, torch=True)
    assert agrees(METHODS["log_prob"](told, Arguments((value,), torch=True)), real.log_prob(real.sample()))
    if name != "Poisson":
        assert agrees(METHODS["entropy"](told, Arguments(())), real.entropy())
    if name != "Categorical":
        assert agrees(attribute(told, "mean"), real.mean)
    if name in ("Normal", "Beta", "Categorical", "Bernoulli"):
        found = divergence(Arguments((told, told), torch=True))
        assert agrees(found, distributions.kl_divergence(real, real))


def test_something_is_known_of_each() -> None:
    for name in CONSTRUCTORS:
        drawn = [distribution(Random(seed), name) for seed in range(20)]
        assert any(one is not None and one[1] is not None for one in drawn), name


def array(*sizes: Size | int) -> Array:
    """Return what is known of a tensor."""
    axes = (Axis(size if isinstance(size, Size) else number(size)) for size in sizes)
    return Array(tuple(axes), None, torch=True)


def test_actions_of_a_column_are_reported() -> None:
    made = CONSTRUCTORS["Categorical"](Arguments((), {"logits": array(N, K)}, torch=True))
    assert made is not None
    with pytest.raises(MismatchError, match=r"log_prob: \(N, 1\) and \(N,\) make \(N, N\): each N against every other"):
        METHODS["log_prob"](made, Arguments((array(N, 1),), torch=True))


def test_parameters_that_do_not_fit_are_reported() -> None:
    with pytest.raises(MismatchError, match=r"Normal: \(N, 3\) and \(2,\) do not fit: 3 against 2"):
        CONSTRUCTORS["Normal"](Arguments((array(N, 3), array(2)), torch=True))
