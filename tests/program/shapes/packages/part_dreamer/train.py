import torch

from config import WorldConfig
from trainer import Sequence, WorldTrainer

def main():
    torch.manual_seed(0)
    cfg = WorldConfig()
    seq = Sequence(embed=torch.randn(5, 3, cfg.embed), act=torch.randn(5, 3, cfg.act_dim), rew=torch.randn(5, 3))
    print(WorldTrainer(cfg).loss(seq).item())

if __name__ == "__main__":
    main()
