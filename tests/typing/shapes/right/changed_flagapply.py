"""A program that is right, of which something else than its first lines decides what fits: flagapply."""

import torch
from torch import nn


class S(nn.Module):
    def __init__(self):
        super().__init__()
        self.flag = False
        self.l = nn.Linear(4, 4)
        self.two = nn.Linear(4, 2)

    def forward(self, x):
        return self.two(x) if self.flag else self.l(x)


b = S()
b.apply(lambda m: setattr(m, "flag", True))
print((b(torch.zeros(1, 4)) + torch.zeros(2)).shape)
