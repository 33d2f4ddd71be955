"""Top-k mixture-of-experts feed-forward layer with a load-balancing loss."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


class Router(nn.Module):
    def __init__(self, dim: int, n_experts: int, k: int):
        super().__init__()
        self.k, self.n_experts = k, n_experts
        self.gate = nn.Linear(dim, n_experts, bias=False)

    def forward(
        self, x: Float[Tensor, "N D"]
    ) -> tuple[Float[Tensor, "N K"], Int[Tensor, "N K"], Float[Tensor, ""]]:
        probs = self.gate(x).softmax(dim=-1)
        weights, experts = probs.topk(self.k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        load = F.one_hot(experts, self.n_experts).float().sum(dim=1).mean(dim=0)
        importance = probs.mean(dim=0)
        aux = self.n_experts * (load * importance).sum()
        return weights, experts, aux


class MoE(nn.Module):
    def __init__(self, dim: int, hidden: int, n_experts: int = 4, k: int = 2):
        super().__init__()
        self.router = Router(dim, n_experts, k)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
            for _ in range(n_experts)
        )

    def forward(self, x: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B T D"], Float[Tensor, ""]]:
        flat = x.reshape(-1, x.shape[-1])
        weights, experts, aux = self.router(flat)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(experts == e)
            out[token] += weights[token, slot].unsqueeze(-1) * expert(flat[token])
            # wrong: out[token] += weights[token, slot] * expert(flat[token])  # WRONG
        return out.view_as(x), aux


def main() -> None:
    torch.manual_seed(0)
    moe = MoE(dim=16, hidden=32)
    y, aux = moe(torch.randn(3, 7, 16))
    print("out", tuple(y.shape), "aux", aux.item())


if __name__ == "__main__":
    main()
