"""A policy with a value head, and a reward model."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PolicyWithValue(nn.Module):
    def __init__(self, vocab: int, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.lm_head, self.v_head = nn.Linear(width, vocab), nn.Linear(width, 1)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        hidden, _ = self.rnn(self.embed(ids))
        return self.lm_head(hidden), self.v_head(hidden).squeeze(-1)

    @torch.no_grad()
    def generate(self, prompts: Tensor, n_new: int) -> Tensor:
        ids = prompts
        for _ in range(n_new):
            logits, _ = self(ids)
            ids = torch.cat([ids, torch.multinomial(torch.softmax(logits[:, -1], -1), 1)], 1)
        return ids


class RewardModel(nn.Module):
    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.score = nn.Embedding(vocab, 1)

    @torch.no_grad()
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        scores: Tensor = self.score(ids).squeeze(-1)
        return (scores * mask).sum(-1) / mask.sum(-1)
