"""A tiny causal transformer, called as those of the transformers library are."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from tool import VOCABULARY

WIDTH, HEADS, LAYERS, LONGEST = 32, 4, 2, 16


class Block(nn.Module):
    """Attention, and a layer for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.heads, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.each = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        query, key, value = self.heads(self.norm(x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        x = x + self.mix(scaled_dot_product_attention(query, key, value, attn_mask=allowed).transpose(1, 2).flatten(2))
        out: Tensor = x + self.each(x)
        return out


class Model(nn.Module):
    """A causal transformer. It takes padded rows or, without an attention mask, sequences end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        nn.init.normal_(self.token.weight, std=0.2)  # which also gives the logits: a new model is unsure
        nn.init.normal_(self.place.weight, std=0.2)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.version: Tensor
        self.register_buffer("version", torch.tensor(1))  # the step that the weights are for; it goes where they go

    def forward(
        self,
        *,
        input_ids: Int[Tensor, "N T"],
        attention_mask: Int[Tensor, "N T"] | None,
        position_ids: Int[Tensor, "N T"],
        use_cache: bool = False,
    ) -> Float[Tensor, "N T V"]:
        """Return the logits of the token after each token. ``use_cache`` has no effect."""
        allowed = attention(attention_mask, position_ids)
        x = self.token(input_ids) + self.place(position_ids)
        for block in self.blocks:
            x = block(x, allowed[:, None])
        return linear(self.norm(x), self.token.weight)


def attention(attention_mask: Tensor | None, position_ids: Tensor) -> Bool[Tensor, "N T T"]:
    """Return which tokens each token attends to: itself and those before it in its sequence."""
    size = position_ids.shape[1]
    before = torch.ones(size, size, dtype=torch.bool).tril()
    if attention_mask is not None:
        return (before & attention_mask[:, None].bool()) | torch.eye(size, dtype=torch.bool)
    sequence = (position_ids == 0).cumsum(1)  # Positions begin at 0 with each sequence.
    return before & (sequence[:, :, None] == sequence[:, None])
