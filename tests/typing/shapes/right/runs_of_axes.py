"""Functions for any number of leading axes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class Actor(nn.Module):
    def __init__(self, obs: int, act: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, 16), nn.ReLU())
        self.head = nn.Linear(16, act)
        self.value = nn.Linear(16, 1)

    def forward(self, x: Float[Tensor, "*b obs"]) -> tuple[Float[Tensor, "*b act"], Float[Tensor, "*b"]]:
        hidden = self.trunk(x)
        return self.head(hidden), self.value(hidden).squeeze(-1)


def logp_of(logits: Float[Tensor, "*b act"], act: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    return F.log_softmax(logits, -1).gather(-1, act[..., None]).squeeze(-1)


def entropy(logits: Float[Tensor, "... act"]) -> Float[Tensor, "..."]:
    logp = logits.log_softmax(dim=-1)
    return -(logp.exp() * logp).sum(-1)


def normalized(x: Float[Tensor, "*b d"], mean: Float[Tensor, "d"], std: Float[Tensor, "d"]) -> Float[Tensor, "*b d"]:
    return ((x - mean) / std).clamp(-5, 5)


def attention(
    q: Float[Tensor, "*b q d"], k: Float[Tensor, "*b k d"], v: Float[Tensor, "*b k e"]
) -> Float[Tensor, "*b q e"]:
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v


def flat(x: Float[Tensor, "*b d"]) -> Float[Tensor, "n d"]:
    return x.reshape(-1, x.shape[-1])


def batched(x: Float[Tensor, "*b"]) -> Float[Tensor, "*c"]:
    return x[None] if x.ndim == 0 else x


def swapped(x: Float[Tensor, "T B *d"]) -> Float[Tensor, "B T *d"]:
    return x.transpose(0, 1)


def main() -> None:
    actor = Actor(4, 3)
    for shape in ((5,), (6, 2), ()):
        logits, value = actor(torch.rand(*shape, 4))
        loss = logp_of(logits, torch.zeros(shape, dtype=torch.long)) + value + entropy(logits)
        print(loss.mean(), flat(normalized(torch.rand(*shape, 4), torch.zeros(4), torch.ones(4))).shape, batched(value))
    print(attention(torch.rand(2, 3, 4), torch.rand(2, 5, 4), torch.rand(2, 5, 6)).shape, swapped(torch.rand(3, 2)).shape)


if __name__ == "__main__":
    main()
