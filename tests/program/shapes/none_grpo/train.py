import torch

from config import Config
from model import Policy
from rollout import Sampler
from trainer import GRPO


def main():
    torch.manual_seed(0)
    cfg = Config()
    policy = Policy(cfg)
    batch = Sampler(cfg, policy).run()
    print(GRPO(cfg, policy).loss(batch).item())


if __name__ == "__main__":
    main()
