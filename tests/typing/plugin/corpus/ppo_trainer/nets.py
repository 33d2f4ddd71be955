"""Actor and critic."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ppo_trainer import config


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        hidden = int(config.run.net.hidden)
        #! misspelt-nested: hidden = int(config.run.net.hiden)
        obs_dim, act_dim = int(config.run.net.obs_dim), int(config.run.net.act_dim)
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, act_dim)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(obs)
        return torch.log_softmax(self.pi(features), dim=-1), self.v(features).squeeze(-1)
