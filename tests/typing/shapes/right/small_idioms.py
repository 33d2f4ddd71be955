from __future__ import annotations
import numpy as np
import torch
from torch import Tensor
from jaxtyping import Float, Float64, Int64, UInt8, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)

# 1a
@tc
def ema(x: Float64[np.ndarray, "N D"], n: int) -> Float64[np.ndarray, "N D"]:
    state = np.zeros(0)
    for i in range(n):
        if i == 0:
            state = x.copy()
            continue
        state = 0.9 * state + 0.1 * x
    return state
# 1b
def converge(n: int) -> None:
    prev = np.empty(0)
    for i in range(n):
        cur = np.ones(4)
        if i > 0 and np.abs(cur - prev).max() < 1e-6:
            break
        prev = cur
# 1c
def guard_size(n: int) -> None:
    prev = np.empty(0)
    for _ in range(n):
        cur = np.ones(4)
        if prev.size:
            d = cur - prev
        prev = cur
# 1d
def buffer(n: int) -> None:
    buf, count = np.empty((0, 4)), 0
    for _ in range(n):
        row = np.ones((6, 4))
        if count == 0:
            buf = row.copy()
        else:
            buf += row
        count += 1
# 1e
@tc
def tree_sum(x: Float[Tensor, "64 8"]) -> Float[Tensor, "1 8"]:
    while x.shape[0] > 1:
        x = x[::2] + x[1::2]
        if x.shape[0] == 1:
            return x
    return x
# 1f
def flag(n: int) -> None:
    h, mode = torch.zeros(4, 1), "init"
    for _ in range(n):
        if mode == "init":
            h, mode = torch.zeros(4, 7), "run"
        elif mode == "run":
            h = h @ torch.zeros(7, 7)
# 2a
@tc
def swap(x: Float[Tensor, "B T D"]) -> Float[Tensor, "T B D"]:
    sh = list(x.shape)
    sh[0], sh[1] = sh[1], sh[0]
    return x.new_zeros(sh)
# 2b
@tc
def drop(x: Float[Tensor, "B T D"]) -> Float[Tensor, "T D"]:
    sh = list(x.shape)
    del sh[0]
    return x.new_zeros(sh)
# 2c
def halve(x: Float64[np.ndarray, "6 4"]) -> None:
    s = list(x.shape)
    s[0] //= 3
    v = np.zeros(s) + np.zeros((2, 4))
# 2d
def one(x: Float64[np.ndarray, "6 4"], axis: int) -> None:
    s = list(x.shape)
    s[axis] = 1
    v = np.zeros(s) + np.zeros((5, 4))
# 2e
def rev(x: Float[Tensor, "2 4 3"]) -> None:
    s = list(x.shape)
    s.reverse()
    v = torch.zeros(s) + torch.zeros(3, 4, 2)
# 2f
def app(x: Float[Tensor, "2 4 3"]) -> None:
    s = list(x.shape)
    s += [5]
    v = torch.zeros(s) + torch.zeros(2, 4, 3, 5)
# 2g
def app2(x: Float[Tensor, "2 4 3"]) -> None:
    s = list(x.shape)
    s.append(5)
    v = torch.zeros(s) + torch.zeros(2, 4, 3, 5)
def app3(x: Float[Tensor, "2 4 3"]) -> None:
    s = list(x.shape)
    s.insert(0, 7)
    v = torch.zeros(s) + torch.zeros(7, 2, 4, 3)
def app4(x: Float[Tensor, "2 4 3"]) -> None:
    s = list(x.shape)
    s.pop()
    v = torch.zeros(s) + torch.zeros(2, 4)
# 3
@tc
def np_int_adv(x: Float64[np.ndarray, "2 3 4"]) -> Float64[np.ndarray, "2 3"]:
    return x[0, :, [0, 1]]
@tc
def np_int_adv2(x: Float64[np.ndarray, "B 3 4"], t: Int64[np.ndarray, "7"]) -> Float64[np.ndarray, "7 3"]:
    return x[0, :, t]
@tc
def torch_int_adv(x: Float[Tensor, "3 4 5"]) -> Float[Tensor, "4 2"]:
    return x[0, :, torch.tensor([0, 1])]
