"""QR-DQN quantile head and quantile Huber loss."""
from __future__ import annotations

import torch
import torch.nn as nn
from jaxtyping import Float, Int
from torch import Tensor


class QuantileNet(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, n_quantiles: int) -> None:
        super().__init__()
        self.n_quantiles = n_quantiles
        self.torso = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU())
        self.head = nn.Linear(64, n_actions * n_quantiles)

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A N"]:
        return self.head(self.torso(obs)).unflatten(-1, (-1, self.n_quantiles))


def select(quantiles: Float[Tensor, "B A N"], action: Int[Tensor, "B"]) -> Float[Tensor, "B N"]:
    return quantiles[torch.arange(action.shape[0]), action]


def quantile_huber(
    pred: Float[Tensor, "B N"],
    target: Float[Tensor, "B M"],
    tau: Float[Tensor, "N"],
    kappa: float = 1.0,
) -> Float[Tensor, ""]:
    td = target[:, None, :] - pred[:, :, None]
    huber = torch.where(td.abs() <= kappa, 0.5 * td**2, kappa * (td.abs() - 0.5 * kappa))
    weight = (tau[None, :, None] - (td.detach() < 0).float()).abs()
    # wrong: weight = (tau[None, None, :] - (td.detach() < 0).float()).abs()  # WRONG
    return (weight * huber / kappa).mean(dim=2).sum(dim=1).mean()


def main() -> None:
    torch.manual_seed(0)
    B, O, A, N = 16, 6, 4, 21
    net, target_net = QuantileNet(O, A, N), QuantileNet(O, A, N)
    tau = (torch.arange(N) + 0.5) / N
    obs, next_obs = torch.randn(B, O), torch.randn(B, O)
    action = torch.randint(0, A, (B,))
    with torch.no_grad():
        nxt = target_net(next_obs)
        best = nxt.mean(dim=-1).argmax(dim=-1)
        target = torch.randn(B)[:, None] + 0.99 * select(nxt, best)
    loss = quantile_huber(select(net(obs), action), target, tau)
    loss.backward()
    print("qr loss", loss.item())


if __name__ == "__main__":
    main()
