"""Sequence packing: segment ids, restarted positions and block-diagonal causal masks."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def pack(docs: list[Int[Tensor, "_"]], length: int, pad: int = 0) -> tuple[Int[Tensor, "T"], Int[Tensor, "T"]]:
    ids = torch.cat(docs)[:length]
    seg = torch.cat([torch.full_like(d, i + 1) for i, d in enumerate(docs)])[:length]
    extra = length - ids.numel()
    return F.pad(ids, (0, extra), value=pad), F.pad(seg, (0, extra), value=0)


def positions(seg: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    T = seg.shape[1]
    idx = torch.arange(T).expand_as(seg)
    new = torch.ones_like(seg, dtype=torch.bool)
    new[:, 1:] = seg[:, 1:] != seg[:, :-1]
    start = torch.where(new, idx, torch.zeros_like(idx)).cummax(dim=1).values
    return idx - start


def same_segment(seg: Int[Tensor, "B T"]) -> Bool[Tensor, "B T T"]:
    return seg[:, :, None] == seg[:, None, :]
    # wrong: return seg[:, None] == seg[:, None, :]  # WRONG


def packed_mask(seg: Int[Tensor, "B T"]) -> Bool[Tensor, "B 1 T T"]:
    T = seg.shape[1]
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    return (same_segment(seg) & causal).unsqueeze(1)


def attend(q: Float[Tensor, "B H T D"], seg: Int[Tensor, "B T"]) -> Float[Tensor, "B H T D"]:
    return F.scaled_dot_product_attention(q, q, q, attn_mask=packed_mask(seg))


def main() -> None:
    torch.manual_seed(0)
    rows = [
        pack([torch.arange(1, 5), torch.arange(1, 4)], 8),
        pack([torch.arange(1, 3), torch.arange(1, 7)], 8),
    ]
    ids, seg = (torch.stack(cols) for cols in zip(*rows))
    out = attend(torch.randn(2, 2, 8, 4), seg)
    # wrong: out = attend(torch.randn(2, 2, 8, 4), seg)  # WRONG
    print(ids.shape, positions(seg).tolist(), out.norm().item())


if __name__ == "__main__":
    main()
