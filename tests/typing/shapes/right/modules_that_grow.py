"""Containers of layers to which others are added after they are made."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 64)])
        self.body = nn.Sequential(nn.Linear(4, 64))
        self.body.append(nn.Linear(64, 1))
        for _ in range(depth):
            self.blocks.append(nn.Linear(64, 64))
        self.head = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(5, 4)
        for block in self.blocks:
            h = block(h)
        return self.head(self.body(torch.zeros(5, 4))) + nn.Linear(1, 1)(self.body(x)) + h.mean()


def main() -> None:
    print(Net(2)(torch.rand(5, 4)).shape)


if __name__ == "__main__":
    main()
