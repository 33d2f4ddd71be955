"""LoRA adapters wrapped around frozen linear layers of an MLP."""
from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scaling = alpha / rank
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        # wrong: self.lora_b = nn.Parameter(torch.zeros(rank, base.out_features))  # WRONG

    def forward(self, x: Float[Tensor, "B T I"]) -> Float[Tensor, "B T O"]:
        delta = x @ self.lora_a.T @ self.lora_b.T
        return self.base(x) + self.scaling * delta

    @torch.no_grad()
    def merged_weight(self) -> Float[Tensor, "O I"]:
        return self.base.weight + self.scaling * (self.lora_b @ self.lora_a)


class FeedForward(nn.Module):
    def __init__(self, dim: int, mult: int = 4, rank: int = 4) -> None:
        super().__init__()
        self.up = LoRALinear(nn.Linear(dim, dim * mult), rank)
        self.down = LoRALinear(nn.Linear(dim * mult, dim), rank)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return x + self.down(nn.functional.gelu(self.up(x)))


def main() -> None:
    torch.manual_seed(0)
    ff = FeedForward(dim=24)
    y = ff(torch.randn(2, 6, 24))
    # wrong: y = ff(torch.randn(2, 6, 24))  # WRONG
    y.sum().backward()
    trainable = sum(p.numel() for p in ff.parameters() if p.requires_grad)
    print("trainable", trainable, "merged", tuple(ff.up.merged_weight().shape))
    # wrong: print("trainable", trainable, "merged", tuple(ff.up.merged_weight().shape))  # WRONG


if __name__ == "__main__":
    main()
