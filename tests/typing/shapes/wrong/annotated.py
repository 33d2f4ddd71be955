"""Programs with a mistake about annotations that are evaluated late, each below its name."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

# ---- runs_called
# A call with another run than the first argument has.
def logp_of(logits: Float[Tensor, "*b act"], act: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    return F.log_softmax(logits, -1).gather(-1, act.reshape(*logits.shape[:-1], -1)[..., :1]).squeeze(-1)


def main() -> None:
    print(logp_of(torch.rand(6, 2, 3), torch.zeros(6, 2, 1, dtype=torch.long)))  # WRONG

# ---- runs_last_axis
# The mean of the wrong axes: those of the features are wanted.
def mean_of_features(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
    return x.mean(-1, keepdim=True)  # WRONG


def main() -> None:
    print(mean_of_features(torch.rand(3, 4)))

# ---- runs_other_run
# Values of other axes than those of the weights.
def weighted(x: Float[Tensor, "*b d"], w: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    score = x.sum(-1, keepdim=True)
    return score.mean(-1) + (x @ torch.ones(x.shape[-1], 1)).clamp(0) * w  # WRONG


def main() -> None:
    print(weighted(torch.rand(3, 4), torch.rand(3)))

# ---- runs_result
# The result has the width of the weights.
def project(x: Float[Tensor, "... d"], w: Float[Tensor, "d k"]) -> Float[Tensor, "... d"]:
    return x @ w  # WRONG


def main() -> None:
    print(project(torch.rand(3, 4), torch.rand(4, 5)))
