"""The mean of the wrong axes: those of the features are wanted."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def mean_of_features(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
    return x.mean(-1, keepdim=True)  # WRONG


def main() -> None:
    print(mean_of_features(torch.rand(3, 4)))


if __name__ == "__main__":
    main()
