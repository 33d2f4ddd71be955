import math
from dataclasses import dataclass, replace
from typing import Optional
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from jaxtyping import Float, Int, Bool, jaxtyped
from beartype import beartype

tc = jaxtyped(typechecker=beartype)

@dataclass
class KVCache:
    k: Float[Tensor, "B H S D"]
    v: Float[Tensor, "B H S D"]

    @property
    def length(self) -> int:
        return self.k.shape[2]

@tc
def rope_freqs(dim: int, length: int, base: float = 10000.0) -> Float[Tensor, "length half"]:
    inv = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    t = torch.arange(length, dtype=torch.float32)
    return torch.outer(t, inv)

@tc
def apply_rope(x: Float[Tensor, "B H L D"], freqs: Float[Tensor, "L half"]) -> Float[Tensor, "B H L D"]:
    x1, x2 = x.chunk(2, dim=-1)
    cos, sin = freqs.cos()[None, None], freqs.sin()[None, None]
    out = torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)
    return out

@tc
def apply_rope_interleaved(x: Float[Tensor, "B H L D"], freqs: Float[Tensor, "L half"]) -> Float[Tensor, "B H L D"]:
    xr = x.reshape(*x.shape[:-1], -1, 2)
    even, odd = xr[..., 0], xr[..., 1]
    cos = freqs.cos()
    sin = freqs.sin()
    rot = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return rot.flatten(-2)

@tc
def repeat_kv(x: Float[Tensor, "B KV S D"], n: int) -> Float[Tensor, "B H S D"]:
    b, kv, s, d = x.shape
    if n == 1:
        return x
    return x[:, :, None].expand(b, kv, n, s, d).reshape(b, kv * n, s, d)

class RMSNorm(nn.Module):
    def __init__(self, d: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        var = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(var + self.eps) * self.weight

class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.h, self.kv = heads, kv_heads
        self.hd = dim // heads
        self.wq = nn.Linear(dim, heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(heads * self.hd, dim, bias=False)

    @tc
    def forward(self, x: Float[Tensor, "B L C"], freqs: Float[Tensor, "S half"], cache: Optional[KVCache] = None):
        B, L, C = x.shape
        start = cache.length if cache is not None else 0
        q = self.wq(x).view(B, L, self.h, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, L, self.kv, -1).transpose(1, 2)
        v = self.wv(x).view(B, L, self.kv, -1).permute(0, 2, 1, 3)
        f = freqs[start:start + L]
        q, k = apply_rope(q, f), apply_rope(k, f)
        if cache is not None:
            k = torch.cat([cache.k, k], dim=2)
            v = torch.cat([cache.v, v], dim=2)
            new_cache = replace(cache, k=k, v=v)
        else:
            new_cache = KVCache(k, v)
        S = k.size(2)
        kk = repeat_kv(k, self.h // self.kv)
        vv = repeat_kv(v, self.h // self.kv)
        scores = q @ kk.transpose(-2, -1) / math.sqrt(self.hd)
        mask = torch.ones(L, S, dtype=torch.bool).tril(S - L)
        scores = scores.masked_fill(~mask, float("-inf"))
        p = F.softmax(scores, dim=-1)
        o = (p @ vv).transpose(1, 2).contiguous().view(B, L, -1)
        return self.wo(o), new_cache

class Block(nn.Module):
    def __init__(self, dim: int, heads: int, kv: int) -> None:
        super().__init__()
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.att = Attention(dim, heads, kv)
        self.w1, self.w3 = nn.Linear(dim, 4 * dim), nn.Linear(dim, 4 * dim)
        self.w2 = nn.Linear(4 * dim, dim)

    def forward(self, x: Float[Tensor, "B L C"], freqs: Float[Tensor, "S half"], cache: Optional[KVCache] = None) -> tuple[Float[Tensor, "B L C"], KVCache]:
        a, cache = self.att(self.n1(x), freqs, cache)
        x = x + a
        h = self.n2(x)
        x = x + self.w2(F.silu(self.w1(h)) * self.w3(h))
        return x, cache

class GPT(nn.Module):
    def __init__(self, vocab: int, dim: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList([Block(dim, 4, 2) for _ in range(layers)])
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("freqs", rope_freqs(dim // 4, 64))

    def forward(self, ids: Int[Tensor, "B L"], caches: Optional[list[KVCache]] = None) -> tuple[Float[Tensor, "B L V"], list[KVCache]]:
        x = self.emb(ids)
        new: list[KVCache] = []
        for i, blk in enumerate(self.blocks):
            x, c = blk(x, self.freqs, caches[i] if caches else None)
            new.append(c)
        return self.head(self.norm(x)), new

    @torch.no_grad()
    def generate(self, ids: Int[Tensor, "B L"], n: int, temperature: float = 1.0, top_k: Optional[int] = None) -> Int[Tensor, "B total"]:
        caches = None
        cur = ids
        for _ in range(n):
            logits, caches = self(cur, caches)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ix = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("inf")
            probs = F.softmax(logits, dim=-1)
            nxt = torch.multinomial(probs, num_samples=1)
            ids = torch.cat((ids, nxt), dim=1)
            cur = nxt
        return ids

def main() -> None:
    torch.manual_seed(0)
    m = GPT(50)
    ids = torch.randint(0, 50, (3, 7))
    logits, caches = m(ids)
    assert logits.shape == (3, 7, 50)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 50), ids[:, 1:].reshape(-1))
    loss.backward()
    out = m.generate(ids, 5, top_k=3)
    assert out.shape == (3, 12)
    x = torch.randn(2, 4, 5, 8)
    assert apply_rope_interleaved(x, rope_freqs(8, 5)).shape == x.shape
    step, c2 = m(ids[:, :1], caches)
    assert c2[0].k.shape == (3, 2, 8, 8), c2[0].k.shape

if __name__ == "__main__":
    main()
