"""GRU policy unrolled over batch-major observation sequences (DRQN style)."""
from __future__ import annotations

import torch
import torch.nn as nn
from jaxtyping import Float, Int
from torch import Tensor


class GRUPolicy(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(obs_dim, hidden_dim), nn.ELU())
        self.cell = nn.GRUCell(hidden_dim, hidden_dim)
        self.out = nn.Linear(hidden_dim, act_dim)

    def forward(
        self, obs: Float[Tensor, "B T O"], h: Float[Tensor, "B H"]
    ) -> tuple[Float[Tensor, "B T A"], Float[Tensor, "B H"]]:
        logits = []
        for t in range(obs.shape[1]):
            h = self.cell(self.embed(obs[:, t]), h)
            logits.append(self.out(h))
        return torch.stack(logits, dim=1), h
        # wrong: return torch.stack(logits), h  # WRONG


def behaviour_cloning_loss(
    logits: Float[Tensor, "B T A"], actions: Int[Tensor, "B T"]
) -> Float[Tensor, ""]:
    flat = logits.reshape(-1, logits.shape[-1])
    return nn.functional.cross_entropy(flat, actions.reshape(-1))


def main() -> None:
    torch.manual_seed(0)
    B, T, O, A, H = 6, 9, 5, 4, 24
    policy = GRUPolicy(O, A, H)
    logits, h = policy(torch.randn(B, T, O), torch.zeros(B, H))
    actions = torch.randint(0, A, (B, T))
    loss = behaviour_cloning_loss(logits, actions)
    loss.backward()
    print("bc loss", loss.item(), "final state", tuple(h.shape))


if __name__ == "__main__":
    main()
