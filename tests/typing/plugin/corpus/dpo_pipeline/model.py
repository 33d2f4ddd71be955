"""A bigram model, and the log-probability of answers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpo_pipeline.data import VOCAB


class Bigram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.table(ids)
        return logits


def answer_logp(model: Bigram, ids: Tensor, mask: Tensor) -> Tensor:
    logps = torch.log_softmax(model(ids[:, :-1]), -1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return (logps * mask[:, 1:]).sum(-1)
