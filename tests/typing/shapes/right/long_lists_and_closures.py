from __future__ import annotations
import numpy as np
import torch
import torch.nn as nn
from torch import Tensor
from dataclasses import dataclass, field
from typing import Optional, Callable, Iterator, Any
from jaxtyping import Float, Int, Bool, Float32, Float64, Int64, UInt8, jaxtyped
def a1(x: Float[Tensor, "B T D"]) -> None:
    sh = [1] * x.ndim
    sh[1] = x.shape[1]
    w = torch.ones(x.shape[1]).view(sh)
    y = x * w
def a2(x: Float[Tensor, "B T D"]) -> None:
    sh = [1, 1, 1]
    sh[-1] = -1
    w = torch.ones(x.shape[2]).reshape(sh)
    y = x * w
def a3(x: Float[Tensor, "B T D"]) -> None:
    sh = list(x.shape)
    sh[1] = 7
    z = x.new_zeros(sh)
    y = torch.cat([x, z], 1) + torch.zeros(x.shape[0], x.shape[1] + 7, x.shape[2])
    q = z + torch.zeros(7, 1)
def a4(x: Float[Tensor, "B 4 3"]) -> None:
    sh = list(x.shape)
    del sh[0]
    z = torch.zeros(sh) + torch.zeros(4, 3)
def a5(x: Float[Tensor, "B 4 3"]) -> None:
    sh = list(x.shape)
    sh.pop(1)
    z = torch.zeros(sh) + torch.zeros(x.shape[0], 3)
def a6(x: Float[Tensor, "2 4 3"]) -> None:
    sh = list(x.shape)
    sh += [5]
    z = torch.zeros(sh) + torch.zeros(2, 4, 3, 5)
def a7(x: Float[Tensor, "2 4 3"]) -> None:
    sh = list(x.shape)
    sh.extend([5])
    z = torch.zeros(sh) + torch.zeros(2, 4, 3, 5)
def a8(x: Float[Tensor, "2 4 3"]) -> None:
    sh = list(x.shape)
    sh[0], sh[1] = sh[1], sh[0]
    z = torch.zeros(sh) + torch.zeros(4, 2, 3)
def a9(x: Float[Tensor, "2 4 3"]) -> None:
    sh = list(x.shape)
    sh.reverse()
    z = torch.zeros(sh) + torch.zeros(3, 4, 2)
def b1(x: Float[Tensor, "2 4 3"]) -> None:
    perm = list(range(x.ndim))
    perm[0], perm[1] = perm[1], perm[0]
    z = x.permute(perm) + torch.zeros(4, 2, 3)
    perm = [0, 1, 2]
    perm.append(perm.pop(0))
    y = x.permute(perm) + torch.zeros(4, 3, 2)
def b2() -> None:
    dims = [8, 16]
    dims.append(4)
    dims[0] = 3
    w = np.zeros(dims) + np.zeros((3, 16, 4))
    dims.insert(0, 2)
    w2 = np.zeros(dims) + np.zeros((2, 3, 16, 4))
def b3(x: Float64[np.ndarray, "6 4"]) -> None:
    pads = [(0, 0)] * x.ndim
    pads[0] = (1, 2)
    z = np.pad(x, pads) + np.zeros((9, 4))
    reps = [1] * x.ndim
    reps[1] = 3
    t = np.tile(x, reps) + np.zeros((6, 12))
    sl = [slice(None)] * 2
    sl[0] = slice(1, 3)
    u = x[tuple(sl)] + np.zeros((2, 4))
    s = list(x.shape)
    for i in range(2):
        s[i] //= 2
    v = np.zeros(s) + np.zeros((3, 2))
    s2 = list(x.shape)
    s2[0] //= 3
    v2 = np.zeros(s2) + np.zeros((2, 4))
def b4(x: Float64[np.ndarray, "6 4"], axis: int = 0) -> None:
    s = list(x.shape)
    s[axis] = 1
    m = np.zeros(s)
    assert m.shape == (1, 4)
    y = x - m
    q = m + np.zeros((1, 4))
    r = m[0] + np.zeros(4)
    t = m + np.zeros((5, 4))
def b5(x: Float64[np.ndarray, "6 4"], drop: Callable[[list[int]], None]) -> None:
    s = list(x.shape)
    drop(s)
    z = np.zeros(s) + np.zeros(6)
