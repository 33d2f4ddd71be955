"""Discrete SAC on a frozen pretrained encoder (batch norm in eval mode), which is in the optimizer's module but never moves."""
import copy
import math
import torch
from torch import nn
from typedbatch import RolloutBatch

N, D, H, A, GAMMA = 64, 8, 16, 4, 0.99

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(D, H), nn.BatchNorm1d(H), nn.ReLU()).eval().requires_grad_(False)
        self.pi, self.q1, self.q2 = (nn.Sequential(nn.Linear(H, 32), nn.ReLU(), nn.Linear(32, A)) for _ in range(3))
        self.log_alpha = nn.Parameter(torch.tensor(-1.0))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    agent = Agent()
    q1_slow, q2_slow = copy.deepcopy(agent.q1).requires_grad_(False), copy.deepcopy(agent.q2).requires_grad_(False)
    opt = torch.optim.Adam(agent.parameters(), lr=1e-3)  # parameters without gradients are skipped
    def draw():
        u, obs, act = torch.rand(N), torch.randn(N, D), torch.randint(A, (N,))
        return (RolloutBatch(obs=obs, act=act, rew=obs[:, 0] * (act - 1.5), terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=torch.randn(N, D), info={}),)
    def update(batch):
        h, h_next, alpha = agent.encoder(batch.obs), agent.encoder(batch.obs_next), agent.log_alpha.exp().detach()
        with torch.no_grad():
            logp_next = agent.pi(h_next).log_softmax(-1)
            q_next = torch.min(q1_slow(h_next), q2_slow(h_next))
            v_next = (logp_next.exp() * (q_next - alpha * logp_next)).sum(-1)
            target = batch.rew + GAMMA * ~batch.terminated * v_next
        q1, q2, logp = agent.q1(h), agent.q2(h), agent.pi(h).log_softmax(-1)
        critic_loss = sum((q.gather(1, batch.act[:, None]).squeeze(1) - target).pow(2).mean() for q in (q1, q2))
        actor_loss = (logp.exp() * (alpha * logp - torch.min(q1, q2).detach())).sum(-1).mean()
        entropy = -(logp.exp() * logp).sum(-1).detach()
        alpha_loss = (agent.log_alpha * (entropy - 0.6 * math.log(A))).mean()
        opt.zero_grad()
        (critic_loss + actor_loss + alpha_loss).backward()
        opt.step()
        for slow, fast in ((q1_slow, agent.q1), (q2_slow, agent.q2)):
            [s.lerp_(f.detach(), 0.005) for s, f in zip(slow.parameters(), fast.parameters())]
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "entropy": entropy.mean().item()}
    return update, draw
