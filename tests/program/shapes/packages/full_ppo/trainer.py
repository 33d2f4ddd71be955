import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical

from config import Config
from data import Rollout
from networks import ActorCritic

class Trainer:
    def __init__(self, cfg: Config, net: ActorCritic) -> None:
        self.cfg = cfg
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=1e-3)

    def loss(self, batch: Rollout) -> Float[Tensor, ""]:
        logits, value = self.net(batch.obs)
        logp = Categorical(logits=logits).log_prob(batch.act)
        ratio = (logp - batch.logp_old).exp()
        clipped = ratio.clamp(1 - self.cfg.clip, 1 + self.cfg.clip)
        policy = -torch.min(ratio * batch.adv, clipped * batch.adv).mean()
        critic = (value.squeeze(-1) - batch.ret).pow(2).mean()
        # wrong: critic = (value - batch.ret).pow(2).mean()  # WRONG: (N, 1) against (N,)
        return policy + 0.5 * critic

    def step(self, batch: Rollout) -> float:
        loss = self.loss(batch)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()
