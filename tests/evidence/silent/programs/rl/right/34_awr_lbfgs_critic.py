"""AWR: a fresh LBFGS with closure fits the critic to stored returns first, then SGD with momentum on exp-weighted log-likelihood."""
import torch
from torch import nn
from torch.distributions import Normal
from typedbatch import BatchWithReturns
N, D, A, GAMMA, BETA, WEIGHT_MAX = 72, 4, 1, 0.95, 1.0, 20.0

class AWR:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, A))
        self.v = nn.Sequential(nn.Linear(D, 16), nn.Tanh(), nn.Linear(16, 1))
        self.opt = torch.optim.SGD(self.policy.parameters(), lr=5e-4, momentum=0.9)

    @torch.no_grad()
    def draw(self):
        u, obs = torch.rand(N), torch.randn(N, D)
        done = (terminated := u < 0.1) | (truncated := u > 0.95)
        obs_next = torch.where(done[:, None], torch.randn(N, D), torch.cat([obs[1:], torch.randn(1, D)]))
        act = self.policy(obs) + 0.4 * torch.randn(N, A)
        rew, v_next, returns = -(act[:, 0] - obs[:, 0]).abs(), self.v(obs_next).squeeze(1), torch.zeros(N)
        for t in reversed(range(N)):  # to the end of the episode; what was cut off there, or by the window, is estimated
            goes_on = t + 1 < N and not done[t]
            returns[t] = rew[t] + GAMMA * ~terminated[t] * (returns[t + 1] if goes_on else v_next[t])
        return (BatchWithReturns(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next, info={},
                                 returns=returns),)

    def update(self, batch):
        fit = torch.optim.LBFGS(self.v.parameters(), lr=1.0, max_iter=6, line_search_fn="strong_wolfe")  # no curvature of old data
        def closure():
            fit.zero_grad()
            loss = (self.v(batch.obs).squeeze(1) - batch.returns).pow(2).mean()
            loss.backward()
            return loss
        before = fit.step(closure)
        weight = ((batch.returns - self.v(batch.obs).squeeze(1).detach()) / BETA).exp().clamp(max=WEIGHT_MAX)
        logp = Normal(self.policy(batch.obs), 0.4).log_prob(batch.act).sum(1)
        loss = -(weight * logp).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return {"critic": before.item(), "policy": loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    return (algo := AWR()).update, algo.draw
