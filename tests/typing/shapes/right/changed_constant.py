"""A program that is right, of which something else than its first lines decides what fits: constant."""

import torch

VOCAB = 10
VOCAB += 2  # special tokens


def f():
    return torch.zeros(VOCAB) + torch.zeros(12)


print(f().shape)
