"""The trainer's log-probs lie one place left of the sampler's."""

import torch
from jaxtyping import Float
from torch import Tensor

from typedbatch import Batch, BatchRecord, validate
from typedbatch.rules import logp_aligned

PROJECT = "ms-swift"
LINK = "https://github.com/modelscope/ms-swift/pull/8196"
CAUGHT_BY = "rule"

torch.manual_seed(0)
ROLLOUT = -torch.rand(4, 16) * 5
OLD = torch.roll(ROLLOUT, -1, 1)  # logits[t] predicts token t + 1


def broken() -> str:
    ratio = (OLD - ROLLOUT).exp()
    assert ratio.max() > 10
    return f"on policy, and the importance ratio goes up to {ratio.max():.0f}"


class Ready(BatchRecord):
    rollout_logp: Float[Tensor, "N R"]
    old_logp: Float[Tensor, "N R"]

    aligned = logp_aligned("old_logp", "rollout_logp")


def typed() -> object:
    return validate(Batch(rollout_logp=ROLLOUT, old_logp=OLD), Ready, level="values")
