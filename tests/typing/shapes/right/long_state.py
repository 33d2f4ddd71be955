from __future__ import annotations
import numpy as np
import torch
import torch.nn as nn
from torch import Tensor
from dataclasses import dataclass, field
from typing import Optional, Callable, Iterator, Any
from jaxtyping import Float, Int, Bool, Float32, Float64, Int64, UInt8, jaxtyped
def rbf(a: Float[np.ndarray, "N D"], b: Float[np.ndarray, "M D"]) -> Float[np.ndarray, "N M"]:
    return a @ b.T
def f1(Xs: Float[np.ndarray, "M D"], Y: np.ndarray) -> Float[np.ndarray, "M K"]:
    Ks = rbf(Xs, Y)
    v = Ks + np.zeros((Xs.shape[0], Y.shape[0]))
    w = Ks @ np.zeros((Y.shape[0], 2))
    z = Ks.T @ np.zeros(Xs.shape[0])
    q = np.eye(len(Xs)) @ Ks
    r = Ks + rbf(Xs, Y)
    return Ks
def rep(x: Float[Tensor, "B KV"], n: int) -> Float[Tensor, "B H"]:
    return x.repeat(1, n)
def f2(x: Float[Tensor, "B KV"]) -> Float[Tensor, "B H"]:
    a = rep(x, 2)
    b = rep(x, 4)
    c = a + b[:, : a.shape[1]]
    H = a.shape[1]
    d = a + torch.zeros(x.shape[0], H)
    return b
def f3(x: Float[np.ndarray, "N D"]) -> None:
    n = x.shape[0]
    for i in range(2):
        x = x[1:]
        n -= 1
        y = x + np.zeros((n, 1))
        z = x * np.arange(n)[:, None]
    n, d = x.shape
    w = x + np.zeros((n, d))
    n = 2 * n
    u = np.concatenate([x, x]) + np.zeros((n, d))
def f4(x: Float[np.ndarray, "N"]) -> None:
    N = 3
    y = np.zeros(N)
    z = y + np.ones(3)
    D = len(x)
    w = np.zeros(D) + x
    i = 1
    a = np.zeros(i)
    i = 2
    b = np.zeros(i)
    c = np.concatenate([a, a]) + b
    k = len(x)
    q = np.zeros(k)
    k += 1
    q2 = np.zeros(k)
    r = q2[1:] + q
def f5(n: int) -> None:
    seen: list[np.ndarray] = []
    cur = np.zeros(0)
    for i in range(n):
        new = np.ones(3)
        if seen:
            d = cur - new
        seen.append(new)
        cur = new
def f6(n: int) -> None:
    """running buffer, lazily allocated"""
    buf = np.empty((0, 4))
    count = 0
    for i in range(n):
        row = np.ones((6, 4))
        if count == 0:
            buf = row.copy()
        else:
            buf += row
        count += 1
class RunningStat:
    def __init__(self) -> None:
        self.mean = np.zeros(())
        self.n = 0
    def push(self, x: Float64[np.ndarray, "D"]) -> None:
        self.n += 1
        if self.n == 1:
            self.mean = x.copy()
        else:
            self.mean += (x - self.mean) / self.n
class Lazy:
    def __init__(self) -> None:
        self.w = np.zeros((0, 0))
        self.buf = torch.zeros(1)
        self.h = np.zeros(2)
    def build(self, d: int) -> None:
        self.w = np.zeros((d, d))
    def __call__(self, x: Float64[np.ndarray, "B 3"]) -> Float64[np.ndarray, "B 3"]:
        if self.w.shape[0] == 0:
            self.build(x.shape[1])
        y = x @ self.w
        return y
    def run(self) -> np.ndarray:
        self.h = np.zeros(2)
        self.resize()
        return self.h + np.ones(5)
    def resize(self) -> None:
        self.h = np.zeros(5)
def f7() -> None:
    l = Lazy()
    l.h = np.zeros(3)
    l.resize()
    z = l.h + np.zeros(5)
    g = l
    l.h = np.zeros(4)
    g.h = np.zeros(7)
    y = l.h + np.zeros(7)
    def cb() -> None:
        l.h = np.zeros(9)
    cb()
    w = l.h + np.zeros(9)
STATE = np.zeros(3)
def setg(n: int) -> None:
    global STATE
    STATE = np.zeros(n)
def f8() -> None:
    global STATE
    STATE = np.zeros(4)
    setg(6)
    z = STATE + np.zeros(6)
