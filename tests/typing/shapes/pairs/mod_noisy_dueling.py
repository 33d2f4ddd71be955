"""Dueling Q network with noisy linear layers."""
from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def scaled_noise(n: int) -> Float[Tensor, "n"]:
    x = torch.randn(n)
    return x.sign() * x.abs().sqrt()


class NoisyLinear(nn.Module):
    def __init__(self, in_features: int, out_features: int, sigma: float = 0.5):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features)
        self.w_mu = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.w_sigma = nn.Parameter(torch.full((out_features, in_features), sigma * bound))
        self.b_mu = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.b_sigma = nn.Parameter(torch.full((out_features,), sigma * bound))

    def forward(self, x: Tensor) -> Tensor:
        eps_in, eps_out = scaled_noise(self.in_features), scaled_noise(self.out_features)
        weight = self.w_mu + self.w_sigma * torch.outer(eps_out, eps_in)
        # wrong: weight = self.w_mu + self.w_sigma * torch.outer(eps_in, eps_out)  # WRONG
        return F.linear(x, weight, self.b_mu + self.b_sigma * eps_out)


class DuelingQ(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, width: int = 64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU())
        self.value = NoisyLinear(width, 1)
        self.advantage = NoisyLinear(width, n_actions)

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A"]:
        h = self.body(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


def main() -> None:
    torch.manual_seed(0)
    net = DuelingQ(obs_dim=8, n_actions=5)
    q = net(torch.randn(10, 8))
    # wrong: q = net(torch.randn(10, 8))  # WRONG
    print("greedy", q.argmax(dim=-1).tolist())


if __name__ == "__main__":
    main()
