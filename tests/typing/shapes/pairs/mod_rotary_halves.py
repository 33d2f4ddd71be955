"""Rotary position embeddings applied to queries and keys (half-rotation layout)."""
from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def rope_tables(
    seq_len: int, head_dim: int, base: float = 10_000.0
) -> tuple[Float[Tensor, "T D"], Float[Tensor, "T D"]]:
    inv_freq = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(seq_len).float(), inv_freq)
    emb = torch.cat((angles, angles), dim=-1)
    return emb.cos(), emb.sin()


def rotate_half(x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)
    # wrong: return torch.cat((-x2, x1), dim=-2)  # WRONG


def apply_rope(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H T D"],
    cos: Float[Tensor, "T D"],
    sin: Float[Tensor, "T D"],
) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
    q_rot = q * cos + rotate_half(q) * sin
    k_rot = k * cos + rotate_half(k) * sin
    return q_rot, k_rot


def main() -> None:
    torch.manual_seed(0)
    B, H, T, D = 2, 3, 10, 16
    q, k = torch.randn(B, H, T, D), torch.randn(B, H, T, D)
    cos, sin = rope_tables(T, D)
    q_rot, k_rot = apply_rope(q, k, cos, sin)
    drift = (q_rot.norm(dim=-1) - q.norm(dim=-1)).abs().max()
    print("norm drift", drift.item(), "scores", (q_rot @ k_rot.mT).shape)


if __name__ == "__main__":
    main()
