"""Bootstrapped Double DQN: nn.ModuleList of heads in a dict of modules, stored bootstrap masks, frozen additive random priors."""
import copy
import torch
from torch import nn
from typedbatch import Batch

K, N, D, A, GAMMA = 5, 64, 4, 3, 0.95

def heads():
    return nn.ModuleList(nn.Sequential(nn.Linear(D, 16), nn.Tanh(), nn.Linear(16, A)) for _ in range(K))

class Agent:
    def __init__(self):
        online = heads()
        self.nets = {"online": online, "target": copy.deepcopy(online), "prior": heads().requires_grad_(False)}
        self.opt, self.updates = torch.optim.Adam(self.nets["online"].parameters(), lr=1e-3), 0

    def q(self, name, obs):  # (N, K, A); online and target share the prior
        return torch.stack([head(obs) + 3.0 * prior(obs) for head, prior in zip(self.nets[name], self.nets["prior"])], dim=1)

    def update(self, batch):
        with torch.no_grad():
            best = self.q("online", batch.obs_next).argmax(-1, keepdim=True)  # each head has its own target head
            bootstrap = self.q("target", batch.obs_next).gather(-1, best).squeeze(-1)
            target = batch.rew[:, None] + GAMMA * (~batch.terminated)[:, None] * bootstrap
        q = self.q("online", batch.obs).gather(-1, batch.act[:, None, None].expand(-1, K, 1)).squeeze(-1)
        error = nn.functional.huber_loss(q, target, reduction="none")
        loss = (error * batch.mask).sum() / batch.mask.sum().clamp(min=1)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % 2 == 0:
            self.nets["target"].load_state_dict(self.nets["online"].state_dict())
        return {"loss": loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    def draw():
        u = torch.rand(N)
        return (Batch(obs=torch.randn(N, D), act=torch.randint(A, (N,)), rew=torch.randn(N), terminated=u < 0.15, truncated=u > 0.95,
                      obs_next=torch.randn(N, D), mask=torch.bernoulli(torch.full((N, K), 0.5))),)
    return Agent().update, draw
