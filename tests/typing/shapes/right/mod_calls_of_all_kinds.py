"""Modules and functions called in all the ways there are: what one call gives says nothing of the next."""

from __future__ import annotations
import copy
from typing import Any, NamedTuple
import torch
from torch import Tensor, nn
from jaxtyping import Float


class A(nn.Module):
    def __init__(self, n: int, *more: int, deep: bool = False, **kw: Any) -> None:
        super().__init__()
        if deep:
            self.net: nn.Module = nn.Sequential(nn.Linear(n, 8), nn.Linear(8, 4))
        else:
            self.net = nn.Linear(n, 4)
        self.extra = nn.Identity() if not more else nn.Linear(4, more[0])
        self.n = n
        self.child: A | None = None

    def forward(self, x: Tensor, again: int = 0) -> Tensor:
        if again > 0:
            return self.forward(x, again - 1)
        if x.dim() == 1:
            x = x[None]
        return self.extra(self.net(x))


class B(A):
    def __init__(self) -> None:
        super().__init__(3)
        self.net = nn.Linear(5, 4)

    def forward(self, x: Tensor, again: int = 0) -> Tensor:
        return super().forward(x, again)


class C(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        y = self.inner(x)
        for _ in range(0):
            y = self.head(x)
        while y.shape[0] > 100:
            y = self.inner(y)
        try:
            y = self.head(x)
        except RuntimeError:
            y = self.head(y)
        return y


def swap(c: C) -> C:
    c.head = nn.Linear(4, 7)
    return c


class Pair(NamedTuple):
    a: Float[Tensor, "N D"]
    b: Float[Tensor, "N"]


def even(x: Tensor, n: int) -> Tensor:
    return x if n == 0 else odd(x, n - 1)


def odd(x: Tensor, n: int) -> Tensor:
    return x if n == 0 else even(x, n - 1)


def reshape_if(x: Tensor, flag: bool) -> Tensor:
    if flag:
        return x.reshape(2, 5)
    return x


def guard(x: Tensor) -> Tensor:
    if x.shape[-1] != 4:
        raise ValueError("four")
    return nn.Linear(4, 2)(x)


def split(p: Pair) -> Float[Tensor, "N"]:
    a, b = p
    return a.sum(-1) + b


def kwargs(*, x: Tensor, scale: float = 1.0) -> Tensor:
    return x * scale


def main() -> None:
    a = A(3)
    assert a(torch.zeros(2, 3)).shape == (2, 4)
    assert a(torch.zeros(3)).shape == (1, 4)
    assert a(torch.zeros(2, 3), again=3).shape == (2, 4)
    assert A(3, 9)(torch.zeros(2, 3)).shape == (2, 9)
    assert A(3, deep=True)(torch.zeros(2, 3)).shape == (2, 4)
    b = B()
    assert b(torch.zeros(2, 5)).shape == (2, 4)
    c = swap(C(A(4)))
    assert c(torch.zeros(2, 4)).shape == (2, 7)
    c2 = copy.deepcopy(c)
    assert (c2(torch.zeros(2, 4)) + torch.zeros(7)).shape == (2, 7)
    assert even(torch.zeros(2, 3), 5).shape == (2, 3)
    y = reshape_if(torch.zeros(3), False) + torch.zeros(3)
    try:
        guard(torch.zeros(3, 5))
    except ValueError:
        pass
    p = Pair(torch.zeros(4, 2), torch.zeros(4))
    q = p._replace(a=torch.zeros(4, 9))
    assert split(p).shape == split(q).shape == (4,)
    assert (p.a + torch.zeros(2)).shape == (4, 2)
    _, _ = p
    z = kwargs(x=torch.zeros(3), scale=2.0) + torch.zeros(3)
    args = (torch.zeros(2, 3),)
    A(3)(*args)
    nets = [A(n) for n in (3, 4, 5)]
    for net, n in zip(nets, (3, 4, 5)):
        net(torch.zeros(2, n))
    by = {"x": A(3), "y": A(5)}
    by["y"](torch.zeros(2, 5))
    kinds = A if len(nets) > 100 else B
    m = C(b)
    m.inner = A(4)
    m(torch.zeros(2, 4))


if __name__ == "__main__":
    main()
