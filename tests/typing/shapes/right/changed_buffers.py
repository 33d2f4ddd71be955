"""A program that is right, of which something else than its first lines decides what fits: buffers."""

import torch
from torch import nn


class Buf(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.register_buffer("pos", torch.zeros(n))

    def resize(self, n):
        self.register_buffer("pos", torch.zeros(n))

    def forward(self, x):
        return x + self.pos


b = Buf()
b.resize(6)
print(b(torch.zeros(6)).shape)
