"""Right programs about annotations that are evaluated late, each below its name."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

# ---- runs_of_a_held_record
from dataclasses import dataclass
# Rays in bundles: a record inside a record, whose runs of axes are as long as the caller's, and one ray alone.
class Bundle:
    origins: Tensor

    @property
    def ndim(self) -> int:
        return self.origins.ndim - 1


@dataclass
class Frustums(Bundle):
    origins: Float[Tensor, "*bs 3"]
    starts: Float[Tensor, "*bs 1"]
    ends: Float[Tensor, "*bs 1"]


@dataclass
class Samples:
    frustums: Frustums
    deltas: Float[Tensor, "*bs 1"]


def along(
    weights: Float[Tensor, "*batch samples 1"], steps: Float[Tensor, "*batch samples 1"]
) -> Float[Tensor, "*batch 1"]:
    return (weights * steps).sum(-2)


def depth(weights: Float[Tensor, "*batch samples 1"], samples: Samples) -> Float[Tensor, "*batch 1"]:
    steps = (samples.frustums.starts + samples.frustums.ends) / 2
    return along(weights, steps)


def circle(frustum: Frustums, resolution: int = 5) -> Tensor:
    if frustum.ndim > 0:
        raise ValueError("one frustum alone")
    x = torch.cat([torch.ones(resolution) * frustum.starts, torch.ones(resolution) * frustum.ends])
    points = torch.stack([x, x, x], dim=-1)
    return torch.einsum("kj,ij->ki", points, torch.eye(3))


def main() -> None:
    starts, ends = torch.zeros(4, 7, 1), torch.ones(4, 7, 1)
    samples = Samples(Frustums(torch.zeros(4, 7, 3), starts, ends), ends - starts)
    assert depth(torch.ones(4, 7, 1), samples).shape == (4, 1)
    assert circle(Frustums(torch.zeros(3), torch.zeros(1), torch.ones(1))).shape == (10, 3)

# ---- runs_of_axes
from jaxtyping import Int
# Functions for any number of leading axes.
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
