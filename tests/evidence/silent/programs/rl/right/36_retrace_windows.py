"""Retrace(lambda) on (B, T) windows of a stochastic behavior policy; target policy epsilon-greedy, traces cut at ends of episodes."""
import copy
import torch
from torch import nn
from typedbatch import Batch

B, T, D, A, GAMMA, LAM, EPS = 8, 10, 5, 4, 0.97, 0.9, 0.05

def setup(seed: int = 0):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    q = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, A))
    slow = copy.deepcopy(q).requires_grad_(False)
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    def policy(obs):  # of the online network
        greedy = nn.functional.one_hot(q(obs).argmax(-1), A)
        return EPS / A + (1 - EPS) * greedy
    def draw():
        obs, u, mu = torch.randn(B, T, D, generator=g), torch.rand(B, T, generator=g), torch.randn(B * T, A, generator=g).softmax(1)
        terminated, truncated = u < 0.08, u > 0.95
        chained = torch.cat([obs[:, 1:], torch.randn(B, 1, D, generator=g)], dim=1)
        obs_next = torch.where((terminated | truncated)[..., None], torch.randn(B, T, D, generator=g), chained)
        act = torch.multinomial(mu, 1, generator=g)
        return (Batch(obs=obs, act=act.view(B, T), rew=obs[..., 0].sign() * (act.view(B, T) == 0), terminated=terminated,
                      truncated=truncated, obs_next=obs_next, mu=mu.gather(1, act).view(B, T)),)
    def update(batch):
        act = batch.act[..., None]
        with torch.no_grad():
            q_data = slow(batch.obs).gather(-1, act).squeeze(-1)
            v_next = (policy(batch.obs_next) * slow(batch.obs_next)).sum(-1)
            delta = batch.rew + GAMMA * ~batch.terminated * v_next - q_data
            c = LAM * (policy(batch.obs).gather(-1, act).squeeze(-1) / batch.mu).clamp(max=1)
            goes_on, target, acc = ~(batch.terminated | batch.truncated), q_data.clone(), delta[:, -1]
            target[:, -1] += acc
            for t in reversed(range(T - 1)):
                acc = delta[:, t] + GAMMA * goes_on[:, t] * c[:, t + 1] * acc
                target[:, t] += acc
        loss = (q(batch.obs).gather(-1, act).squeeze(-1) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        [s.lerp_(p.detach(), 0.01) for s, p in zip(slow.parameters(), q.parameters())]
        return {"loss": loss.item()}
    return update, draw
