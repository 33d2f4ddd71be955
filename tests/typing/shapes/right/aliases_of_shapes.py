"""Aliases of declared arrays, as fields and parameters."""

from typing import Annotated, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from typedbatch import BatchRecord, Finite

PerToken: TypeAlias = Float[Tensor, "N R"]
Row: TypeAlias = Float[Tensor, "N"]
Checked: TypeAlias = Annotated[Float[Tensor, "N R"], Finite]
Steps = Int[np.ndarray, "N"]


class Scored(BatchRecord):
    logp: PerToken
    mask: Checked
    reward: Row


def mean(scored: Scored) -> Row:
    return (scored.logp * scored.mask).sum(-1) / scored.mask.sum(-1) * scored.reward


def next_steps(steps: Steps, by: "Steps | None" = None) -> Steps:
    return steps + 1 if by is None else steps + by


if __name__ == "__main__":
    print(mean(Scored(logp=torch.ones(2, 3), mask=torch.ones(2, 3), reward=torch.ones(2))), next_steps(np.arange(3)))
