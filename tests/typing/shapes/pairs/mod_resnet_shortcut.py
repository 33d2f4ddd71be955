"""Small CIFAR ResNet with a projection shortcut in downsampling blocks."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class BasicBlock(nn.Module):
    def __init__(self, in_ch: int, out_ch: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_ch, out_ch, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_ch)
        self.conv2 = nn.Conv2d(out_ch, out_ch, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_ch)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_ch != out_ch:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_ch, out_ch, 1, stride=stride, bias=False),
                # wrong: nn.Conv2d(in_ch, out_ch, 1, bias=False),  # WRONG
                nn.BatchNorm2d(out_ch),
            )

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, n_classes: int = 10, width: int = 16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.layers = nn.Sequential(
            BasicBlock(width, width),
            BasicBlock(width, 2 * width, stride=2),
            BasicBlock(2 * width, 4 * width, stride=2),
        )
        self.fc = nn.Linear(4 * width, n_classes)

    def forward(self, images: Float[Tensor, "B 3 32 32"]) -> Float[Tensor, "B K"]:
        feats = self.layers(self.stem(images))
        return self.fc(feats.mean(dim=(2, 3)))


def main() -> None:
    torch.manual_seed(0)
    net = ResNet()
    logits = net(torch.randn(4, 3, 32, 32))
    # wrong: logits = net(torch.randn(4, 3, 32, 32))  # WRONG
    loss = F.cross_entropy(logits, torch.randint(0, 10, (4,)))
    loss.backward()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
