"""PPO whose single step accumulates gradients over partial batches of 32, 32 and 16 rows, each weighted by its share of rows."""
import torch
from torch import nn
from torch.distributions import Normal
from typedbatch import LogpOldBatch
N, D, A, GAMMA, LAM = 80, 5, 2, 0.99, 0.95
class Algo:
    def __init__(self):
        self.mean = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, A))
        self.log_std = nn.Parameter(torch.full((A,), -0.5))
        self.v = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, 1))
        self.opt = torch.optim.Adam([*self.mean.parameters(), self.log_std, *self.v.parameters()], lr=3e-4)

    def dist(self, obs):
        return Normal(self.mean(obs), self.log_std.exp())

    @torch.no_grad()
    def draw(self):
        u, obs = torch.rand(N), torch.randn(N, D)
        done = (terminated := u < 0.1) | (truncated := u > 0.95)
        obs_next = torch.where(done[:, None], torch.randn(N, D), torch.cat([obs[1:], torch.randn(1, D)]))
        act = (dist := self.dist(obs)).sample()
        rew, v, v_next = -(act - obs[:, :A]).pow(2).sum(1), self.v(obs).squeeze(1), self.v(obs_next).squeeze(1)
        delta, adv, last = rew + GAMMA * ~terminated * v_next - v, torch.zeros(N), 0.0
        for t in reversed(range(N)):
            adv[t] = last = delta[t] + GAMMA * LAM * ~done[t] * last
        return (LogpOldBatch(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next, info={},
                             returns=adv + v, adv=adv, v_s=v, logp_old=dist.log_prob(act).sum(1)),)

    def update(self, batch):
        adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)  # of all rows, not of a part
        for _ in range(2):
            self.opt.zero_grad()
            for rows in torch.randperm(N).split(32):
                part, dist = batch[rows], self.dist(batch.obs[rows])
                ratio = (dist.log_prob(part.act).sum(1) - part.logp_old).exp()
                surrogate = torch.min(ratio * adv[rows], ratio.clamp(0.8, 1.2) * adv[rows])
                value_error = (self.v(part.obs).squeeze(1) - part.returns).pow(2)
                (loss := (0.5 * value_error - surrogate).sum() / N).backward()
            self.opt.step()
        return {"loss": loss.item()}  # of the last part

def setup(seed: int = 0):
    torch.manual_seed(seed)
    return (algo := Algo()).update, algo.draw
