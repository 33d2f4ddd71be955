"""PPO on time-major (T, B) windows: GAE inside the update, minibatches are whole columns, gradients clipped by value (foreach)."""
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch

T, B, D, A, GAMMA, LAM = 16, 6, 5, 3, 0.99, 0.95

def setup(seed: int = 0):
    torch.manual_seed(seed)
    pi = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, A))
    v = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, 1))
    params = [*pi.parameters(), *v.parameters()]
    opt = torch.optim.Adam(params, lr=1e-3, eps=1e-5)

    def draw():
        obs, u = torch.randn(T, B, D), torch.rand(T, B)
        terminated, truncated = u < 0.08, u > 0.95
        chained = torch.cat([obs[1:], torch.randn(1, B, D)])  # after the end of an episode, obs[t + 1] is that of a reset
        obs_next = torch.where((terminated | truncated)[..., None], torch.randn(T, B, D), chained)
        with torch.no_grad():
            dist = Categorical(logits=pi(obs))
            act = dist.sample()
        return (Batch(obs=obs, act=act, rew=obs.gather(-1, act[..., None]).squeeze(-1), obs_next=obs_next,
                      terminated=terminated, truncated=truncated, logp_old=dist.log_prob(act)),)

    def update(batch):
        with torch.no_grad():
            value, value_next = v(batch.obs).squeeze(-1), v(batch.obs_next).squeeze(-1)
            delta = batch.rew + GAMMA * ~batch.terminated * value_next - value  # a truncated step bootstraps
            goes_on, adv, last = ~(batch.terminated | batch.truncated), torch.zeros(T, B), torch.zeros(B)
            for t in reversed(range(T)):
                adv[t] = last = delta[t] + GAMMA * LAM * goes_on[t] * last
        for cols in [c for _ in range(3) for c in torch.randperm(B).split(2)]:
            dist = Categorical(logits=pi(batch.obs[:, cols]))
            ratio = (dist.log_prob(batch.act[:, cols]) - batch.logp_old[:, cols]).exp()
            a = (adv[:, cols] - adv[:, cols].mean()) / (adv[:, cols].std() + 1e-8)
            value_loss = (v(batch.obs[:, cols]).squeeze(-1) - (adv + value)[:, cols]).pow(2).mean()
            loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean() + 0.5 * value_loss - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(params, 0.1, foreach=True)
            opt.step()
        return {"loss": loss.item()}
    return update, draw
