"""CLIP: image and text towers with a symmetric InfoNCE loss."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class ImageTower(nn.Module):
    def __init__(self, out_dim: int):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.proj = nn.Linear(32, out_dim)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        return self.proj(self.conv(images).flatten(1))


class TextTower(nn.Module):
    def __init__(self, vocab: int, width: int, out_dim: int):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.proj = nn.Linear(width, out_dim)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        return self.proj(self.tok(ids).mean(dim=1))


class CLIP(nn.Module):
    def __init__(self, vocab: int = 64, embed_dim: int = 20):
        super().__init__()
        self.visual = ImageTower(embed_dim)
        self.text = TextTower(vocab, 24, embed_dim)
        self.logit_scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, images: Float[Tensor, "B 3 H W"], ids: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        img = F.normalize(self.visual(images), dim=-1)
        txt = F.normalize(self.text(ids), dim=-1)
        logits = self.logit_scale.exp() * img @ txt.T
        # wrong: logits = self.logit_scale.exp() * img.T @ txt  # WRONG
        labels = torch.arange(images.shape[0])
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def main() -> None:
    torch.manual_seed(0)
    model = CLIP()
    loss = model(torch.randn(6, 3, 16, 16), torch.randint(0, 64, (6, 9)))
    # wrong: loss = model(torch.randn(6, 3, 16, 16), torch.randint(0, 64, (6, 9)))  # WRONG
    loss.backward()
    print("clip loss", loss.item())


if __name__ == "__main__":
    main()
