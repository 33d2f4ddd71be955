"""A program that is right, of which something else than its first lines decides what fits: selfforward."""

import torch
from torch import nn


class Choose(nn.Module):
    def __init__(self, flat=False):
        super().__init__()
        self.lin = nn.Linear(12, 3)
        if flat:
            self.forward = self.forward_flat

    def forward(self, x):
        return self.lin(x)

    def forward_flat(self, x):
        return self.lin(x.flatten(1))


print(Choose(True)(torch.zeros(2, 3, 4)).shape)