def b6(x: Float64[np.ndarray, "6 4"]) -> None:
    s = list(x.shape)
    t = s
    t[0] = 9
    z = np.zeros(s) + np.zeros((9, 4))
class Cfg:
    shape = [2, 3]
    n = 4
def b7() -> None:
    c = Cfg()
    z = np.zeros(c.n)
    c.n = 6
    w = np.zeros(c.n) + np.zeros(6)
    c.shape[0] = 5
    v = np.zeros(c.shape) + np.zeros((5, 3))
N = 4
def setn() -> None:
    global N
    N = 6
def b8() -> None:
    z = np.zeros(N)
    setn()
    w = np.zeros(N) + np.zeros(6)
def b9() -> None:
    n = 3
    def bump() -> None:
        nonlocal n
        n += 2
    a = np.zeros(n)
    bump()
    b = np.zeros(n) + np.zeros(5)
def c1(n: int) -> None:
    """nonlocal state in training closure"""
    acc = torch.zeros(0)
    def add(x: Float[Tensor, "K"]) -> None:
        nonlocal acc
        acc = torch.cat([acc, x])
    acc = torch.zeros(0)
    add(torch.ones(3))
    z = acc + torch.ones(3)
def c2() -> None:
    gen = (np.zeros(k) for k in (2, 3))
    a = next(gen)
    b = next(gen) + np.zeros(3)
    it = iter([np.zeros(2), np.zeros(3)])
    c = next(it)
    d = next(it) + np.zeros(3)
def c3(xs: list[Float[np.ndarray, "D"]]) -> None:
    widths = []
    last = None
    for x in xs:
        if last is not None and last.shape == x.shape:
            y = last - x
        last = x
def c4(n: int) -> None:
    x = np.zeros((4, 4))
    for level in range(n):
        if x.shape[0] < 4:
            y = x + np.zeros((2, 2)) if x.shape[0] == 2 else x
        x = x[::2, ::2]
def c5(n: int) -> None:
    w = np.zeros((3, 4))
    for epoch in range(n):
        if epoch == 1:
            w = np.concatenate([w, np.zeros((3, 2))], axis=1)
        if epoch >= 1:
            y = np.zeros((5, 6)) @ w.T
        else:
            y = np.zeros((5, 4)) @ w.T
def c6(n: int) -> None:
    net = nn.Linear(4, 2)
    x = torch.zeros(3, 4)
    for stage in range(n):
        if stage == 1:
            x = torch.cat([x, x], 1)
            net = nn.Linear(8, 2)
        y = net(x)
def c7(n: int) -> None:
    it = 0
    x = np.zeros(2)
    while it < n:
        if it % 2 == 1:
            z = x + np.zeros(5)
        x = np.zeros(5) if it % 2 == 0 else np.zeros(2)
        it += 1
def c8(n: int) -> None:
    prev = np.empty(0)
    for i in range(n):
        cur = np.ones(4)
        if prev.size:
            d = cur - prev
        if len(prev):
            e = cur - prev
        if prev.shape[0] > 0:
            f = cur - prev
        if prev.size > 0:
            g = np.abs(cur - prev).max()
        if i and np.allclose(prev, cur):
            break
        prev = cur
def c9(n: int) -> None:
    prev = np.empty(0)
    for i in range(n):
        cur = np.ones(4)
        if i > 0 and np.abs(cur - prev).max() > 1:
            break
        h = cur - prev if i else cur
        prev = cur
def d1() -> None:
    buf = np.zeros(3)
    def f(k: int) -> None:
        buf.resize(k, refcheck=False)
    f(6)
    z = buf + np.zeros(6)
    t = torch.zeros(3)
    t.resize_(6)
    torch.cat([t, t], out=t2) if (t2 := torch.zeros(12)) is None else None
    u = t + torch.zeros(6)
    t.set_(torch.zeros(2, 2))
    v = t + torch.zeros(2, 2)
    o = torch.empty(0)
    torch.add(torch.ones(3), 1, out=o)
    w = o + torch.ones(3)
def main() -> None:
    x = torch.ones(2, 4, 3)
    for f in (a1, a2, a3, a4, a5, a6, a7, a8, a9, b1): f(x)
    n = np.ones((6, 4))
    b2(); b3(n); b4(n); b5(n, lambda s: s.__delitem__(1)); b6(n); b7(); b8(); b9(); c1(2); c2(); c3([n[0], n[1]]); c4(3); c5(3); c6(2); c7(4); c8(3); c9(3); d1()
if __name__ == "__main__":
    main()
