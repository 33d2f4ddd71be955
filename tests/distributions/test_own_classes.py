"""Distribution and transform classes that are not of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions as D

from tests.distributions.cases import Careless, Linear, Shape, check_log_prob, memory, positive, real, several, tril
from typedbatch import Batch
from typedbatch._core.distributions import cat_dists, dists_equal, get_sliced_dist, map_dist
from typedbatch.errors import LeafError, StructureError


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
