"""GNN message passing."""
from dataclasses import dataclass, field
from typing import Iterable, Iterator, Optional
import numpy as np
import torch
import torch.nn as nn
from torch import Tensor
from jaxtyping import Float, Int, Bool, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)

@dataclass
class Graph:
    x: Float[Tensor, "V F"]
    edges: Int[Tensor, "2 E"]
    edge_attr: Optional[Float[Tensor, "E A"]] = None
    batch: Optional[Int[Tensor, "V"]] = None

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)
    @property
    def src(self) -> Int[Tensor, "E"]:
        return self.edges[0]
    @property
    def dst(self) -> Int[Tensor, "E"]:
        return self.edges[1]
    def degree(self) -> Float[Tensor, "V"]:
        deg = torch.zeros(self.num_nodes)
        deg.index_add_(0, self.dst, torch.ones(self.dst.shape[0]))
        return deg
    def with_self_loops(self) -> "Graph":
        loops = torch.arange(self.num_nodes).repeat(2, 1)
        edges = torch.cat([self.edges, loops], dim=1)
        ea = self.edge_attr
        if ea is not None:
            ea = torch.cat([ea, ea.new_zeros(self.num_nodes, ea.size(1))])
        return Graph(self.x, edges, ea, self.batch)

@tc
def scatter_sum(src: Float[Tensor, "E F"], idx: Int[Tensor, "E"], n: int) -> Float[Tensor, "n F"]:
    out = torch.zeros(n, src.shape[1], dtype=src.dtype)
    return out.scatter_add_(0, idx[:, None].expand_as(src), src)

@tc
def scatter_softmax(a: Float[Tensor, "E H"], idx: Int[Tensor, "E"], n: int) -> Float[Tensor, "E H"]:
    ex = idx.unsqueeze(-1).expand(-1, a.size(-1))
    mx = torch.full((n, a.size(-1)), -torch.inf).scatter_reduce(0, ex, a, reduce="amax")
    e = (a - mx[idx]).exp()
    den = torch.zeros(n, a.size(-1)).index_add(0, idx, e)
    return e / den[idx].clamp_min(1e-9)

class GCN(nn.Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.lin = nn.Linear(i, o)
    def forward(self, g: Graph) -> Float[Tensor, "V O"]:
        g = g.with_self_loops()
        d = g.degree().pow(-0.5)
        d = torch.where(torch.isinf(d), torch.zeros_like(d), d)
        norm = d[g.src] * d[g.dst]
        h = self.lin(g.x)
        msg = h[g.src] * norm.view(-1, 1)
        out = torch.zeros_like(h)
        out.index_add_(0, g.dst, msg)
        return out

class GAT(nn.Module):
    def __init__(self, i: int, o: int, heads: int = 2) -> None:
        super().__init__()
        self.h, self.o = heads, o
        self.lin = nn.Linear(i, heads * o)
        self.att_s = nn.Parameter(torch.randn(1, heads, o))
        self.att_d = nn.Parameter(torch.randn(1, heads, o))
    def forward(self, g: Graph, concat: bool = True) -> Float[Tensor, "V out"]:
        h = self.lin(g.x).view(-1, self.h, self.o)
        s = (h * self.att_s).sum(-1)
        t = (h * self.att_d).sum(-1)
        a = torch.nn.functional.leaky_relu(s[g.src] + t[g.dst], 0.2)
        a = scatter_softmax(a, g.dst, g.num_nodes)
        m = h[g.src] * a[:, :, None]
        out = scatter_sum(m.flatten(1), g.dst, g.num_nodes)
        if concat:
            return out
        return out.view(-1, self.h, self.o).mean(1)

def collate(gs: list[Graph]) -> Graph:
    xs, es, bs = [], [], []
    off = 0
    for i, g in enumerate(gs):
        xs.append(g.x)
        es.append(g.edges + off)
        bs.append(torch.full((g.num_nodes,), i, dtype=torch.long))
        off += g.num_nodes
    return Graph(torch.cat(xs), torch.cat(es, 1), batch=torch.cat(bs))

def global_mean(x: Float[Tensor, "V F"], batch: Int[Tensor, "V"], n: Optional[int] = None) -> Float[Tensor, "G F"]:
    n = n or int(batch.max()) + 1
    s = scatter_sum(x, batch, n)
    c = torch.bincount(batch, minlength=n).clamp(min=1)
    return s / c[:, None]

def random_graph(n: int, p: float, f: int) -> Graph:
    rng = np.random.default_rng(n)
    adj = rng.random((n, n)) < p
    adj = np.triu(adj, 1)
    adj = adj | adj.T
    e = np.stack(np.nonzero(adj))
    return Graph(torch.randn(n, f), torch.from_numpy(e))

def pool_topk(g: Graph, score: Float[Tensor, "V"], ratio: float = 0.5) -> Graph:
    k = max(1, int(ratio * g.num_nodes))
    val, perm = score.topk(k)
    x = g.x[perm] * val.tanh()[:, None]
    new_id = torch.full((g.num_nodes,), -1, dtype=torch.long)
    new_id[perm] = torch.arange(k)
    e = new_id[g.edges]
    keep = (e >= 0).all(0)
    return Graph(x, e[:, keep])

def main() -> None:
    torch.manual_seed(0)
    gs = [random_graph(n, 0.5, 4) for n in (5, 7, 6)]
    g = collate(gs)
    assert g.x.shape == (18, 4)
    h = GCN(4, 8)(g)
    assert h.shape == (18, 8)
    o = GAT(4, 3)(g, concat=False)
    assert o.shape == (18, 3)
    assert g.batch is not None
    z = global_mean(h, g.batch)
    assert z.shape == (3, 8)
    p = pool_topk(g, h.sum(-1))
    assert p.x.shape == (9, 4)
    lap = torch.diag(g.degree()) - torch.zeros(18, 18).index_put((g.src, g.dst), torch.ones(g.edges.shape[1]))
    ev, evec = torch.linalg.eigh(lap)
    pe = evec[:, 1:4]
    assert pe.shape == (18, 3) and ev.shape == (18,)

if __name__ == "__main__":
    main()
