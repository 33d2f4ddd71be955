import torch
from jaxtyping import Float
from torch import Tensor, nn


class Pixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.Flatten())
        self.head = nn.Linear(3136, 6)

    def forward(self, frames: Float[Tensor, "N 4 84 84"]) -> Float[Tensor, "N 6"]:
        return self.head(self.conv(frames))  # WRONG: 5184 of them


def main() -> None:
    print(Pixels()(torch.zeros(2, 4, 84, 84)))


if __name__ == "__main__":
    main()
