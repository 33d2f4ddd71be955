"""A program that is right, of which something else than its first lines decides what fits: hook."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 3)
        self.fc.register_forward_pre_hook(lambda m, args: (args[0].flatten(1),))

    def forward(self, x):
        return self.fc(x)


print(Net()(torch.zeros(2, 3, 4)).shape)
