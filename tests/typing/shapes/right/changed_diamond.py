"""A program that is right, of which something else than its first lines decides what fits: diamond."""

import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(x)


class A(Base):
    def __init__(self):
        super().__init__()
        self.extra = nn.Linear(4, 4)


class B(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 16)


class D(A, B):
    pass


print((D()(torch.zeros(2, 8)) + torch.zeros(2, 16)).shape)
