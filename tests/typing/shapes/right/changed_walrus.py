"""A program that is right, of which something else than its first lines decides what fits: walrus."""

import torch


def main() -> None:
    k = 2
    [k := k + 1 for _ in range(3)]
    print((torch.zeros(k) + torch.zeros(5)).shape)


main()
