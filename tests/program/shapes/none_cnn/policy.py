from torch import nn
from torch.distributions import Categorical

from encoder import Encoder


class Policy(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.head = nn.Linear(cfg.features, cfg.n_act)

    def forward(self, img):
        return Categorical(logits=self.head(self.encoder(img).relu()))
