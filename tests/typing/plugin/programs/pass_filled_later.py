"""Fields that hold a placeholder, and are read after something that types do not follow has filled them."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, BatchProtocol

A = np.ones((2, 3), np.float32)
Array = NDArray[Any]


class HasX(BatchProtocol, Protocol):
    @property
    def x(self) -> Array: ...


class HasT(BatchProtocol, Protocol):
    @property
    def x(self) -> Tensor: ...


def use_x(b: HasX) -> None:
    print(b.x.shape)


def use_t(b: HasT) -> None:
    print(b.x.shape)


def total(x: Array) -> float:
    return float(x.sum())


def fill(b: Batch) -> None:
    b.x = A


def to_tensors(b: Batch) -> None:
    for key in list(b.keys()):
        b[key] = torch.as_tensor(b[key])


def x_to_tensor(b: Batch) -> None:
    b.x = torch.as_tensor(b.x)


def stale() -> None:
    b = Batch(x=A)
    to_tensors(b)
    use_t(b)
    c = Batch(x=A)
    x_to_tensor(c)
    use_t(c)
    d = Batch(x=A)
    d.to_torch_()
    use_t(d)


class Held:
    def __init__(self) -> None:
        self.data = Batch(x={})
        self.np = Batch(x=A)

    def fill(self) -> None:
        self.data.x = A

    def filled(self) -> None:
        self.data = Batch(x=None)
        self.fill()
        use_x(self.data)
        print(total(self.data.x), self.data.x.mean())

    def convert(self) -> None:
        self.np.x = torch.as_tensor(self.np.x)

    def converted(self) -> None:
        self.convert()
        use_t(self.np)

    def filled_again(self) -> None:
        self.data = Batch(x=None)
        self.data.x = None
        self.fill()
        print(self.data.x.mean(), total(self.data.x))
        if self.data.x is not None:
            print(self.data.x.mean())


def reads() -> None:
    b = Batch(x={})
    fill(b)
    print(total(b.x), np.mean(b.x), b.x[0], b.x @ A.T, b.x < 3, -b.x, b.x.shape[0], b.x.tolist(), len(b.x))
    c = Batch(x=None)
    fill(c)
    print(total(c.x), np.mean(c.x), c.x[0], c.x @ A.T, c.x < 3, -c.x, c.x.shape[0], c.x.tolist(), len(c.x))
    d = Batch(x=[])
    fill(d)
    print(total(d.x), np.mean(d.x), d.x[0], d.x @ A.T, d.x < 3)
    e = Batch(x=Batch())
    e.x = A
    print(total(e.x), np.mean(e.x), e.x[0], e.x @ A.T, e.x < 3)
    f = Batch(x=None)
    f.update(x=A)
    print(total(f.x), np.mean(f.x), f.x[0], f.x @ A.T, f.x < 3)
    g = Batch(x=None)
    setattr(g, "x", A)
    print(total(g.x), np.mean(g.x), g.x[0], g.x @ A.T, g.x < 3)
    h = Batch(x=None)
    for key in ("x",):
        h[key] = A
    print(total(h.x), np.mean(h.x), h.x[0], h.x @ A.T, h.x < 3)


class Attr:
    def __init__(self) -> None:
        self.data = Batch(x={}, y=None, z=Batch(), w=[], hidden=None, n=0)
        self.nested = Batch(obs=Batch(x=None, y={}))

    def fill(self) -> None:
        d = self.data
        d.x = A
        d.y = A
        d.z = A
        d.w = A
        d.hidden = A
        self.nested.obs.x = A
        self.nested.obs.y = A

    def go(self) -> None:
        self.fill()
        print(total(self.data.x), total(self.data.y), total(self.data.z), total(self.data.w))
        x: Array = self.data.x
        y: Array = self.data.y
        print(x, y, np.mean(self.data.x), np.mean(self.data.y), self.data.y[0], self.data.y + 1)
        print(self.data.x @ A.T, self.data.z @ A.T, self.data.y @ A.T, self.data.x < 3, -self.data.x, self.data.y < 3)
        for row in self.data.x:
            print(total(row))
        for row in self.data.y:
            print(total(row))
        if self.data.hidden is None:
            print("first")
        else:
            print(self.data.hidden.shape)
        if self.data.hidden is not None:
            print(total(self.data.hidden))
        self.data.x += 1
        self.data.y *= 2
        self.data.x[0] = 5
        self.data.y[0] = 5
        print(total(self.nested.obs.x), total(self.nested.obs.y), self.nested.obs.x.mean())
        print(torch.as_tensor(self.data.x), torch.as_tensor(self.data.y))
        print([v.shape for v in (self.data.x, self.data.y)])
        self.data.hidden = None
        self.fill()
        if self.data.hidden is not None:
            print(total(self.data.hidden))

    def back(self) -> Any:
        return self.data.y


def nested() -> None:
    b = Batch(obs=Batch())
    b.obs.x = A
    use_x(b.obs)
    c = Batch(obs=Batch(x=None))
    fill(c.obs)
    use_x(c.obs)
    print(total(c.obs.x))
    d = Batch(obs={"x": {}})
    d.obs.x = A
    use_x(d.obs)
    print(total(d.obs.x))
    e = Batch(obs=Batch(x={}))
    inner = e.obs
    inner.x = A
    use_x(e.obs)
    print(total(e.obs.x))


def containers() -> None:
    xs = []
    xs.append(Batch(x=None))
    for b in xs:
        b.x = A
    use_x(xs[0])
    print(total(xs[0].x))
    ys = deque([Batch(x={})])
    ys[0].x = A
    use_x(ys[0])
    print(total(ys[0].x))
    zs = {"a": Batch(x={}), "b": Batch(x=None)}
    for name in zs:
        zs[name].x = A
    use_x(zs["a"])
    print(total(zs["a"].x), total(zs["b"].x), zs["b"].x.mean())
    ws = [Batch(x=None) for _ in range(2)]
    for w in ws:
        w.x = A
    print(total(ws[0].x), ws[1].x.mean())
    vs = (Batch(x=None), Batch(x={}))
    vs[0].x = A
    vs[1].x = A
    print(total(vs[0].x), total(vs[1].x))
    us = dict(a=Batch(x=None))  # noqa: C408
    us["a"].x = A
    print(total(us["a"].x))
    ts = {k: Batch(x=None) for k in "ab"}
    ts["a"].x = A
    print(total(ts["a"].x))
    fill(ts["b"])
    print(total(ts["b"].x))
    use_x(ts["b"])
    ss = [[Batch(x=None)]]
    ss[0][0].x = A
    print(total(ss[0][0].x))


def loops() -> None:
    b = Batch(x=None)
    for _ in range(3):
        if b.x is None:
            b.x = A
        else:
            b.x = b.x + 1
    print(b.x.shape, total(b.x))
    c = Batch(x=None, done=False)
    while c.x is None:
        fill(c)
    print(total(c.x))
    d = Batch(state=None)
    for _ in range(2):
        d.state = step(d)
    print(d.state.shape)


def step(b: Batch) -> Array:
    return A if b.state is None else total_of(b.state)


def total_of(x: Array) -> Array:
    return x + 1


if __name__ == "__main__":
    stale()
    h = Held()
    h.filled()
    h.converted()
    h.filled_again()
    reads()
    a = Attr()
    a.go()
    a.back()

    nested()
    containers()
    loops()
