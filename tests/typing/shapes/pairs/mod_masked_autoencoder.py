"""Masked autoencoder on image patches: random masking, encode, restore, decode."""
from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn


def patchify(images: Float[Tensor, "B 3 H W"], p: int) -> Float[Tensor, "B T P"]:
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p, p2=p)


def random_masking(
    x: Float[Tensor, "B T D"], ratio: float
) -> tuple[Float[Tensor, "B K D"], Float[Tensor, "B T"], Int[Tensor, "B T"]]:
    B, T, D = x.shape
    keep = int(T * (1 - ratio))
    shuffle = torch.rand(B, T).argsort(dim=1)
    restore = shuffle.argsort(dim=1)
    kept = x.gather(1, shuffle[:, :keep, None].expand(-1, -1, D))
    mask = torch.ones(B, T)
    mask[:, :keep] = 0
    return kept, mask.gather(1, restore), restore


class MAE(nn.Module):
    def __init__(self, patch: int = 4, n_patches: int = 48, dim: int = 32):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.pos = nn.Parameter(torch.randn(1, n_patches, dim) * 0.02)
        self.encoder = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.decoder = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pred = nn.Linear(dim, 3 * patch * patch)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, ""]:
        target = patchify(images, self.patch)
        kept, mask, restore = random_masking(self.embed(target) + self.pos, 0.75)
        z = self.encoder(kept)
        B, T = mask.shape
        fill = self.mask_token.expand(B, T - z.shape[1], -1)
        full = torch.cat([z, fill], dim=1)
        full = full.gather(1, restore[:, :, None].expand(-1, -1, full.shape[-1]))
        pred = self.pred(self.decoder(full + self.pos))
        per_patch = (pred - target).pow(2).mean(dim=-1)
        # wrong: per_patch = (pred - target).pow(2).mean(dim=1)  # WRONG
        return (per_patch * mask).sum() / mask.sum()


def main() -> None:
    torch.manual_seed(0)
    mae = MAE(patch=4, n_patches=48)
    loss = mae(torch.randn(2, 3, 24, 32))
    loss.backward()
    print("mae loss", loss.item())


if __name__ == "__main__":
    main()
