"""Values of other axes than those of the weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def weighted(x: Float[Tensor, "*b d"], w: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    score = x.sum(-1, keepdim=True)
    return score.mean(-1) + (x @ torch.ones(x.shape[-1], 1)).clamp(0) * w  # WRONG


def main() -> None:
    print(weighted(torch.rand(3, 4), torch.rand(3)))


if __name__ == "__main__":
    main()
