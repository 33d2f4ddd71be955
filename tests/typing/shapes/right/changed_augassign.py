"""A program that is right, of which something else than its first lines decides what fits: augassign."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, dim: int, bidirectional: bool = True) -> None:
        super().__init__()
        self.rnn = nn.GRU(dim, dim, bidirectional=bidirectional, batch_first=True)
        self.dim = dim
        if bidirectional:
            self.dim *= 2
        self.head = nn.Linear(self.dim, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)
        return self.head(y)


print(Net(4)(torch.zeros(2, 5, 4)).shape)
