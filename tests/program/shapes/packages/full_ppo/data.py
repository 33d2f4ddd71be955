import torch
from jaxtyping import Float, Int
from torch import Tensor
from typedbatch import BatchRecord

from config import Config

class Rollout(BatchRecord):
    obs: Float[Tensor, "N D"]
    act: Int[Tensor, "N"]
    adv: Float[Tensor, "N"]
    ret: Float[Tensor, "N"]
    logp_old: Float[Tensor, "N"]

def collect(cfg: Config) -> Rollout:
    n = cfg.steps
    return Rollout(
        obs=torch.randn(n, cfg.obs_dim),
        act=torch.randint(0, cfg.n_act, (n,)),
        adv=torch.randn(n),
        ret=torch.randn(n),
        logp_old=torch.randn(n),
    )
