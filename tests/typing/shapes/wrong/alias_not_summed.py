"""Aliases of declared arrays, as fields and parameters."""

from typing import Annotated, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from typedbatch import BatchRecord, Finite

PerToken: TypeAlias = Float[Tensor, "N R"]
Row: TypeAlias = Float[Tensor, "N"]
Checked: TypeAlias = Annotated[Float[Tensor, "N R"], Finite]


class Scored(BatchRecord):
    logp: PerToken
    mask: Checked
    reward: Row


def mean(scored: Scored) -> Row:
    return (scored.logp * scored.mask).sum(-1) * scored.mask  # WRONG: not summed


def main() -> None:
    print(mean(Scored(logp=torch.ones(2, 3), mask=torch.ones(2, 3), reward=torch.ones(2))))


if __name__ == "__main__":
    main()
