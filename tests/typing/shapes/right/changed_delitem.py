"""A program that is right, of which something else than its first lines decides what fits: delitem."""

import torch
from torch import nn


class C(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)


c = C()
del c.net[-1]
print((c(torch.zeros(3, 4)) + torch.zeros(8)).shape)
d = C()
seq = d.net
seq[2] = nn.Linear(8, 5)
