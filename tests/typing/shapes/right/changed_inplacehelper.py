"""A program that is right, of which something else than its first lines decides what fits: inplacehelper."""

import torch


def prep(x: torch.Tensor) -> None:
    x.unsqueeze_(0)


def main() -> None:
    x = torch.zeros(3)
    prep(x)
    print(torch.cat([x, torch.zeros(1, 3)]).shape)


main()
