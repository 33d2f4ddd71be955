import torch
from jaxtyping import Float
from torch import Tensor
from typedbatch import BatchRecord

from config import WorldConfig
from heads import RewardHead
from rssm import RSSM

class Sequence(BatchRecord):
    embed: Float[Tensor, "T B E"]
    act: Float[Tensor, "T B A"]
    rew: Float[Tensor, "T B"]

class WorldTrainer:
    def __init__(self, cfg: WorldConfig):
        self.rssm = RSSM(cfg)
        self.reward = RewardHead(cfg)

    def loss(self, seq: Sequence):
        feat = self.rssm.observe(seq.embed, seq.act)
        return (self.reward(feat) - seq.rew).pow(2).mean()
