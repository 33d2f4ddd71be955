"""SimCLR: shared encoder, projection head and the NT-Xent loss."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


class SimCLR(nn.Module):
    def __init__(self, encoder: nn.Module, feat_dim: int, proj_dim: int = 16) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = nn.Sequential(
            nn.Linear(feat_dim, feat_dim), nn.ReLU(), nn.Linear(feat_dim, proj_dim)
        )

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B P"]:
        return F.normalize(self.projector(self.encoder(x)), dim=-1)


def nt_xent(
    z1: Float[Tensor, "B P"], z2: Float[Tensor, "B P"], temperature: float = 0.5
) -> Float[Tensor, ""]:
    n = z1.shape[0]
    z = torch.cat([z1, z2], dim=0)
    # wrong: z = torch.cat([z1, z2], dim=-1)  # WRONG
    sim = z @ z.t() / temperature
    self_mask = torch.eye(2 * n, dtype=torch.bool)
    sim = sim.masked_fill(self_mask, float("-inf"))
    # wrong: sim = sim.masked_fill(self_mask, float("-inf"))  # WRONG
    positives = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, positives)


def augment(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    return x.flip(-1) + 0.1 * torch.randn_like(x)


def main() -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )
    model = SimCLR(encoder, feat_dim=8 * 2 * 2)
    images = torch.rand(5, 3, 16, 16)
    loss = nt_xent(model(augment(images)), model(augment(images)))
    loss.backward()
    print("nt-xent", loss.item())


if __name__ == "__main__":
    main()
