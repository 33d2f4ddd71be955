"""DQN whose networks and reference models are also in a list and a dict."""
import copy
import torch
from torch import nn
from typedbatch import Batch


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
        self.q_target = copy.deepcopy(self.q)
        self.networks = [self.q, self.q_target]
        self.by_name = {"q": self.q, "target": self.q_target}
        self.optim = torch.optim.Adam(self.q.parameters(), 1e-3)

    def update(self, b):
        with torch.no_grad():
            after = self.networks[1](b.obs_next).max(-1).values
            goal = b.rew + 0.99 * (~b.terminated).float() * after
        loss = (self.q(b.obs).gather(1, b.act[:, None]).squeeze(1) - goal).square().mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        with torch.no_grad():
            for one, other in zip(self.q.parameters(), self.q_target.parameters()):
                other.lerp_(one, 0.01)


def draw():
    n = 64
    return (Batch(obs=torch.randn(n, 4), act=torch.randint(3, (n,)), rew=torch.randn(n), terminated=torch.rand(n) < 0.1, truncated=torch.rand(n) < 0.05, obs_next=torch.randn(n, 4)),)


def setup(seed=0):
    torch.manual_seed(seed)
    networks = [nn.Linear(1, 1)]
    return Agent().update, draw
