from torch import nn

from config import WorldConfig

class RewardHead(nn.Module):
    def __init__(self, cfg: WorldConfig):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(cfg.deter + cfg.stoch, 16), nn.ELU(), nn.Linear(16, 1))
        # wrong: self.net = nn.Sequential(nn.Linear(cfg.deter + cfg.embed, 16), nn.ELU(), nn.Linear(16, 1))  # WRONG: embed

    def forward(self, feat):
        return self.net(feat).squeeze(-1)
