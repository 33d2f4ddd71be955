"""REDQ-style critic ensemble: pessimistic target over a set of Q functions."""
from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Critic(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int):
        super().__init__()
        self.net = mlp(obs_dim + act_dim, 64, 64, 1)

    def forward(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "B"]:
        return self.net(torch.cat([obs, act], dim=-1)).squeeze(-1)


class CriticEnsemble(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, n: int):
        super().__init__()
        self.members = nn.ModuleList([Critic(obs_dim, act_dim) for _ in range(n)])

    def forward(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "E B"]:
        return torch.stack([critic(obs, act) for critic in self.members], dim=0)

    def pessimistic(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "B"]:
        return self(obs, act).min(dim=0).values
        # wrong: return self(obs, act).min(dim=-1).values  # WRONG

    def disagreement(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "B"]:
        return self(obs, act).std(dim=0)


def main() -> None:
    torch.manual_seed(0)
    ens = CriticEnsemble(obs_dim=6, act_dim=2, n=5)
    obs, act = torch.randn(12, 6), torch.randn(12, 2)
    with torch.no_grad():
        low = ens.pessimistic(obs, act)
        # wrong: low = ens.pessimistic(obs, act)  # WRONG
        bonus = ens.disagreement(obs, act)
    print("mean lower bound", low.mean().item(), "bonus", bonus.mean().item())


if __name__ == "__main__":
    main()
