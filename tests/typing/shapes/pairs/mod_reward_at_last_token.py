"""Reward model: scalar score read at the last non-padded token, Bradley-Terry loss."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Backbone(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        out, _ = self.mix(self.embed(ids))
        return out


class RewardModel(nn.Module):
    def __init__(self, vocab: int = 100, dim: int = 32):
        super().__init__()
        self.backbone = Backbone(vocab, dim)
        self.head = nn.Linear(dim, 1, bias=False)

    def forward(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B"]:
        hidden = self.backbone(ids)
        last = mask.long().sum(dim=1) - 1
        rows = torch.arange(ids.shape[0], device=ids.device)
        pooled = hidden[rows, last]
        # wrong: pooled = hidden[:, last]  # WRONG
        return self.head(pooled).squeeze(-1)
        # wrong: return self.head(pooled).squeeze(-1)  # WRONG


def preference_loss(chosen: Float[Tensor, "B"], rejected: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    return -F.logsigmoid(chosen - rejected).mean()


def main() -> None:
    torch.manual_seed(0)
    model = RewardModel()
    B, T = 4, 10
    chosen, rejected = torch.randint(0, 100, (2, B, T)).unbind(0)
    lengths = torch.tensor([10, 7, 5, 8])
    mask = torch.arange(T)[None, :] < lengths[:, None]
    loss = preference_loss(model(chosen, mask), model(rejected, mask))
    loss.backward()
    print("rm loss", loss.item())


if __name__ == "__main__":
    main()
