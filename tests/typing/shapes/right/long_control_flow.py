"""control flow and micro idioms"""
from __future__ import annotations
import numpy as np
import torch
from typing import Optional, Iterator, Callable, TypeVar, Generic, overload, Union, Any
from contextlib import contextmanager
from functools import wraps, partial, reduce, lru_cache
from itertools import chain, product
from torch import Tensor
import torch.nn.functional as F
from jaxtyping import Float, Int, Bool, Float32, Float64, Int64, UInt8, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)
A = TypeVar("A")

@tc
def sub_cov(K: Float[np.ndarray, "N N"], idx: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M M"]:
    S = K[idx[:, None], idx]
    S2 = K[np.ix_(idx, idx)]
    S3 = K[idx][:, idx]
    assert np.allclose(S, S2) and np.allclose(S, S3)
    return S

@tc
def sub_cov_t(K: Float[Tensor, "N N"], idx: Int[Tensor, "M"]) -> Float[Tensor, "M M"]:
    S = K[idx[:, None], idx]
    S4 = K[idx.unsqueeze(1), idx.unsqueeze(0)]
    return S + 0 * S4

@tc
def pair(x: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N N"]:
    d = x[:, None] - x
    e = x[:, None] <= x
    f = x - x[:, None]
    g = np.abs(x.reshape(-1, 1) - x)
    return d + e + f + g

@tc
def rank_loss(s: Float[Tensor, "B"], y: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    diff = s.unsqueeze(1) - s
    lab = (y.unsqueeze(1) > y).float()
    return (F.softplus(-diff) * lab).sum()

@tc
def loop_prev(xs: Float[Tensor, "T D"], w: Float[Tensor, "D H"]) -> Float[Tensor, "T H"]:
    prev = None
    outs = []
    for i, x in enumerate(xs):
        h = x @ w
        if prev is not None:
            h = h + prev
        prev = h
        outs.append(h)
    return torch.stack(outs)

@tc
def loop_change(n: int) -> Float[Tensor, "a"]:
    h = torch.zeros(4)
    for i in range(n):
        if i > 0:
            h = h + torch.ones(9)
        else:
            h = torch.zeros(9)
    return h

@tc
def loop_change2(n: int) -> Float[Tensor, "a"]:
    h = torch.zeros(4)
    for i in range(n):
        if i > 0:
            z = h + torch.ones(9)
        h = torch.zeros(9)
    return h

@tc
def first_flag(n: int) -> Float[Tensor, "a"]:
    h = torch.zeros(4)
    first = True
    while n > 0:
        if not first:
            h = h + torch.ones(6)
        if first:
            h = torch.zeros(6)
            first = False
        n -= 1
    return h

@tc
def grow(x: Float[np.ndarray, "N D"], k: int) -> Float[np.ndarray, "M D"]:
    buf = x
    for _ in range(k):
        buf = np.concatenate([buf, x[:1]])
        w = np.ones(buf.shape[0])
        w = w[:, None] * buf
    m = buf.shape[0]
    assert m == x.shape[0] + k
    return buf

@tc
def halve(x: Float[np.ndarray, "N"]) -> list[np.ndarray]:
    out = []
    while x.shape[0] > 1:
        x = x[: x.shape[0] // 2 * 2].reshape(-1, 2).mean(1)
        out.append(x)
    return out

@tc
def shrink(x: Float[Tensor, "N"], k: int) -> Float[Tensor, "M"]:
    for _ in range(k):
        x = x[1:] - x[:-1]
    return x

@tc
def either(x: Float[Tensor, "N D"] | Float[Tensor, "D"], w: Float[Tensor, "D K"]) -> Float[Tensor, "*b K"]:
    squeeze = x.ndim == 1
    if squeeze:
        x = x[None]
    y = x @ w
    y = y + torch.zeros(x.shape[0], w.shape[1])
    return y.squeeze(0) if squeeze else y

def batched(x: Tensor, w: Float[Tensor, "D K"]) -> Tensor:
    if x.dim() == 1:
        x = x.unsqueeze(0)
        single = True
    else:
        single = False
    assert x.shape[-1] == w.shape[0]
    y = torch.einsum("bd,dk->bk", x, w)
    if single:
        y = y[0]
    return y

def try_chol(K: Float64[np.ndarray, "N N"]) -> Float64[np.ndarray, "N N"]:
    jitter = 1e-8
    while True:
        try:
            L = np.linalg.cholesky(K + jitter * np.eye(len(K)))
            break
        except np.linalg.LinAlgError:
            jitter *= 10
    return L

def walrus(x: Float[Tensor, "N D"]) -> Float[Tensor, "M D"]:
    if (n := x.shape[0]) % 4:
        pad = x.new_zeros(4 - n % 4, x.shape[1])
        x = torch.cat([x, pad])
    while (m := x.size(0)) < 10:
        x = torch.cat([x, x[:4]])
    return x

def match_mode(x: Float[Tensor, "N D"], mode: str) -> Tensor:
    match mode:
        case "sum":
            y = x.sum(0)
        case "none":
            y = x
        case "mean" | "avg":
            y = x.mean(0, keepdim=True)
        case _:
            raise ValueError(mode)
    return y

def match_shape(x: Tensor) -> Tensor:
    match tuple(x.shape):
        case (n,):
            return x.view(1, n)
        case (n, d):
            return x.view(1, n, d)[0]
        case (b, n, d):
            return x.reshape(b * n, d)
        case _:
            return x.flatten(0, -2)

def pad_to(x: Float[np.ndarray, "N"], n: Optional[int] = None, *, value: float = 0.0) -> Float[np.ndarray, "M"]:
    n = n or len(x)
    out = np.full(n, value)
    out[: len(x)] = x[:n]
    return out

def stack_all(*xs: Float[Tensor, "N D"], dim: int = 0, **kw: Float[Tensor, "N D"]) -> Float[Tensor, "K N D"]:
    all_ = [*xs, *kw.values()]
    return torch.stack(all_, dim)

def windows(x: Float[np.ndarray, "T D"], w: int, s: int = 1) -> Iterator[Float[np.ndarray, "w D"]]:
    for i in range(0, len(x) - w + 1, s):
        yield x[i:i + w]

@contextmanager
def scaled(x: Float[np.ndarray, "N"], k: float) -> Iterator[Float[np.ndarray, "N"]]:
    x *= k
    try:
        yield x
    finally:
        x /= k

def twice(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    @wraps(f)
    def g(x: Tensor) -> Tensor:
        return f(f(x))
    return g

@twice
def crop(x: Float[Tensor, "N"]) -> Float[Tensor, "M"]:
    return x[1:-1]

class Layer(Generic[A]):
    w: Float[np.ndarray, "I O"]
    def __init__(self, i: int, o: int) -> None:
        self.w = np.zeros((i, o))
        self.hist: list[np.ndarray] = []
        self.last = np.zeros((0, o))
    def grow(self, k: int) -> None:
        self.w = np.concatenate([self.w, np.zeros((self.w.shape[0], k))], axis=1)
        self.last = np.concatenate([self.last, np.zeros((self.last.shape[0], k))], 1)
    def __call__(self, x: Float[np.ndarray, "B I"]) -> Float[np.ndarray, "B O"]:
        y = x @ self.w
        self.last = np.concatenate([self.last, y])
        self.hist.append(y)
        return y
    @property
    def total(self) -> Float[np.ndarray, "M O"]:
        return np.concatenate(self.hist)

class Base:
    def feat(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B F"]:
        raise NotImplementedError
    def __call__(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B F"]:
        return self.feat(x)
class Sq(Base):
    def feat(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        return x ** 2
class Outer(Base):
    def feat(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B DD"]:
        return torch.einsum("bi,bj->bij", x, x).flatten(1)

def quad(f: Callable[[Float[np.ndarray, "N"]], Float[np.ndarray, "N"]], n: int) -> Float[np.ndarray, ""]:
    xs, wts = np.polynomial.legendre.leggauss(n)
    return np.sum(wts * f(xs))

def recursive_fft(x: np.ndarray) -> np.ndarray:
    n = x.shape[0]
    if n == 1:
        return x.astype(complex)
    e, o = recursive_fft(x[::2]), recursive_fft(x[1::2])
    t = np.exp(-2j * np.pi * np.arange(n // 2) / n) * o
    return np.concatenate([e + t, e - t])

def merge_sort(x: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    if len(x) <= 1:
        return x
    m = len(x) // 2
    a, b = merge_sort(x[:m]), merge_sort(x[m:])
    out = np.empty_like(x)
    i = j = 0
    for k in range(len(x)):
        if j >= len(b) or (i < len(a) and a[i] <= b[j]):
            out[k] = a[i]; i += 1
        else:
            out[k] = b[j]; j += 1
    return out

def star(x: Float[Tensor, "B T D"]) -> Tensor:
    first, *rest = x.unbind(1)
    b, *tail = x.shape
    y = x.view(b, -1)
    z = torch.zeros(b, *tail)
    *lead, d = x.shape
    q = x.reshape(-1, d)
    acc = first
    for r in rest:
        acc = acc + r
    h, *_, l = x
    return acc + y.view(b, *tail).sum(1) + z[:, 0] + q.view(*lead, d)[:, 0] + h[0] + l[0]

def zips(a: Float[Tensor, "N D"], b: Float[Tensor, "N K"], idx: Int[Tensor, "N"]) -> Float[Tensor, "N E"]:
    rows = []
    for i, (r, s, t) in enumerate(zip(a, b, idx)):
        c = torch.cat([r, s, t[None].float()])
        rows.append(c)
    d = torch.stack([torch.cat([u, v]) for u, v in zip(a, b)])
    e = {k: v for k, v in zip("ab", (a, b))}
    f = sum((p * q for p, q in zip(a, a)), torch.zeros(a.shape[1]))
    g = reduce(lambda p, q: p + q, list(a))
    return torch.stack(rows) + 0 * torch.cat([d, d[:, :1]], 1) + 0 * (f + g).sum()

def closures(x: Float[Tensor, "N D"]) -> Tensor:
    y = x.sum(0)
    def inner(k: int) -> Tensor:
        return y * k
    a = inner(2)
    y = x.sum(1)
    b = inner(2)
    fs = [lambda t, i=i: t[i:] for i in range(2)]
    c = fs[1](x)
    def mut() -> None:
        nonlocal y
        y = x.flatten()
    mut()
    d = y + torch.zeros(x.numel())
    return a.sum() + b.sum() + c.sum() + d.sum()

def cond(x: Float[Tensor, "N D"], flip: bool, keep: bool = True) -> Tensor:
    y = x.T if flip else x
    n, d = y.shape
    z = y + torch.zeros(n, d)
    w = torch.zeros(d, n) if not flip else torch.zeros(n, d)
    m = x.mean(1, keepdim=keep)
    k = m if m.ndim == 2 else m[:, None]
    out = x - k
    s = x.sum(-1 if flip else 0)
    t = s + torch.zeros(x.shape[0] if flip else x.shape[1])
    q = x[0] if flip else x
    if flip:
        r = q + torch.zeros(x.shape[1])
    else:
        r = q + torch.zeros(*x.shape)
    return out.sum() + z.sum() + t.sum() + r.sum()

def inplace(x: Float64[np.ndarray, "N D"]) -> np.ndarray:
    y = x.copy()
    y.shape = (y.shape[1], y.shape[0])
    z = y + np.zeros((x.shape[1], x.shape[0]))
    y.resize((2, 2), refcheck=False)
    w = y + np.zeros((2, 2))
    t = torch.zeros(3, 4)
    t.transpose_(0, 1)
    u = t + torch.zeros(4, 3)
    t.unsqueeze_(0)
    v = t + torch.zeros(1, 4, 3)
    t.squeeze_(0).t_()
    s = t + torch.zeros(3, 4)
    t.resize_(2, 2)
    r = t + torch.zeros(2, 2)
    t.data = torch.zeros(5, 5)
    q = t + torch.zeros(5, 5)
    return w

def int_dims(x: Float[Tensor, "B T D"], h: int, p: int = 2) -> Tensor:
    B, T, D = x.shape
    y = x.view(B, T, h, D // h).transpose(1, 2).reshape(B * h, T, D // h)
    z = y.view(B, h, T, -1).transpose(1, 2).contiguous().view(B, T, h * (D // h))
    pt = x.view(B, T // p, p, D).mean(2)
    q = pt.repeat_interleave(p, 1) + x
    w = pt.repeat(1, p, 1) + x
    pad = (-T) % 3
    v = F.pad(x, (0, 0, 0, pad))
    u = v.view(B, -1, 3, D)
    n = u.shape[1] * 3
    r = u.reshape(B, n, D)[:, :T]
    half = T // 2
    a, b = x[:, :half], x[:, half:]
    c = torch.cat([b, a], 1) + x
    e = x[:, : T - 1] - x[:, 1:]
    f = x[:, ::2] + x[:, 1::2]
    g = x[:, -2:] + x[:, :2]
    i = x[:, : 2 * half] + x
    j = torch.cat([x[:, :1], e], 1) + x
    k = torch.zeros(B, T + pad, D) + v
    l = torch.zeros(B, (T + p - 1) // p, D) + f
    m = x.new_zeros(B, max(T, p), D) + x
    o = x[:, min(1, T):] + e
    return z + q + w + r + c + j

def main() -> None:
    rng = np.random.default_rng(0)
    K = rng.random((5, 5))
    assert sub_cov(K, np.array([0, 2, 3])).shape == (3, 3)
    sub_cov_t(torch.from_numpy(K), torch.tensor([1, 2]))
    assert pair(rng.random(4)).shape == (4, 4)
    rank_loss(torch.rand(4), torch.rand(4))
    assert loop_prev(torch.rand(3, 4), torch.rand(4, 2)).shape == (3, 2)
    assert loop_change(3).shape == (9,) and loop_change2(3).shape == (9,) and first_flag(3).shape == (6,)
    assert grow(rng.random((3, 2)), 2).shape == (5, 2)
    assert [len(h) for h in halve(rng.random(9))] == [4, 2, 1]
    assert shrink(torch.rand(6), 2).shape == (4,)
    assert either(torch.rand(3), torch.rand(3, 2)).shape == (2,) and either(torch.rand(4, 3), torch.rand(3, 2)).shape == (4, 2)
    assert batched(torch.rand(3), torch.rand(3, 2)).shape == (2,)
    try_chol(np.ones((3, 3)))
    assert walrus(torch.rand(3, 2)).shape == (12, 2)
    for m, s in (("sum", (2,)), ("none", (3, 2)), ("avg", (1, 2))):
        assert match_mode(torch.rand(3, 2), m).shape == s
    assert match_shape(torch.rand(2, 3, 4)).shape == (6, 4)
    assert pad_to(rng.random(3), 5).shape == (5,)
    assert stack_all(torch.rand(2, 3), torch.rand(2, 3), z=torch.rand(2, 3)).shape == (3, 2, 3)
    assert len(list(windows(rng.random((6, 2)), 3))) == 4
    with scaled(rng.random(3), 2.0) as sx:
        assert sx.shape == (3,)
    assert crop(torch.rand(7)).shape == (3,)
    L: Layer[int] = Layer(3, 2)
    L(rng.random((4, 3)))
    L.grow(1)
    y = L(rng.random((2, 3)))
    assert y.shape == (2, 3) and L.last.shape == (6, 3)
    for b, k in ((Sq(), 3), (Outer(), 9)):
        assert b(torch.rand(2, 3)).shape == (2, k)
    quad(np.cos, 4)
    assert recursive_fft(np.arange(8.0)).shape == (8,)
    assert merge_sort(rng.random(7)).shape == (7,)
    assert star(torch.rand(2, 3, 4)).shape == (2, 4)
    assert zips(torch.rand(3, 2), torch.rand(3, 4), torch.arange(3)).shape == (3, 7)
    closures(torch.rand(3, 2))
    cond(torch.rand(3, 2), True); cond(torch.rand(3, 2), False, False)
    assert inplace(np.zeros((3, 2))).shape == (2, 2)
    assert int_dims(torch.rand(2, 4, 6), 3).shape == (2, 4, 6)

if __name__ == "__main__":
    main()
