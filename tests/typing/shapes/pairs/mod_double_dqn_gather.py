"""Double DQN update on a replay batch."""
from __future__ import annotations

import copy
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


class Batch(NamedTuple):
    obs: Float[Tensor, "B O"]
    action: Int[Tensor, "B"]
    reward: Float[Tensor, "B"]
    next_obs: Float[Tensor, "B O"]
    done: Float[Tensor, "B"]


class QNetwork(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_dim, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, n_actions),
        )

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A"]:
        return self.net(obs)


def td_loss(q: QNetwork, target: QNetwork, batch: Batch, gamma: float = 0.99) -> Float[Tensor, ""]:
    q_taken = q(batch.obs).gather(1, batch.action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = q(batch.next_obs).argmax(dim=1, keepdim=True)
        next_q = target(batch.next_obs).gather(1, best).squeeze(1)
        # wrong: next_q = target(batch.next_obs).gather(1, best)  # WRONG
        y = batch.reward + gamma * (1.0 - batch.done) * next_q
        # wrong: y = batch.reward + gamma * (1.0 - batch.done) * next_q  # WRONG
    return (q_taken - y).pow(2).mean()


def main() -> None:
    torch.manual_seed(0)
    B, O, A = 32, 4, 2
    q = QNetwork(O, A)
    target = copy.deepcopy(q)
    batch = Batch(
        torch.randn(B, O),
        torch.randint(0, A, (B,)),
        torch.randn(B),
        torch.randn(B, O),
        (torch.rand(B) < 0.1).float(),
    )
    opt = torch.optim.Adam(q.parameters(), lr=2.5e-4)
    loss = td_loss(q, target, batch)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("td loss", loss.item())


if __name__ == "__main__":
    main()
