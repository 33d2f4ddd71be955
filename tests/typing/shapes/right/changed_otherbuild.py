"""A program that is right, of which something else than its first lines decides what fits: otherbuild."""

import torch
from torch import nn


def build(m):
    m.size = 6


class W3(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 4
        build(self)
        self.q = nn.Linear(self.size, 3)

    def forward(self, x):
        return self.q(x)


print(W3()(torch.zeros(3, 6)).shape)
