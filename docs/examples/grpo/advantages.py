"""Advantages over groups of responses to one prompt."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from typedbatch.posttraining import RewardProtocol
from typedbatch.rows import groups

GROUP = 8


def group_advantages(batch: RewardProtocol) -> Float[Tensor, "N R"]:
    """Return how much better each response is than the others to its prompt, at each of its tokens that count."""
    by_prompt = groups(batch, "uid", size=GROUP)
    advantages = (batch.rewards - by_prompt.mean(batch.rewards)) / (by_prompt.std(batch.rewards) + 1e-4)
    return advantages[:, None] * batch.loss_mask
