"""A call with another run than the first argument has."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def logp_of(logits: Float[Tensor, "*b act"], act: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    return F.log_softmax(logits, -1).gather(-1, act.reshape(*logits.shape[:-1], -1)[..., :1]).squeeze(-1)


def main() -> None:
    print(logp_of(torch.rand(6, 2, 3), torch.zeros(6, 2, 1, dtype=torch.long)))  # WRONG


if __name__ == "__main__":
    main()
