"""Incremental decoding with a growing grouped-query KV cache, as pure functions."""
from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Cache(NamedTuple):
    k: Float[Tensor, "B S KV D"]
    v: Float[Tensor, "B S KV D"]


def empty_cache(batch: int, kv_heads: int, head_dim: int) -> Cache:
    return Cache(torch.zeros(batch, 0, kv_heads, head_dim), torch.zeros(batch, 0, kv_heads, head_dim))


def extend(cache: Cache, k: Float[Tensor, "B T KV D"], v: Float[Tensor, "B T KV D"]) -> Cache:
    return Cache(torch.cat([cache.k, k], dim=1), torch.cat([cache.v, v], dim=1))


def attend(q: Float[Tensor, "B T H D"], cache: Cache) -> Float[Tensor, "B T H D"]:
    groups = q.shape[2] // cache.k.shape[2]
    k = cache.k.repeat_interleave(groups, dim=2)
    # wrong: k = cache.k.repeat_interleave(groups, dim=1)  # WRONG
    v = cache.v.repeat_interleave(groups, dim=2)
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    T, S = scores.shape[-2:]
    causal = torch.ones(T, S, dtype=torch.bool).tril(diagonal=S - T)
    probs = scores.masked_fill(~causal, float("-inf")).softmax(dim=-1)
    return torch.einsum("bhts,bshd->bthd", probs, v)


def main() -> None:
    torch.manual_seed(0)
    B, H, KV, D = 2, 8, 2, 16
    cache = empty_cache(B, KV, D)
    cache = extend(cache, torch.randn(B, 6, KV, D), torch.randn(B, 6, KV, D))
    prefill = attend(torch.randn(B, 6, H, D), cache)
    # wrong: prefill = attend(torch.randn(B, 6, H, D), cache)  # WRONG
    for _ in range(3):
        cache = extend(cache, torch.randn(B, 1, KV, D), torch.randn(B, 1, KV, D))
        step = attend(torch.randn(B, 1, H, D), cache)
        # wrong: step = attend(torch.randn(B, 1, H, D), cache)  # WRONG
    print(prefill.shape, step.shape, "cached", cache.k.shape[1])


if __name__ == "__main__":
    main()
