"""A program that is right, of which something else than its first lines decides what fits: call."""

import torch
from torch import nn


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 3)

    def __call__(self, x):
        return super().__call__(x.flatten(1))

    def forward(self, x):
        return self.fc(x)


print(Flat()(torch.zeros(2, 3, 4)).shape)
