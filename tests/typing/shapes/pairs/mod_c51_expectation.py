"""C51: categorical distributional Q network and projected Bellman target."""
from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class C51(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, n_atoms: int = 51, v_max: float = 10.0):
        super().__init__()
        self.n_actions, self.n_atoms = n_actions, n_atoms
        self.register_buffer("support", torch.linspace(-v_max, v_max, n_atoms))
        self.net = nn.Sequential(
            nn.Linear(obs_dim, 64), nn.ReLU(), nn.Linear(64, n_actions * n_atoms)
        )

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A Z"]:
        return self.net(obs).view(-1, self.n_actions, self.n_atoms).softmax(dim=-1)

    def q_values(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A"]:
        probs = self(obs)
        return (probs * self.support).sum(dim=-1)
        # wrong: return (probs * self.support).sum(dim=1)  # WRONG

    def act(self, obs: Float[Tensor, "B O"]) -> Int[Tensor, "B"]:
        return self.q_values(obs).argmax(dim=1)


def project(
    next_probs: Float[Tensor, "B Z"],
    reward: Float[Tensor, "B"],
    done: Float[Tensor, "B"],
    support: Float[Tensor, "Z"],
    gamma: float = 0.99,
) -> Float[Tensor, "B Z"]:
    delta = support[1] - support[0]
    tz = reward[:, None] + gamma * (1 - done)[:, None] * support[None, :]
    b = (tz.clamp(support[0], support[-1]) - support[0]) / delta
    grid = torch.arange(support.shape[0])
    overlap = (1 - (b[:, None, :] - grid[None, :, None]).abs()).clamp(min=0)
    return (overlap * next_probs[:, None, :]).sum(dim=-1)


def main() -> None:
    torch.manual_seed(0)
    B = 8
    net = C51(obs_dim=4, n_actions=3)
    obs = torch.randn(B, 4)
    print("greedy", net.act(obs).tolist())
    with torch.no_grad():
        dist = net(obs)[:, 0]
        target = project(dist, torch.randn(B), torch.zeros(B), net.support)
    print("mass", target.sum(dim=-1).mean().item())


if __name__ == "__main__":
    main()
