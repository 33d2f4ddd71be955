"""Nature-CNN encoder for stacked 84x84 Atari frames, plus a small policy head."""
from __future__ import annotations

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn


class NatureCNN(nn.Module):
    """Three strided convolutions: 84 -> 20 -> 9 -> 7."""

    def __init__(self, in_channels: int = 4, features: int = 512):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(in_channels, 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1),
            # wrong: nn.Conv2d(64, 64, kernel_size=3, stride=1, padding=1),  # WRONG
            nn.ReLU(),
            nn.Flatten(),
        )
        self.fc = nn.Linear(64 * 7 * 7, features)

    def forward(self, frames: UInt8[Tensor, "B 4 84 84"]) -> Float[Tensor, "B 512"]:
        x = frames.float() / 255.0
        return torch.relu(self.fc(self.conv(x)))
        # wrong: return torch.relu(self.fc(self.conv(x)))  # WRONG


class AtariPolicy(nn.Module):
    def __init__(self, n_actions: int):
        super().__init__()
        self.encoder = NatureCNN()
        self.pi = nn.Linear(512, n_actions)

    def forward(self, frames: UInt8[Tensor, "B 4 84 84"]) -> Float[Tensor, "B A"]:
        return self.pi(self.encoder(frames)).log_softmax(dim=-1)


def main() -> None:
    torch.manual_seed(0)
    policy = AtariPolicy(n_actions=6)
    frames = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    logits = policy(frames)
    action = torch.distributions.Categorical(logits=logits).sample()
    print("actions", action.tolist())


if __name__ == "__main__":
    main()
