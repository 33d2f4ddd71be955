"""A program that is right, of which something else than its first lines decides what fits: shift."""

import torch


def main(n: int) -> None:
    old = older = oldest = torch.zeros(1, 4)
    for i in range(n):
        oldest, older, old = older, old, torch.zeros(1, 8)
        if i > 4:
            print((oldest + torch.zeros(1, 8)).shape)


main(10)
