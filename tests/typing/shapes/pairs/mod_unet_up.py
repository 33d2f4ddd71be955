"""One-level diffusion U-Net with time conditioning and a DDPM noise loss."""
from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def timestep_embedding(t: Int[Tensor, "B"], dim: int) -> Float[Tensor, "B E"]:
    half = dim // 2
    freqs = torch.exp(-math.log(10_000) * torch.arange(half) / half)
    args = t.float()[:, None] * freqs[None, :]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, in_ch: int, out_ch: int, emb_dim: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_ch, out_ch, 3, padding=1)
        self.emb = nn.Linear(emb_dim, out_ch)
        self.conv2 = nn.Conv2d(out_ch, out_ch, 3, padding=1)
        self.skip = nn.Conv2d(in_ch, out_ch, 1) if in_ch != out_ch else nn.Identity()

    def forward(self, x: Float[Tensor, "B C H W"], emb: Float[Tensor, "B E"]):
        h = F.silu(self.conv1(x)) + self.emb(emb)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(h))


class UNet(nn.Module):
    def __init__(self, channels: int = 3, base: int = 16, emb_dim: int = 32):
        super().__init__()
        self.emb_dim = emb_dim
        self.enc = ResBlock(channels, base, emb_dim)
        self.down = nn.Conv2d(base, 2 * base, 4, stride=2, padding=1)
        self.mid = ResBlock(2 * base, 2 * base, emb_dim)
        self.up = nn.ConvTranspose2d(2 * base, base, 4, stride=2, padding=1)
        # wrong: self.up = nn.ConvTranspose2d(2 * base, base, 3, stride=2, padding=1)  # WRONG
        self.dec = ResBlock(2 * base, base, emb_dim)
        self.out = nn.Conv2d(base, channels, 1)

    def forward(self, x: Float[Tensor, "B 3 32 32"], t: Int[Tensor, "B"]) -> Float[Tensor, "B 3 32 32"]:
        emb = timestep_embedding(t, self.emb_dim)
        skip = self.enc(x, emb)
        h = self.mid(self.down(skip), emb)
        h = torch.cat([self.up(h), skip], dim=1)
        return self.out(self.dec(h, emb))


def main() -> None:
    torch.manual_seed(0)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), dim=0)
    x0, noise = torch.randn(2, 2, 3, 32, 32).unbind(0)
    t = torch.randint(0, 100, (2,))
    a = alpha_bar[t].view(-1, 1, 1, 1)
    pred = UNet()(a.sqrt() * x0 + (1 - a).sqrt() * noise, t)
    # wrong: pred = UNet()(a.sqrt() * x0 + (1 - a).sqrt() * noise, t)  # WRONG
    print("loss", F.mse_loss(pred, noise).item())


if __name__ == "__main__":
    main()
