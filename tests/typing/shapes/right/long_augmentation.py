"""augmentation, contrastive, tabular, hashing, bitmasks"""
from __future__ import annotations
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from typing import Optional, Union, Any, Sequence
from jaxtyping import Float, Int, Bool, Float32, Float64, Int32, Int64, UInt8, UInt32, UInt64, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
GRAY = torch.tensor([0.299, 0.587, 0.114])

@tc
def normalize(img: UInt8[np.ndarray, "*b H W 3"]) -> Float32[np.ndarray, "*b 3 H W"]:
    x = img.astype(np.float32) / 255
    x = (x - MEAN) / STD
    return np.moveaxis(x, -1, -3)

def to_tensor(img: UInt8[np.ndarray, "H W C"]) -> Float32[Tensor, "C H W"]:
    t = torch.from_numpy(img).permute(2, 0, 1).contiguous()
    return t.float().div_(255)

@tc
def random_crop(x: Float[Tensor, "B C H W"], pad: int = 4) -> Float[Tensor, "B C H W"]:
    B, C, H, W = x.shape
    p = F.pad(x, (pad,) * 4, mode="reflect")
    i = torch.randint(0, 2 * pad + 1, (B,))
    j = torch.randint(0, 2 * pad + 1, (B,))
    rows = i[:, None] + torch.arange(H)
    cols = j[:, None] + torch.arange(W)
    out = p[torch.arange(B)[:, None, None], :, rows[:, :, None], cols[:, None, :]]
    return out.permute(0, 3, 1, 2)

@tc
def flip_some(x: Float[Tensor, "B C H W"], p: float = 0.5) -> Float[Tensor, "B C H W"]:
    m = torch.rand(len(x)) < p
    out = x.clone()
    out[m] = x[m].flip(-1)
    return torch.where(m[:, None, None, None], x.flip(3), x) * 0 + out

@tc
def cutout(x: Float[Tensor, "B C H W"], s: int) -> Float[Tensor, "B C H W"]:
    B, _, H, W = x.shape
    cy, cx = torch.randint(H, (B, 1, 1)), torch.randint(W, (B, 1, 1))
    yy, xx = torch.arange(H).view(1, -1, 1), torch.arange(W).view(1, 1, -1)
    m = ((yy - cy).abs() < s) & ((xx - cx).abs() < s)
    return x.masked_fill(m.unsqueeze(1), 0)

@tc
def mixup(x: Float[Tensor, "B *s"], y: Int[Tensor, "B"], k: int, a: float = 0.2) -> tuple[Float[Tensor, "B *s"], Float[Tensor, "B k"]]:
    lam = torch.distributions.Beta(a, a).sample((len(x),))
    perm = torch.randperm(x.size(0))
    lx = lam.view(-1, *[1] * (x.ndim - 1))
    oh = F.one_hot(y, k).float()
    return lx * x + (1 - lx) * x[perm], lam[:, None] * oh + (1 - lam[:, None]) * oh[perm]

def grayscale(x: Float[Tensor, "... 3 H W"]) -> Float[Tensor, "... 1 H W"]:
    return (x * GRAY[:, None, None]).sum(-3, keepdim=True)

@tc
def patches(x: Float[Tensor, "B C H W"], p: int) -> Float[Tensor, "B L D"]:
    B, C, H, W = x.shape
    h, w = H // p, W // p
    a = x.reshape(B, C, h, p, w, p).permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, C * p * p)
    b = F.unfold(x, p, stride=p).transpose(1, 2)
    c = x.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    assert torch.equal(a, b) and torch.equal(a, c)
    return a

