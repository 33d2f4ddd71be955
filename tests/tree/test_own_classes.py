"""Distribution and transform classes that are not of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.distributions as D

from tests.tree.cases import Careless, Linear, Several, Shape, check_log_prob, memory, positive, real, tril
from typedbatch._tree.distributions import (
    cat_dists,
    dists_equal,
    get_sliced_dist,
    map_dist,
)
from typedbatch.errors import StructureError


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


def test_own_transform_with_a_constant() -> None:
    base, x = D.Independent(D.Normal(real(5, 3), positive(5, 3)), 1), real(5, 3)
    dist = D.TransformedDistribution(base, [Linear(tril(3))])
    for index in (2, [1, 0], slice(2)):
        check_log_prob(dist, index, x)
    torch.testing.assert_close(cat_dists([dist, dist]).log_prob(torch.cat([x, x])), dist.log_prob(x).repeat(2))
    with pytest.raises(StructureError, match=r"Linear\.matrix differs, but all rows have to share one value"):
        cat_dists([dist, D.TransformedDistribution(base, [Linear(tril(3))])])
