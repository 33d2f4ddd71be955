"""IQL: expectile value of slow twin critics, critics on V(obs_next), advantage-weighted actor; decay on the actor's weights only."""
import copy
import torch
from torch import nn
from torch.distributions import Independent, Normal
from typedbatch import RolloutBatch
N, D, A, GAMMA, EXPECTILE, BETA = 80, 5, 2, 0.99, 0.7, 3.0

class IQL:
    def __init__(self):
        mlp = lambda inputs, outputs: nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))
        self.actor, self.log_std, self.v = mlp(D, A), nn.Parameter(torch.zeros(A)), mlp(D, 1)
        self.q = nn.ModuleList([mlp(D + A, 1), mlp(D + A, 1)])
        self.q_slow = copy.deepcopy(self.q).requires_grad_(False)
        weights, rest = ([p for p in self.actor.parameters() if (p.ndim > 1) == large] for large in (True, False))
        self.actor_opt = torch.optim.AdamW([{"params": weights, "weight_decay": 0.01},
                                            {"params": [*rest, self.log_std], "weight_decay": 0.0}], lr=1e-3)
        self.v_opt, self.q_opt = (torch.optim.Adam(net.parameters(), lr=1e-3) for net in (self.v, self.q))

    def step(self, opt, loss):
        opt.zero_grad()
        loss.backward()
        opt.step()

    def update(self, batch):
        x = torch.cat([batch.obs, batch.act], dim=1)
        q_data = torch.min(self.q_slow[0](x), self.q_slow[1](x)).squeeze(1)
        above = q_data - self.v(batch.obs).squeeze(1)
        self.step(self.v_opt, (torch.where(above > 0, EXPECTILE, 1 - EXPECTILE) * above.pow(2)).mean())
        with torch.no_grad():
            weight = (BETA * (q_data - self.v(batch.obs).squeeze(1))).exp().clamp(max=100.0)
            target = batch.rew + GAMMA * ~batch.terminated * self.v(batch.obs_next).squeeze(1)
        logp = Independent(Normal(self.actor(batch.obs), self.log_std.exp()), 1).log_prob(batch.act)
        self.step(self.actor_opt, loss := -(weight * logp).mean())
        self.step(self.q_opt, sum((q(x).squeeze(1) - target).pow(2).mean() for q in self.q))
        [slow.lerp_(fast.detach(), 0.005) for slow, fast in zip(self.q_slow.parameters(), self.q.parameters())]
        return {"actor": loss.item(), "weight": weight.max().item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    def draw():
        u, obs, act = torch.rand(N), torch.randn(N, D), torch.randn(N, A)
        return (RolloutBatch(obs=obs, act=act, rew=-(act - obs[:, :A]).pow(2).mean(1), terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=torch.randn(N, D), info={}),)
    return IQL().update, draw
