"""Successor features: psi by TD on frozen features of obs_next, reward weights by regression, greedy actions from psi times weights."""
import copy
import torch
from torch import nn
from typedbatch import RolloutBatch

N, D, A, F, GAMMA = 64, 6, 4, 5, 0.9

class Agent:
    def __init__(self):
        self.phi = nn.Sequential(nn.Linear(D, F), nn.Tanh()).requires_grad_(False)  # given, not learned
        self.psi = nn.Sequential(nn.Linear(D, 48), nn.ReLU(), nn.Linear(48, A * F), nn.Unflatten(1, (A, F)))
        self.psi_slow = copy.deepcopy(self.psi).requires_grad_(False)
        self.w = nn.Parameter(torch.zeros(F))
        self.psi_opt = torch.optim.Adam(self.psi.parameters(), lr=1e-3)
        self.w_opt = torch.optim.SGD([self.w], lr=0.1)

    def update(self, batch):
        rows, phi = torch.arange(N), self.phi(batch.obs_next)
        reward_loss = 0.5 * (phi @ self.w - batch.rew).pow(2).mean()
        self.w_opt.zero_grad()
        reward_loss.backward()
        self.w_opt.step()
        with torch.no_grad():
            best = (self.psi(batch.obs_next) @ self.w).argmax(1)
            follows = self.psi_slow(batch.obs_next)[rows, best]  # (N, F)
            target = phi + GAMMA * follows.masked_fill(batch.terminated[:, None], 0.0)
        psi_loss = (self.psi(batch.obs)[rows, batch.act] - target).pow(2).sum(1).mean()
        self.psi_opt.zero_grad()
        psi_loss.backward()
        self.psi_opt.step()
        with torch.no_grad():
            for slow, fast in zip(self.psi_slow.parameters(), self.psi.parameters()):
                slow.lerp_(fast, 0.01)
        return {"reward": reward_loss.item(), "psi": psi_loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    agent, task = Agent(), torch.randn(F)
    def draw():
        u, obs, obs_next = torch.rand(N), torch.randn(N, D), torch.randn(N, D)
        rew = agent.phi(obs_next) @ task + 0.05 * torch.randn(N)
        return (RolloutBatch(obs=obs, act=torch.randint(A, (N,)), rew=rew, terminated=u < 0.1, truncated=u > 0.95, obs_next=obs_next,
                             info={}),)
    return agent.update, draw