@tc
def torch_int_adv2(x: Float[Tensor, "B T D"], t: Int64[Tensor, "K"]) -> Float[Tensor, "T K"]:
    return x[0, :, t]
@tc
def nested(x: Float64[np.ndarray, "B T D"]) -> Float64[np.ndarray, "2 2 D"]:
    return x[[[0], [1]], [0, 1]]
# 4
@tc
def grow(x: Float[Tensor, "B T"], y: Float[Tensor, "B K"]) -> Float[Tensor, "B T+K"]:
    acc = x
    def push(z: Tensor) -> None:
        nonlocal acc
        acc = torch.cat([acc, z], 1)
    acc = x
    push(y)
    return acc
def grow2() -> None:
    acc = torch.zeros(0)
    def push(z: Tensor) -> None:
        nonlocal acc
        acc = torch.cat([acc, z])
    push(torch.ones(3))
    z = acc + torch.ones(3)
def counter() -> None:
    n = 3
    def bump() -> None:
        nonlocal n
        n += 2
    bump()
    b = np.zeros(n) + np.zeros(5)
STATE = np.zeros(3)
def setg(n: int) -> None:
    global STATE
    STATE = np.zeros(n)
def glob() -> None:
    global STATE
    STATE = np.zeros(4)
    setg(6)
    z = STATE + np.zeros(6)
# 5
@tc
def set_shape(x: Float64[np.ndarray, "B T D"]) -> Float64[np.ndarray, "D T B"]:
    y = x.copy()
    y.shape = (x.shape[2], x.shape[1], x.shape[0])
    return y
@tc
def out_arg(x: Float[Tensor, "3 4"]) -> Float[Tensor, "3 4"]:
    out = torch.empty(0)
    torch.mul(x, 2, out=out)
    return out
def elem() -> None:
    l = [torch.zeros(2, 3)]
    l[0].t_()
    z = l[0] + torch.zeros(3, 2)
def callee() -> None:
    def tr(t: Tensor) -> None:
        t.t_()
    d = torch.zeros(2, 3)
    tr(d)
    pass
def callee2() -> None:
    buf = np.zeros(3)
    def f(k: int) -> None:
        buf.resize(k, refcheck=False)
    f(6)
    z = buf + np.zeros(6)
# 6
def outer(x: Float[Tensor, "B T D"]) -> None:
    a = x[:, torch.tensor([0, 1]), torch.tensor([[0], [1]])]
def flip_bits(b: UInt8[np.ndarray, "N"]) -> None:
    pass
    c = np.packbits(~np.array([1, 2], dtype=np.uint8) & b[:2])
# 7 typing
def att(T: int) -> None:
    ctxs, attn = [], []
    while len(ctxs) < T:
        ctxs.append(torch.zeros(3))
        attn.append(torch.zeros(2))
# 8 notes
@tc
def cond_empty(x: Float64[np.ndarray, "6 4"], k: int) -> Float64[np.ndarray, "M 4"]:
    buf = x
    for _ in range(k):
        buf = np.concatenate([buf, x[:1]])
        reveal_type(buf)
    return buf
def main() -> None:
    n = np.ones((6, 4)); t = torch.ones(2, 4, 3)
    ema(n, 3); converge(3); guard_size(3); buffer(3); tree_sum(torch.ones(64, 8)); flag(3)
    swap(t); drop(t); halve(n); one(n, 0); rev(t); app(t); app2(t); app3(t); app4(t)
    np_int_adv(np.ones((2, 3, 4))); np_int_adv2(np.ones((2, 3, 4)), np.zeros(7, int)); torch_int_adv(torch.ones(3, 4, 5)); torch_int_adv2(t, torch.tensor([0, 1]))
    nested(np.ones((2, 3, 4))); grow(torch.ones(2, 3), torch.ones(2, 1)); grow2(); counter(); glob()
    set_shape(np.ones((2, 3, 4))); out_arg(torch.ones(3, 4)); elem(); callee(); callee2(); outer(t); flip_bits(np.ones(3, np.uint8)); att(2)
    cond_empty(n, 2)
if __name__ == "__main__":
    import builtins
    if not hasattr(builtins, "reveal_type"):
        setattr(builtins, "reveal_type", lambda v: print(v.shape))
    main()