@tc
def mae_mask(x: Float[Tensor, "B L D"], ratio: float = 0.75) -> tuple[Float[Tensor, "B K D"], Bool[Tensor, "B L"], Int[Tensor, "B L"]]:
    B, L, D = x.shape
    keep = int(L * (1 - ratio))
    noise = torch.rand(B, L)
    sh = noise.argsort(1)
    rest = sh.argsort(1)
    xk = x.gather(1, sh[:, :keep, None].expand(-1, -1, D))
    m = torch.ones(B, L)
    m[:, :keep] = 0
    m = m.gather(1, rest).bool()
    tok = torch.zeros(1, 1, D).expand(B, L - keep, -1)
    full = torch.cat([xk, tok], 1).gather(1, rest[..., None].expand(-1, -1, D))
    assert full.shape == x.shape
    return xk, m, rest

@tc
def nt_xent(a: Float[Tensor, "B D"], b: Float[Tensor, "B D"], t: float = 0.5) -> Float[Tensor, ""]:
    z = F.normalize(torch.cat([a, b]), dim=1)
    n = z.shape[0]
    sim = z @ z.T / t
    sim = sim.masked_fill(torch.eye(n, dtype=torch.bool), -1e9)
    lab = torch.cat([torch.arange(n // 2) + n // 2, torch.arange(n // 2)])
    l = F.cross_entropy(sim, lab)
    pos = torch.cat([sim.diag(n // 2), sim.diag(-(n // 2))])
    l2 = (sim.logsumexp(1) - pos).mean()
    assert torch.allclose(l, l2, atol=1e-5)
    return l

@tc
def clip_loss(i: Float[Tensor, "B D"], t: Float[Tensor, "B D"], s: Float[Tensor, ""]) -> Float[Tensor, ""]:
    lg = s.exp() * i @ t.mT
    y = torch.arange(len(i))
    return (F.cross_entropy(lg, y) + F.cross_entropy(lg.T, y)) / 2

def supcon(z: Float[Tensor, "B V D"], y: Int[Tensor, "B"]) -> Float[Tensor, ""]:
    B, V, D = z.shape
    f = torch.cat(torch.unbind(z, 1), 0)
    m = (y[:, None] == y).float().repeat(V, V)
    nots = 1 - torch.eye(B * V)
    m = m * nots
    lg = f @ f.t()
    lg = lg - lg.max(1, keepdim=True).values.detach()
    lp = lg - (lg.exp() * nots).sum(1, keepdim=True).log()
    return -((m * lp).sum(1) / m.sum(1)).view(V, B).mean()

def barlow(a: Float[Tensor, "B D"], b: Float[Tensor, "B D"]) -> Float[Tensor, ""]:
    n, d = a.shape
    c = ((a - a.mean(0)) / a.std(0)).T @ ((b - b.mean(0)) / b.std(0)) / n
    on = (c.diagonal() - 1).pow(2).sum()
    off = c.flatten()[:-1].view(d - 1, d + 1)[:, 1:].flatten().pow(2).sum()
    return on + off

@tc
def encode(cat: Int[np.ndarray, "N"], num: Float[np.ndarray, "N K"], n: int) -> Float32[np.ndarray, "N F"]:
    oh = np.eye(n, dtype=np.float32)[cat]
    miss = np.isnan(num)
    med = np.nanmedian(num, axis=0)
    filled = np.where(miss, med, num)
    z = (filled - filled.mean(0)) / (filled.std(0) + 1e-9)
    q = np.quantile(filled, [0.25, 0.5, 0.75], axis=0)
    bins = (filled[..., None] > q.T).sum(-1)
    return np.concatenate([oh, z, miss, bins], axis=1).astype(np.float32)

@tc
def target_encode(cat: Int[np.ndarray, "N"], y: Float[np.ndarray, "N"], n: int) -> Float[np.ndarray, "N"]:
    s = np.bincount(cat, weights=y, minlength=n)
    c = np.bincount(cat, minlength=n)
    m = (s + 10 * y.mean()) / (c + 10)
    loo = (s[cat] - y) / np.maximum(c[cat] - 1, 1)
    u, inv, cnt = np.unique(cat, return_inverse=True, return_counts=True)
    t = np.zeros(len(u))
    np.add.at(t, inv, y)
    assert np.allclose((t / cnt)[inv], s[cat] / c[cat])
    return m[cat] + 0 * loo

@tc
def minhash(x: UInt64[np.ndarray, "N"], k: int) -> UInt64[np.ndarray, "k"]:
    a = np.arange(1, k + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    h = x[:, None] * a
    h ^= h >> np.uint64(33)
    return h.min(axis=0)

@tc
def fnv(b: UInt8[np.ndarray, "N L"]) -> UInt32[np.ndarray, "N"]:
    h = np.full(len(b), 2166136261, dtype=np.uint32)
    for c in b.T:
        h = (h ^ c) * np.uint32(16777619)
    return h

@tc
def bits(x: UInt8[np.ndarray, "N"]) -> tuple[Bool[np.ndarray, "N 8"], Int[np.ndarray, "N"]]:
    b = (x[:, None] >> np.arange(8, dtype=np.uint8)) & 1
    un = np.unpackbits(x[:, None], axis=1)
    back = (b << np.arange(8)).sum(1)
    assert (back == x).all() and (un[:, ::-1] == b).all()
    pk = np.packbits(un, axis=-1)
    assert (pk[:, 0] == x).all()
    return b.astype(bool), b.sum(-1).astype(np.int64)

def simhash(x: Float[np.ndarray, "N D"], nb: int, rng: np.random.Generator) -> Int64[np.ndarray, "N"]:
    pl = rng.normal(size=(x.shape[1], nb))
    return ((x @ pl) > 0) @ (1 << np.arange(nb))

def hamming(a: Int64[np.ndarray, "N"], b: Int64[np.ndarray, "M"]) -> np.ndarray:
    x = a[:, None] ^ b
    return np.bitwise_count(x)

def rle(x: Int[np.ndarray, "N"]) -> tuple[np.ndarray, np.ndarray]:
    ch = np.flatnonzero(np.diff(x)) + 1
    st = np.r_[0, ch]
    ln = np.diff(np.append(st, len(x)))
    return x[st], ln

def rolling(x: Float[np.ndarray, "T"], w: int) -> tuple[np.ndarray, np.ndarray]:
    c = np.cumsum(np.insert(x, 0, 0.0))
    m = (c[w:] - c[:-w]) / w
    v = np.lib.stride_tricks.as_strided(x, (len(x) - w + 1, w), (x.strides[0], x.strides[0]))
    assert np.allclose(v.mean(1), m)
    ema = np.empty_like(x)
    ema[0] = x[0]
    for i in range(1, len(x)):
        ema[i] = 0.9 * ema[i - 1] + 0.1 * x[i]
    return m, ema

def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    img = rng.integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    assert normalize(img).shape == (2, 3, 16, 16) and normalize(img[0]).shape == (3, 16, 16)
    x = torch.stack([to_tensor(i) for i in img])
    for y in (random_crop(x), flip_some(x), cutout(x, 3)):
        assert y.shape == x.shape
    mixup(x, torch.tensor([0, 1]), 3)
    assert grayscale(x).shape == (2, 1, 16, 16)
    p = patches(x, 4)
    assert p.shape == (2, 16, 48)
    mae_mask(p)
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    nt_xent(a, b); clip_loss(a, b, torch.tensor(1.0)); supcon(F.normalize(torch.stack([a, b], 1), dim=-1), torch.tensor([0, 1, 0, 1])); barlow(a, b)
    c = rng.integers(0, 4, 20)
    num = rng.random((20, 3)); num[3, 1] = np.nan
    assert encode(c, num, 4).shape == (20, 13)
    target_encode(c, rng.random(20), 4)
    assert minhash(np.arange(5, dtype=np.uint64), 4).shape == (4,)
    assert fnv(img[0, 0]).shape == (16,)
    bits(img.ravel()[:10]); h = simhash(rng.random((5, 3)), 6, rng)
    assert hamming(h, h[:2]).shape == (5, 2)
    assert rle(np.array([1, 1, 2, 3, 3]))[1].tolist() == [2, 1, 2]
    assert rolling(rng.random(9), 3)[0].shape == (7,)

if __name__ == "__main__":
    main()
