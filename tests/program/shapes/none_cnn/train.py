import torch
from typedbatch import Batch

from config import Config
from policy import Policy


def make_batch(cfg, n):
    return Batch(obs=torch.rand(n, cfg.frames, cfg.size, cfg.size), act=torch.randint(0, cfg.n_act, (n,)))


def main():
    torch.manual_seed(0)
    cfg = Config()
    policy = Policy(cfg)
    batch = make_batch(cfg, 4)
    print(-policy(batch.obs).log_prob(batch.act).mean().item())


if __name__ == "__main__":
    main()
