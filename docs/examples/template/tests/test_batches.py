"""The returns, and what the boundary refuses."""

from __future__ import annotations

import numpy as np
import pytest
from myagent.batches import Learnable, Rollout, with_returns

from typedbatch import SchemaError, validate
from typedbatch.testing import example


def test_returns_end_with_the_episode() -> None:
    batch = example(Rollout, N=3, fields={"rew": np.ones(3), "terminated": np.array([False, True, False])})
    learnable = validate(with_returns(batch, gamma=0.5), Learnable)
    assert learnable.returns.tolist() == [1.5, 1.0, 1.0]


def test_rewards_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(SchemaError, match="rew"):
        with_returns(example(Rollout, N=2, fields={"rew": np.array([0.0, np.nan])}))
