"""What is passed from the collector to the learner."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from typedbatch import BatchRecord, Finite, checked, extend, mypy_plugin_active

_: Literal[True] = mypy_plugin_active()  # mypy reports this line where the plugin is off


class Rollout(BatchRecord):
    """Steps of episodes, end to end."""

    obs: Float[np.ndarray, "N 4"]
    act: Int[np.ndarray, "N"]
    rew: Annotated[Float[np.ndarray, "N"], Finite]
    terminated: Bool[np.ndarray, "N"]


class Learnable(Rollout):
    """What the learner takes."""

    returns: Float[np.ndarray, "N"]


@checked
def with_returns(batch: Rollout, gamma: float = 0.99) -> Learnable:
    """Discounted sums of rewards, up to the end of each episode."""
    returns = np.zeros(len(batch) + 1)
    for t in reversed(range(len(batch))):
        returns[t] = batch.rew[t] + gamma * returns[t + 1] * ~batch.terminated[t]
    return extend(batch, Learnable, returns=returns[:-1])
