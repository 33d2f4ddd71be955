"""A program that is right, of which something else than its first lines decides what fits: pluseq."""

import torch
from torch import nn


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 8)])
        self.layers += [nn.Linear(8, 2)]

    def forward(self, x):
        return self.layers[-1](self.layers[0](x))


print(A()(torch.zeros(2, 4)).shape)
