"""A program that is right, of which something else than its first lines decides what fits: noiter."""

import torch
import torch.nn.functional as F


def down(x, levels=0):
    for _ in range(levels):
        x = F.max_pool2d(x, 2)
    return x


print(down(torch.zeros(1, 3, 1, 1)).shape)


def diffs(x):
    out = []
    for i in range(1, x.shape[0]):
        out.append(x[1] - x[0])
    return out


print(len(diffs(torch.zeros(1, 3))))


def pipe(x, ws=()):
    for w in ws:
        x = x @ torch.zeros(9, 9)
    return x


print(pipe(torch.zeros(2, 4)).shape)
