"""Rays in bundles: a record inside a record, whose runs of axes are as long as the caller's, and one ray alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


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


if __name__ == "__main__":
    main()
