import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.rnn = nn.GRU(cfg.dim, cfg.dim, batch_first=True)
        self.head = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, ids):
        out, _ = self.rnn(self.emb(ids))
        return self.head(out)
