import torch
from jaxtyping import Float
from torch import Tensor, nn

from config import Config

class ActorCritic(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cfg.obs_dim, cfg.hidden), nn.Tanh())
        self.policy = nn.Linear(cfg.hidden, cfg.n_act)
        self.value = nn.Linear(cfg.hidden, 1)

    def forward(self, obs: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N A"], Float[Tensor, "N 1"]]:
        h = self.body(obs)
        return self.policy(h), self.value(h)

def build_net(cfg: Config) -> ActorCritic:
    return ActorCritic(cfg)
