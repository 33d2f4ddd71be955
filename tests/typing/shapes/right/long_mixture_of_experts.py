"""MoE routing with scatter, capacity, aux loss."""
from __future__ import annotations
from typing import NamedTuple
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from jaxtyping import Float, Int, Bool, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)

class Routing(NamedTuple):
    weights: Float[Tensor, "T k"]
    experts: Int[Tensor, "T k"]
    aux: Float[Tensor, ""]

class Router(nn.Module):
    def __init__(self, d: int, n_exp: int, k: int = 2):
        super().__init__()
        self.gate = nn.Linear(d, n_exp, bias=False)
        self.k = k
        self.n_exp = n_exp

    def forward(self, x: Float[Tensor, "T D"]) -> Routing:
        logits = self.gate(x)
        probs = logits.softmax(dim=-1, dtype=torch.float32)
        w, idx = torch.topk(probs, self.k, dim=-1)
        w = w / w.sum(dim=-1, keepdim=True)
        onehot = F.one_hot(idx, self.n_exp).sum(1)
        frac = onehot.float().mean(0)
        aux = self.n_exp * (frac * probs.mean(0)).sum()
        return Routing(w.to(x.dtype), idx, aux)

class Expert(nn.Module):
    def __init__(self, d: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(d, hidden)
        self.down = nn.Linear(hidden, d)
    @tc
    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self.down(F.gelu(self.up(x)))

class MoE(nn.Module):
    def __init__(self, d: int, hidden: int, n_exp: int, k: int = 2):
        super().__init__()
        self.router = Router(d, n_exp, k)
        self.experts = nn.ModuleList(Expert(d, hidden) for _ in range(n_exp))

    @tc
    def forward(self, x: Float[Tensor, "B L D"]) -> tuple[Float[Tensor, "B L D"], Float[Tensor, ""]]:
        shape = x.shape
        flat = x.view(-1, shape[-1])
        r = self.router(flat)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            tok, slot = torch.where(r.experts == e)
            if tok.numel() == 0:
                continue
            y = expert(flat[tok])
            out.index_add_(0, tok, y * r.weights[tok, slot].unsqueeze(-1))
        return out.view(shape), r.aux

@tc
def dispatch_dense(x: Float[Tensor, "T D"], idx: Int[Tensor, "T k"], w: Float[Tensor, "T k"], n_exp: int, capacity: int) -> Float[Tensor, "E C D"]:
    T, k = idx.shape
    flat_idx = idx.reshape(-1)
    onehot = F.one_hot(flat_idx, n_exp)
    pos = onehot.cumsum(0) * onehot
    pos = pos.sum(-1) - 1
    keep = pos < capacity
    token = torch.arange(T).repeat_interleave(k)
    buf = x.new_zeros(n_exp * capacity, x.shape[1])
    dest = flat_idx[keep] * capacity + pos[keep]
    buf[dest] = x[token[keep]] * w.reshape(-1)[keep][:, None]
    return buf.view(n_exp, capacity, -1)

@tc
def sort_dispatch(x: Float[Tensor, "T D"], idx: Int[Tensor, "T k"], n_exp: int) -> tuple[Float[Tensor, "Tk D"], Int[Tensor, "E"], Int[Tensor, "Tk"]]:
    order = torch.argsort(idx.flatten(), stable=True)
    counts = torch.bincount(idx.flatten(), minlength=n_exp)
    gathered = x[order // idx.size(1)]
    return gathered, counts, order

@tc
def grouped(x: Float[Tensor, "Tk D"], counts: Int[Tensor, "E"], w: Float[Tensor, "E D F"]) -> Float[Tensor, "Tk F"]:
    parts = []
    start = 0
    for e, c in enumerate(counts.tolist()):
        chunk = x[start:start + c]
        parts.append(chunk @ w[e])
        start += c
    return torch.cat(parts)

def combine(y: Float[Tensor, "Tk F"], order: Int[Tensor, "Tk"], w: Float[Tensor, "T k"]) -> Float[Tensor, "T F"]:
    T, k = w.shape
    un = torch.empty_like(y)
    un[order] = y
    un = un.view(T, k, -1)
    scat = torch.zeros(T, y.shape[-1]).scatter_add(0, (torch.arange(T * k) // k)[:, None].expand(-1, y.shape[1]), un.flatten(0, 1) * w.reshape(-1, 1))
    alt = torch.einsum("tkf,tk->tf", un, w)
    assert torch.allclose(scat, alt, atol=1e-5)
    return (un * w[..., None]).sum(1)

def main() -> None:
    torch.manual_seed(0)
    moe = MoE(8, 16, 4)
    x = torch.randn(2, 5, 8)
    y, aux = moe(x)
    assert y.shape == (2, 5, 8) and aux.ndim == 0
    r = moe.router(x.flatten(0, 1))
    assert r.weights.shape == (10, 2)
    buf = dispatch_dense(x.flatten(0, 1), r.experts, r.weights, 4, 6)
    assert buf.shape == (4, 6, 8)
    g, c, o = sort_dispatch(x.flatten(0, 1), r.experts, 4)
    assert g.shape == (20, 8) and c.shape == (4,)
    z = grouped(g, c, torch.randn(4, 8, 3))
    out = combine(z, o, r.weights)
    assert out.shape == (10, 3)
    load = torch.zeros(4).scatter_(0, torch.tensor([1, 2]), torch.ones(2))
    assert load.sum() == 2

if __name__ == "__main__":
    main()
