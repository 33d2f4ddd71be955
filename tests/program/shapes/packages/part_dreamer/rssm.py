import torch
from jaxtyping import Float
from torch import Tensor, nn

from config import WorldConfig

class RSSM(nn.Module):
    def __init__(self, cfg: WorldConfig):
        super().__init__()
        self.cfg = cfg
        self.inp = nn.Linear(cfg.stoch + cfg.act_dim, cfg.deter)
        self.cell = nn.GRUCell(cfg.deter, cfg.deter)
        self.prior = nn.Linear(cfg.deter, 2 * cfg.stoch)
        self.post = nn.Linear(cfg.deter + cfg.embed, 2 * cfg.stoch)

    def step(self, deter, stoch, act):
        x = torch.cat([stoch, act], -1)
        deter = self.cell(self.inp(x).relu(), deter)
        return deter, self.prior(deter)

    def observe(self, embed: Float[Tensor, "T B E"], act: Float[Tensor, "T B A"]):
        deter = torch.zeros(embed.shape[1], self.cfg.deter)
        stoch = torch.zeros(embed.shape[1], self.cfg.stoch)
        feats = []
        for t in range(embed.shape[0]):
            deter, _ = self.step(deter, stoch, act[t])
            stats = self.post(torch.cat([deter, embed[t]], -1))
            mean, std = stats.chunk(2, -1)
            stoch = mean + torch.randn_like(mean) * std.exp()
            feats.append(torch.cat([deter, stoch], -1))
        return torch.stack(feats)
