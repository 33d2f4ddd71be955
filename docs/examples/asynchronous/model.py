"""A tiny causal transformer, called as those of the transformers library are: the policy, and the critic."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from game import LONGEST, VOCABULARY

WIDTH, HEADS, LAYERS = 32, 4, 2


class Transformer(nn.Module):
    """A transformer with ``outputs`` numbers behind each token. Without an attention mask, sequences are end to end."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        layers = (
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(
        self,
        *,
        input_ids: Int[Tensor, "N T"],
        attention_mask: Int[Tensor, "N T"] | None,
        position_ids: Int[Tensor, "N T"],
        use_cache: bool = False,
    ) -> Float[Tensor, "N T O"]:
        """Return the outputs behind each token. ``use_cache`` has no effect."""
        size = input_ids.shape[1]
        allowed = torch.ones(size, size, dtype=torch.bool).tril()
        if attention_mask is None:
            sequence = (position_ids == 0).cumsum(1)  # Positions begin at 0 with each sequence.
            allowed = allowed & (sequence[:, :, None] == sequence[:, None])
        else:
            allowed = (allowed & attention_mask[:, None].bool()) | torch.eye(size, dtype=torch.bool)
        hidden = self.token(input_ids) + self.place(position_ids)
        forbidden = ~allowed.repeat_interleave(HEADS, 0)
        for layer in self.layers:
            hidden = layer(hidden, src_mask=forbidden)
        out: Tensor = self.head(hidden)
        return out


def make_policy() -> Transformer:
    """Return a policy, which is unsure of the next token."""
    policy = Transformer(VOCABULARY)
    nn.init.zeros_(policy.head.weight)
    return policy


def make_critic() -> Transformer:
    """Return a critic."""
    return Transformer(1)
