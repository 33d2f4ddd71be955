"""A program that is right, of which something else than its first lines decides what fits: patch."""

import torch
from unittest import mock
from torch import nn


class Mk(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = nn.Linear(4, 2)

    def embed(self, x):
        return self.lm(x)

    def forward(self, x):
        return self.embed(x)


with mock.patch.object(Mk, "embed", lambda self, x: x):
    print((Mk()(torch.zeros(3, 9)) + torch.zeros(9)).shape)
p = Mk()
p.forward = lambda x: x
print((p(torch.zeros(2, 9)) + torch.zeros(2, 9)).shape)
