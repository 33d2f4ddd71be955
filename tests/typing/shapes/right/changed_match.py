"""A program that is right, of which something else than its first lines decides what fits: match."""

import torch


def h(x):
    n = 1
    match x.shape:
        case (n, d):
            pass
        case (n,):
            pass
    return torch.zeros(n, 2) + torch.zeros(6, 2)


print(h(torch.zeros(6, 3)).shape)


def g(x):
    n = 4
    match x.shape:
        case (n, d):
            pass
    return torch.zeros(n) + x[:, 0]


print(g(torch.zeros(6, 3)).shape)
