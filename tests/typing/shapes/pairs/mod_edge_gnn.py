"""Message-passing GNN over an edge list, with per-graph mean readout."""
from __future__ import annotations

import torch
import torch.nn as nn
from jaxtyping import Float, Int
from torch import Tensor


class EdgeConv(nn.Module):
    def __init__(self, node_dim: int, edge_dim: int, out_dim: int):
        super().__init__()
        self.msg = nn.Linear(2 * node_dim + edge_dim, out_dim)
        self.upd = nn.Linear(node_dim + out_dim, out_dim)

    def forward(
        self,
        x: Float[Tensor, "N D"],
        edge_index: Int[Tensor, "2 E"],
        edge_attr: Float[Tensor, "E F"],
    ) -> Float[Tensor, "N O"]:
        src, dst = edge_index
        m = torch.relu(self.msg(torch.cat([x[src], x[dst], edge_attr], dim=-1)))
        agg = torch.zeros(x.shape[0], m.shape[1]).index_add(0, dst, m)
        # wrong: agg = torch.zeros_like(m).index_add(0, dst, m)  # WRONG
        return torch.relu(self.upd(torch.cat([x, agg], dim=-1)))
        # wrong: return torch.relu(self.upd(torch.cat([x, agg], dim=-1)))  # WRONG


class GraphRegressor(nn.Module):
    def __init__(self, node_dim: int, edge_dim: int, hidden: int = 32):
        super().__init__()
        self.conv1 = EdgeConv(node_dim, edge_dim, hidden)
        self.conv2 = EdgeConv(hidden, edge_dim, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, edge_index, edge_attr, graph_id: Int[Tensor, "N"], n_graphs: int):
        h = self.conv2(self.conv1(x, edge_index, edge_attr), edge_index, edge_attr)
        total = torch.zeros(n_graphs, h.shape[1]).index_add(0, graph_id, h)
        count = torch.bincount(graph_id, minlength=n_graphs).clamp(min=1)
        return self.out(total / count.unsqueeze(-1)).squeeze(-1)


def main() -> None:
    torch.manual_seed(0)
    N, E = 10, 24
    model = GraphRegressor(node_dim=5, edge_dim=3)
    x, edge_attr = torch.randn(N, 5), torch.randn(E, 3)
    edge_index = torch.randint(0, N, (2, E))
    graph_id = torch.arange(N) // 5
    print("pred", model(x, edge_index, edge_attr, graph_id, 2).tolist())


if __name__ == "__main__":
    main()
