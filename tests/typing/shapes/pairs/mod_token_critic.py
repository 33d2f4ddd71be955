"""PPO value head over token states with clipped, masked value loss."""
from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ValueHead(nn.Module):
    def __init__(self, hidden_size: int, dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.summary = nn.Linear(hidden_size, 1)

    def forward(self, hidden_states):
        x = torch.tanh(self.dense(self.dropout(hidden_states)))
        return self.summary(x)


class TokenCritic(nn.Module):
    def __init__(self, hidden_size: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size)
        self.v_head = ValueHead(hidden_size)

    def forward(self, hidden_states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        values = self.v_head(self.norm(hidden_states))
        return values.squeeze(-1)
        # wrong: return values  # WRONG


def masked_mean(x: Float[Tensor, "B T"], mask: Float[Tensor, "B T"]) -> Float[Tensor, ""]:
    return (x * mask).sum() / mask.sum().clamp(min=1.0)


def value_loss(
    values: Float[Tensor, "B T"],
    old_values: Float[Tensor, "B T"],
    returns: Float[Tensor, "B T"],
    mask: Float[Tensor, "B T"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    losses = torch.maximum((values - returns) ** 2, (clipped - returns) ** 2)
    return 0.5 * masked_mean(losses, mask)


def main() -> None:
    torch.manual_seed(0)
    B, T, D = 3, 8, 16
    critic = TokenCritic(D)
    hidden = torch.randn(B, T, D)
    mask = torch.ones(B, T)
    mask[1, 5:] = 0
    values = critic(hidden)
    loss = value_loss(values, torch.zeros(B, T), torch.randn(B, T), mask)
    loss.backward()
    print("value loss", loss.item())


if __name__ == "__main__":
    main()
