import torch

from config import Config
from data import collect
from networks import build_net
from trainer import Trainer

def main() -> None:
    torch.manual_seed(0)
    cfg = Config()
    trainer = Trainer(cfg, build_net(cfg))
    for _ in range(2):
        print(trainer.step(collect(cfg)))

if __name__ == "__main__":
    main()
