"""PointNet classifier with an input transform (T-Net) and global max pooling."""
from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


def shared_mlp(*dims: int) -> nn.Sequential:
    mods = []
    for i, o in zip(dims, dims[1:]):
        mods.extend([nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU()])
    return nn.Sequential(*mods)


class TNet(nn.Module):
    def __init__(self, k: int = 3):
        super().__init__()
        self.k = k
        self.feat = shared_mlp(k, 32, 64)
        self.fc = nn.Linear(64, k * k)

    def forward(self, pts: Float[Tensor, "B 3 P"]) -> Float[Tensor, "B 3 3"]:
        pooled = self.feat(pts).amax(dim=-1)
        mat = self.fc(pooled).view(-1, self.k, self.k)
        return mat + torch.eye(self.k)


class PointNet(nn.Module):
    def __init__(self, n_classes: int = 10):
        super().__init__()
        self.tnet = TNet(3)
        self.feat = shared_mlp(3, 64, 128)
        self.cls = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, n_classes))

    def forward(self, cloud: Float[Tensor, "B P 3"]) -> Float[Tensor, "B K"]:
        pts = cloud.transpose(1, 2)
        pts = torch.bmm(self.tnet(pts), pts)
        # wrong: pts = torch.bmm(pts, self.tnet(pts))  # WRONG
        return self.cls(self.feat(pts).amax(dim=2))


def main() -> None:
    torch.manual_seed(0)
    net = PointNet()
    cloud = torch.randn(4, 128, 3)
    logits = net(cloud)
    # wrong: logits = net(cloud)  # WRONG
    labels = torch.randint(0, 10, (4,))
    print("ce", nn.functional.cross_entropy(logits, labels).item())


if __name__ == "__main__":
    main()
