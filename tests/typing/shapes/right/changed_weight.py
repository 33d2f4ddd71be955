"""A program that is right, of which something else than its first lines decides what fits: weight."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 2)

    def prune(self, keep):
        self.a.weight.data = self.a.weight.data[keep]
        self.a.bias.data = self.a.bias.data[keep]
        self.b.weight.data = self.b.weight.data[:, keep]

    def forward(self, x):
        h = self.a(x)
        return h * torch.ones(5), self.b(h)


p = Net()
p.prune(torch.arange(5))
p(torch.zeros(2, 4))


def grow(emb: nn.Embedding) -> None:
    emb.weight = nn.Parameter(torch.cat([emb.weight, torch.zeros(2, 4)]))


def main() -> None:
    e = nn.Embedding(10, 4)
    e.weight = nn.Parameter(torch.cat([e.weight, torch.zeros(2, 4)]))
    print((e.weight + torch.zeros(12, 4)).shape)


main()
