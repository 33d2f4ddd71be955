"""A program that is right, of which something else than its first lines decides what fits: seqlocal."""

import torch
from torch import nn


def main() -> None:
    s = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    s.append(nn.Linear(8, 5))
    print((s(torch.zeros(3, 4)) + torch.zeros(5)).shape)
    t = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    t[1] = nn.Identity()
    print((t(torch.zeros(3, 4)) + torch.zeros(8)).shape)


main()
