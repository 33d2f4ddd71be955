"""The result has the width of the weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def project(x: Float[Tensor, "... d"], w: Float[Tensor, "d k"]) -> Float[Tensor, "... d"]:
    return x @ w  # WRONG


def main() -> None:
    print(project(torch.rand(3, 4), torch.rand(4, 5)))


if __name__ == "__main__":
    main()
