"""Networks of torch's layers, as people write them."""

import copy

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Actor(nn.Module):
    def __init__(self, n_obs: int, n_act: int, hidden: int = 64) -> None:
        super().__init__()
        self.hidden = hidden
        self.body = nn.Sequential(nn.Linear(n_obs, hidden), nn.Tanh(), nn.LayerNorm(hidden), nn.Linear(hidden, 32))
        self.mean = nn.Linear(32, n_act)
        self.value = nn.Linear(32, 1)

    def forward(self, obs: Float[Tensor, "N O"]) -> tuple[Tensor, Float[Tensor, "N"]]:
        h = torch.relu(self.body(obs))
        return self.mean(h), self.value(h).squeeze(-1)


class Pixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(64 * 9 * 9, 6)

    def forward(self, frames: Float[Tensor, "N 4 84 84"]) -> Float[Tensor, "N 6"]:
        return self.head(self.conv(frames / 255))


class Memory(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.lstm = nn.LSTM(16, width, batch_first=True)
        self.cell = nn.GRUCell(width, width)
        self.replaced = nn.Linear(3, 3)
        self.replaced = nn.Linear(width, 2)

    def forward(self, tokens: Int[Tensor, "N R"]) -> Tensor:
        outputs, (h, _) = self.lstm(self.embed(tokens))
        state = self.cell(outputs[:, -1], h[0])
        return self.replaced(state)


def train(actor: Actor, obs: Float[Tensor, "N O"], returns: Float[Tensor, "N"]) -> Tensor:
    target = copy.deepcopy(actor)
    mean, value = actor(obs)
    losses = []
    for _ in range(3):
        losses.append((value - returns).square().mean())
    masked = mean.masked_fill(mean > 0, float("-inf"))
    return torch.stack(losses).mean() + target(obs)[1].mean() + masked.clamp(min=-1.0).mean()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    loss = train(Actor(5, 2), torch.as_tensor(rng.normal(size=(7, 5)), dtype=torch.float32), torch.zeros(7))
    print(float(loss.detach()), Pixels()(torch.zeros(2, 4, 84, 84)).shape, Memory()(torch.zeros(2, 3, dtype=torch.int64)).shape)
