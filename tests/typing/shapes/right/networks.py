"""Right programs about networks, each below its name."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor

# ---- alibi_bias
@jaxtyped(typechecker=beartype)
def alibi(scores: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H T T"]:
    _, h, t, _ = scores.shape
    slopes = 2.0 ** (-8.0 * torch.arange(1, h + 1) / h)
    pos = torch.arange(t)
    distance = pos[None, :] - pos[:, None]
    return scores + slopes[:, None, None] * distance

def main() -> None:
    assert alibi(torch.zeros(2, 4, 5, 5)).shape == (2, 4, 5, 5)

# ---- einsum_attention
@jaxtyped(typechecker=beartype)
def attend(
    q: Float[Tensor, "b h t d"], k: Float[Tensor, "b h s d"], v: Float[Tensor, "b h s e"]
) -> Float[Tensor, "b t h*e"]:
    w = torch.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
    y = torch.einsum("bhts,bhse->bthe", w.softmax(-1), v)
    return y.flatten(2)

def main() -> None:
    assert attend(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5), torch.randn(2, 3, 6, 7)).shape == (2, 4, 21)

# ---- ellipsis_rms_norm
class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x.float() * scale).type_as(x) * self.weight

def main() -> None:
    norm = RMSNorm(4)
    assert norm(torch.randn(4)).shape == (4,)
    assert norm(torch.randn(2, 3, 4)).shape == (2, 3, 4)

# ---- group_norm_by_hand
@jaxtyped(typechecker=beartype)
def group_norm(x: Float[Tensor, "N C H W"], gain: Float[Tensor, "C"], groups: int) -> Float[Tensor, "N C H W"]:
    n, c, h, w = x.shape
    g = x.view(n, groups, c // groups, h, w)
    mean = g.mean(dim=(2, 3, 4), keepdim=True)
    var = g.var(dim=(2, 3, 4), keepdim=True, unbiased=False)
    y = ((g - mean) * torch.rsqrt(var + 1e-5)).view(n, c, h, w)
    return y * gain.view(1, -1, 1, 1)

def main() -> None:
    assert group_norm(torch.randn(2, 6, 3, 4), torch.ones(6), 3).shape == (2, 6, 3, 4)

# ---- grouped_query_attention
@jaxtyped(typechecker=beartype)
def gqa(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B G T D"], v: Float[Tensor, "B G T D"]) -> Float[Tensor, "B H T D"]:
    b, h, t, d = q.shape
    g = k.shape[1]
    grouped = q.view(b, g, h // g, t, d)
    w = (grouped @ k.unsqueeze(2).mT / d**0.5).softmax(-1)
    out = (w @ v[:, :, None]).reshape(b, h, t, d)
    rep = k[:, :, None].expand(b, g, h // g, t, d).reshape(b, h, t, d)
    same = (q @ rep.transpose(2, 3) / d**0.5).softmax(-1)
    assert torch.allclose(same, w.flatten(1, 2), atol=1e-5)
    return out

def main() -> None:
    assert gqa(torch.randn(2, 6, 3, 4), torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4)).shape == (2, 6, 3, 4)

# ---- gumbel_straight_through
@jaxtyped(typechecker=beartype)
def sample(logits: Float[Tensor, "*lead A"], table: Float[Tensor, "A D"]) -> Float[Tensor, "*lead D"]:
    gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
    soft = ((logits + gumbel) / 0.7).softmax(-1)
    hard = F.one_hot(soft.argmax(-1), logits.shape[-1]).to(soft)
    return (hard - soft.detach() + soft) @ table

def main() -> None:
    t = torch.randn(5, 3)
    assert sample(torch.randn(5), t).shape == (3,) and sample(torch.randn(2, 4, 5), t).shape == (2, 4, 3)

# ---- image_normalisation_axes
import numpy as np
from jaxtyping import Float32, UInt8
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)

@jaxtyped(typechecker=beartype)
def hwc(img: UInt8[np.ndarray, "N H W 3"]) -> Float32[np.ndarray, "N 3 H W"]:
    x = img.astype(np.float32) / 255 - MEAN
    return x.transpose(0, 3, 1, 2)

@jaxtyped(typechecker=beartype)
def chw(img: UInt8[Tensor, "N 3 H W"]) -> Float32[Tensor, "N 3 H W"]:
    mean = torch.from_numpy(MEAN)
    return img.float().div(255) - mean[None, :, None, None]

def main() -> None:
    img = np.zeros((2, 4, 5, 3), np.uint8)
    a, b = hwc(img), chw(torch.from_numpy(img).permute(0, 3, 1, 2))
    assert a.shape == b.shape == (2, 3, 4, 5)

# ---- kv_cache
from dataclasses import dataclass
@dataclass
class Cache:
    k: Float[Tensor, "B H S D"] | None = None
    v: Float[Tensor, "B H S D"] | None = None

    def extend(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T D"]) -> tuple[Tensor, Tensor]:
        if self.k is None or self.v is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat([self.k, k], dim=2)
            self.v = torch.cat([self.v, v], dim=2)
        return self.k, self.v

def main() -> None:
    cache = Cache()
    for t, total in [(4, 4), (1, 5), (1, 6)]:
        k, v = cache.extend(torch.zeros(2, 3, t, 8), torch.zeros(2, 3, t, 8))
        assert k.shape == v.shape == (2, 3, total, 8)

# ---- modules_that_grow
# Containers of layers to which others are added after they are made.
class Net(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 64)])
        self.body = nn.Sequential(nn.Linear(4, 64))
        self.body.append(nn.Linear(64, 1))
        for _ in range(depth):
            self.blocks.append(nn.Linear(64, 64))
        self.head = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(5, 4)
        for block in self.blocks:
            h = block(h)
        return self.head(self.body(torch.zeros(5, 4))) + nn.Linear(1, 1)(self.body(x)) + h.mean()


def main() -> None:
    print(Net(2)(torch.rand(5, 4)).shape)

# ---- moe_router
@jaxtyped(typechecker=beartype)
def route(x: Float[Tensor, "N D"], gate: Float[Tensor, "D E"], experts: Float[Tensor, "E D D"], k: int) -> tuple[Float[Tensor, "N D"], Float[Tensor, ""]]:
    probs = (x @ gate).softmax(-1)
    weight, idx = probs.topk(k, dim=-1)
    weight = weight / weight.sum(-1, keepdim=True)
    every = torch.einsum("nd,edf->nef", x, experts)
    picked = every.gather(1, idx.unsqueeze(-1).expand(-1, -1, x.size(1)))
    load = F.one_hot(idx, gate.size(1)).sum(1).float().mean(0)
    return (weight.unsqueeze(-1) * picked).sum(1), (load * probs.mean(0)).sum() * gate.shape[1]

def main() -> None:
    y, aux = route(torch.randn(6, 3), torch.randn(3, 4), torch.randn(4, 3, 3), 2)
    assert y.shape == (6, 3) and aux.shape == ()

# ---- multi_head_attention
from jaxtyping import Bool
class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Float[Tensor, "B T D"], pad: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T D"]:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        att = att.masked_fill(~causal, float("-inf"))
        if pad is not None:
            att = att.masked_fill(pad[:, None, None, :], -1e9)
        y = att.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))

def main() -> None:
    m = Attention(16, 4)
    assert m(torch.randn(2, 5, 16)).shape == (2, 5, 16)
    assert m(torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool)).shape == (2, 5, 16)

# ---- rotary_embedding
@jaxtyped(typechecker=beartype)
def rotate(x: Float[Tensor, "B T H D"]) -> Float[Tensor, "B T H D"]:
    t, d = x.shape[1], x.shape[-1]
    inv = 1.0 / 10000 ** (torch.arange(0, d, 2).float() / d)
    angle = torch.outer(torch.arange(t).float(), inv)
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

def rotate_half(x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)

def main() -> None:
    x = torch.randn(2, 5, 3, 8)
    assert rotate(x).shape == x.shape == rotate_half(x).shape

# ---- variadic_linear
@jaxtyped(typechecker=beartype)
def linear(x: Float[Tensor, "*batch d"], w: Float[Tensor, "out d"], b: Float[Tensor, "out"]) -> Float[Tensor, "*batch out"]:
    *lead, d = x.shape
    y = x.reshape(-1, d) @ w.T + b
    return y.reshape(*lead, len(b))

def main() -> None:
    w, b = torch.randn(4, 3), torch.randn(4)
    for shape in [(3,), (2, 3), (5, 2, 3)]:
        assert linear(torch.randn(shape), w, b).shape == (*shape[:-1], 4)

# ---- vit_patches
@jaxtyped(typechecker=beartype)
def patchify(x: Float[Tensor, "B C H W"], p: int) -> Float[Tensor, "B N D"]:
    b, c, h, w = x.shape
    x = x.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, (h // p) * (w // p), c * p * p)

@jaxtyped(typechecker=beartype)
def unpatchify(x: Float[Tensor, "B N D"], p: int, c: int) -> Float[Tensor, "B {c} H W"]:
    s = math.isqrt(x.size(1))
    x = x.view(-1, s, s, c, p, p)
    return torch.einsum("bijcpq->bcipjq", x).reshape(len(x), c, s * p, s * p)

def main() -> None:
    x = torch.randn(2, 3, 8, 8)
    y = patchify(x, 4)
    assert y.shape == (2, 4, 48) and torch.equal(unpatchify(y, 4, 3), x)
