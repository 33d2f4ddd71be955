"""ViT: patch embedding, class token, learned positions, encoder, classifier."""
from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class PatchEmbed(nn.Module):
    def __init__(self, img_size: int, patch_size: int, in_chans: int, embed_dim: int):
        super().__init__()
        self.num_patches = (img_size // patch_size) ** 2
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        return self.proj(x).flatten(2).transpose(1, 2)


class ViT(nn.Module):
    def __init__(
        self,
        img_size: int = 32,
        patch_size: int = 8,
        embed_dim: int = 48,
        depth: int = 2,
        num_heads: int = 4,
        num_classes: int = 10,
    ):
        super().__init__()
        self.patch_embed = PatchEmbed(img_size, patch_size, 3, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        n_tokens = self.patch_embed.num_patches + 1
        # wrong: n_tokens = self.patch_embed.num_patches  # WRONG
        self.pos_embed = nn.Parameter(torch.randn(1, n_tokens, embed_dim) * 0.02)
        layer = nn.TransformerEncoderLayer(embed_dim, num_heads, 4 * embed_dim, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(embed_dim, num_classes)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        tokens = self.patch_embed(x)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        tokens = torch.cat([cls, tokens], dim=1) + self.pos_embed
        return self.head(self.encoder(tokens)[:, 0])


def main() -> None:
    torch.manual_seed(0)
    model = ViT()
    logits = model(torch.randn(2, 3, 32, 32))
    # wrong: logits = model(torch.randn(2, 3, 32, 32))  # WRONG
    print("classes", logits.argmax(-1).tolist())


if __name__ == "__main__":
    main()
