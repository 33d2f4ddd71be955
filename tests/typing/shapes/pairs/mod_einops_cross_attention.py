"""Cross-attention and bilinear pooling written with einsum and einops."""
from __future__ import annotations

import torch
from einops import einsum, rearrange, reduce
from jaxtyping import Bool, Float
from torch import Tensor


def split_heads(x: Float[Tensor, "B T C"], heads: int) -> Float[Tensor, "B H T D"]:
    return rearrange(x, "b t (h d) -> b h t d", h=heads)


def cross_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S D"],
    key_mask: Bool[Tensor, "B S"],
) -> Float[Tensor, "B H T D"]:
    scores = einsum(q, k, "b h t d, b h s d -> b h t s") * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~rearrange(key_mask, "b s -> b 1 1 s"), -1e9)
    weights = scores.softmax(dim=-1)
    return einsum(weights, v, "b h t s, b h s d -> b h t d")
    # wrong: return einsum(weights, v, "b h t s, b h t d -> b h s d")  # WRONG


def masked_pool(x: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"]:
    w = rearrange(mask.float(), "b t -> b t 1")
    return reduce(x * w, "b t c -> b c", "sum") / reduce(w, "b t 1 -> b 1", "sum").clamp(min=1)


def bilinear(x: Float[Tensor, "B C"], w: Float[Tensor, "C E"], y: Float[Tensor, "B E"]) -> Float[Tensor, "B"]:
    return einsum(x, w, y, "b c, c e, b e -> b")


def main() -> None:
    torch.manual_seed(0)
    B, T, C, heads = 2, 6, 16, 4
    text, audio = torch.randn(B, T, C), torch.randn(B, T, C)
    mask = torch.arange(T)[None, :] < torch.tensor([6, 4])[:, None]
    out = cross_attention(
        split_heads(text, heads), split_heads(audio, heads), split_heads(audio, heads), mask
    )
    merged = rearrange(out, "b h t d -> b t (h d)")
    score = bilinear(masked_pool(merged, mask), torch.randn(C, C), masked_pool(audio, mask))
    print("score", score.tolist())


if __name__ == "__main__":
    main()
