"""A program that is right, of which something else than its first lines decides what fits: deco."""

import torch
from torch import nn


def flat_input(cls):
    old = cls.forward
    cls.forward = lambda self, x: old(self, x.flatten(1))
    return cls


@flat_input
class Dec(nn.Module):
    def __init__(self):
        super().__init__()
        self.lc = nn.Linear(4, 2)

    def forward(self, x):
        return self.lc(x)


print(Dec()(torch.zeros(3, 2, 2)).shape)