def f9() -> None:
    h = torch.zeros(4)
    def step() -> None:
        nonlocal h
        h = torch.zeros(6)
    h = torch.zeros(4)
    step()
    z = h + torch.zeros(6)
    fs = [step]
    h = torch.zeros(4)
    for f in fs:
        f()
    z = h + torch.zeros(6)
    h = torch.zeros(4)
    list(map(lambda g: g(), fs))
    z = h + torch.zeros(6)
def g1() -> None:
    x = np.zeros(4)
    try:
        x = np.zeros(6)
        y = np.zeros(3) + np.zeros(int(x.size) // 2)
        raise ValueError
    except ValueError:
        z = x + np.zeros(6)
    finally:
        w = x + np.zeros(6)
def g2(n: int) -> None:
    x = np.zeros(4)
    for i in range(n):
        x = np.zeros(6)
        if i == 1:
            break
    else:
        x = np.zeros(5)
    i = 0
    while True:
        if i > 2:
            z = x2 + np.zeros(8)
            break
        x2 = np.zeros(7 + (i == 2))
        i += 1
def g3(xs: list[np.ndarray]) -> None:
    x = np.zeros(4)
    ys = [x.sum() for x in xs]
    z = x + np.zeros(4)
    zs = [w := x2 * 2 for x2 in xs]
    d = {k: v for k, v in zip("ab", [np.zeros(3), np.zeros(4)])}
    q = d["b"] + np.zeros(4)
    e: dict[str, np.ndarray] = {}
    e["a"] = np.zeros(3)
    e.update(a=np.zeros(5))
    r = e["a"] + np.zeros(5)
    e["a"] = np.zeros(3)
    for k in e:
        e[k] = np.zeros(7)
    s = e["a"] + np.zeros(7)
    t = [np.zeros(3)]
    t[0] = np.zeros(3)
    t.insert(0, np.zeros(8))
    u = t[0] + np.zeros(8)
    t = [np.zeros(3), np.zeros(4)]
    t.reverse()
    v = t[0] + np.zeros(4)
    a, b = np.zeros(3), np.zeros(4)
    a, b = b, a
    c = a + np.zeros(4)
    t.sort(key=len)
    h = t[0] + np.zeros(3)
    t[:] = [np.zeros(9)]
    hh = t[0] + np.zeros(9)
    t *= 2
    t.append(np.zeros(2))
    hhh = t[-1] + np.zeros(2)
    t.pop()
    m = t[-1] + np.zeros(9)
def g4(k: int) -> None:
    x = np.zeros((2, 3, 4))
    a = x.reshape(x.shape[0], -1)
    a.shape = (6, 4)
    b = a + np.zeros((6, 4))
    s = list(x.shape)
    s[-1] = 1
    c = np.zeros(s) + np.zeros((2, 3, 1))
    s.append(5)
    d = np.zeros(s) + np.zeros((2, 3, 1, 5))
    s.insert(0, 7); s.pop(); s.pop()
    e = np.zeros(s) + np.zeros((7, 2, 3))
    sh = (1,) * 2 + (3,)
    f = np.zeros(sh) + np.zeros((1, 1, 3))
    g = np.zeros([2] * 3 + [4]) + np.zeros((2, 2, 2, 4))
    h = np.zeros(tuple(reversed(x.shape))) + np.zeros((4, 3, 2))
    i = np.zeros(x.shape[::-1]) + np.zeros((4, 3, 2))
    j = np.zeros((*x.shape[:-1], 9)) + np.zeros((2, 3, 9))
    l = np.zeros(x.shape[:1] + (5,)) + np.zeros((2, 5))
    m = np.zeros(sorted(x.shape, reverse=True)) + np.zeros((4, 3, 2))
    o = np.zeros(tuple(q + 1 for q in x.shape)) + np.zeros((3, 4, 5))
    p = np.zeros(x.size) + np.zeros(24)
    r = np.zeros(x.ndim) + np.zeros(3)
    t = x[(slice(None), 0)] + np.zeros((2, 4))
    idx: list[Any] = [slice(None)] * 3
    idx[1] = 0
    u = x[tuple(idx)] + np.zeros((2, 4))
    idx[1] = slice(0, 2)
    v = x[tuple(idx)] + np.zeros((2, 2, 4))
    w = x[slice(0, 1)] + np.zeros((1, 3, 4))
    ax = 0
    for ax in range(3):
        y = x.sum(axis=ax)
        z = y + np.zeros([n for q, n in enumerate(x.shape) if q != ax])
    w2 = np.zeros(len("abc")) + np.zeros(3)
    w3 = np.zeros(7 // 2) + np.zeros(3)
    w4 = np.zeros(-7 // 2 + 7) + np.zeros(3)
    w5 = np.zeros(round(2.6)) + np.zeros(3)
    w6 = np.zeros(int(3.9)) + np.zeros(3)
    w7 = np.zeros(7 % -4 + 4) + np.zeros(3)
    w8 = np.zeros(1 << 2) + np.zeros(4)
    w9 = np.zeros(int(True) + True + 1) + np.zeros(3)
    v1 = np.arange(7, 0, -2) + np.zeros(4)
    v2 = np.arange(1, 8, 3) + np.zeros(3)
    v3 = np.arange(5, 2) + np.zeros(0)
    v4 = np.arange(-3, 3) + np.zeros(6)
    v5 = np.arange(0, 1, 0.1) + np.zeros(10)
    v6 = np.arange(0.5, 3) + np.zeros(3)
    v7 = x[:, 1:-1, ::-1][..., ::3] + np.zeros((2, 1, 2))
    v8 = x[:, -1:1:-1] + np.zeros((2, 1, 4))
    v9 = x[..., 5:] + np.zeros((2, 3, 0))
    u1 = x[-5:] + np.zeros((2, 3, 4))
    u2 = x[:, ::-2] + np.zeros((2, 2, 4))
    u3 = x[:-5] + np.zeros((0, 3, 4))
    u4 = torch.zeros(7).chunk(3)[2] + torch.zeros(1)
    u5 = torch.zeros(5).chunk(4)
    assert len(u5) == 3
    u6 = u5[2] + torch.zeros(1)
    u7 = torch.zeros(7).split(3)[-1] + torch.zeros(1)
    u8 = torch.zeros(7).tensor_split(3)[0] + torch.zeros(3)
    u9 = np.array_split(np.zeros(7), 3)[0] + np.zeros(3)
    t1 = np.split(np.zeros(6), [2, 3])[2] + np.zeros(3)
    t2 = np.split(np.zeros((4, 6)), 3, axis=1)[0] + np.zeros((4, 2))
    t3 = torch.zeros(2, 3).unfold(1, 2, 1) + torch.zeros(2, 2, 2)
    t4 = np.repeat(np.zeros(3), [1, 2, 3]) + np.zeros(6)
    t5 = torch.zeros(3).repeat_interleave(torch.tensor([1, 2, 3])) + torch.zeros(6)
    t6 = np.outer(np.zeros((2, 2)), np.zeros(3)) + np.zeros((4, 3))
    t7 = np.dot(np.zeros((2, 3, 4)), np.zeros((5, 4, 6))) + np.zeros((2, 3, 5, 6))
    t8 = np.kron(np.zeros((2, 3)), np.zeros((4, 5))) + np.zeros((8, 15))
    t9 = np.pad(np.zeros((2, 3)), ((1, 0), (0, 2))) + np.zeros((3, 5))
def g5(x: Float[Tensor, "B T D"]) -> None:
    a = x[:, -1:] + torch.zeros(x.shape[0], 1, x.shape[2])
    b = x[:, -0:] + x
    n = 0
    c = x[:, n:] + x
    d = x[:, :-1] if x.shape[1] > 1 else x
    e = d + torch.zeros(*d.shape)
    B, T, D = x.shape
    for t in range(T):
        p = x[:, : t + 1]
        q = p.mean(1) + torch.zeros(B, D)
        r = p + torch.zeros(B, t + 1, D)
        s = x[:, t:] + torch.zeros(B, T - t, D)
        u = torch.cat([p, x[:, t + 1:]], 1) + x
        v = x[:, t - 1] + x[:, t]
        w = x[:, max(0, t - 2): t + 1]
        y = w + torch.zeros(B, min(3, t + 1), D)
        z = x.roll(t, 1)[:, : T - t] + s
    for i in range(0, T, 2):
        ch = x[:, i: i + 2]
        k = ch + torch.zeros(B, ch.size(1), D)
        k2 = ch + torch.zeros(B, min(2, T - i), D)
    for lo, hi in zip(range(0, T, 2), range(2, T + 2, 2)):
        l = x[:, lo:hi] + torch.zeros(B, min(hi, T) - lo, D)
def main() -> None:
    f1(np.ones((2, 3)), np.ones((4, 3))); f2(torch.ones(2, 3)); f3(np.ones((5, 2))); f4(np.ones(6)); f5(3); f6(3)
    r = RunningStat(); r.push(np.ones(3)); r.push(np.ones(3))
    Lazy()(np.ones((2, 3))); Lazy().run(); f7(); f8(); f9(); g1(); g2(3); g3([np.zeros(2)]); g4(3); g5(torch.ones(2, 5, 3))
if __name__ == "__main__":
    main()
