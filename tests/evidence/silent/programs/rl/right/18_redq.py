"""REDQ: 5 critics, targets from 2 random ones, 3 critic steps per update and one actor step on the mean critic, lerp_ targets."""
import copy
import math
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal
from typedbatch import RolloutBatch
ROWS, D, A, ENSEMBLE, SUBSET, GAMMA, ALPHA = 96, 5, 2, 5, 2, 0.99, 0.2

def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, 2 * A))
    critics = nn.ModuleList(nn.Sequential(nn.Linear(D + A, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(ENSEMBLE))
    targets = copy.deepcopy(critics).requires_grad_(False)
    actor_opt, critic_opt = torch.optim.Adam(actor.parameters(), lr=1e-3), torch.optim.Adam(critics.parameters(), lr=1e-3)
    def values(ensemble, obs, act):  # (members, N)
        return torch.stack([q(torch.cat([obs, act], dim=-1)).squeeze(-1) for q in ensemble])
    def sample(obs):
        mean, log_std = actor(obs).chunk(2, dim=-1)
        u = (dist := Normal(mean, log_std.clamp(-5, 2).exp())).rsample()
        return u.tanh(), (dist.log_prob(u) - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)  # log(1 - tanh(u)^2), stable
    def step(opt, loss):
        opt.zero_grad()  # the critics' also clears what the actor's loss of the previous update left in them
        loss.backward()
        opt.step()
    def draw():
        u, obs, act = torch.rand(ROWS), torch.randn(ROWS, D), torch.rand(ROWS, A) * 2 - 1
        return (RolloutBatch(obs=obs, act=act, rew=obs[:, 0] - act.pow(2).sum(-1), terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=obs + 0.3 * torch.randn(ROWS, D), info={}),)
    def update(batch):
        for rows in torch.randperm(ROWS).chunk(3):
            part = batch[rows]
            with torch.no_grad():
                act_next, logp_next = sample(part.obs_next)
                chosen = [targets[i] for i in torch.randperm(ENSEMBLE)[:SUBSET].tolist()]
                soft_value = values(chosen, part.obs_next, act_next).amin(0) - ALPHA * logp_next
                target = part.rew + GAMMA * ~part.terminated * soft_value
            step(critic_opt, (values(critics, part.obs, part.act) - target).pow(2).mean(1).sum())  # one target for all members
            with torch.no_grad():
                [slow.lerp_(fast, 0.005) for slow, fast in zip(targets.parameters(), critics.parameters())]
        act, logp = sample(batch.obs)
        step(actor_opt, loss := (ALPHA * logp - values(critics, batch.obs, act).mean(0)).mean())
        return {"actor": loss.item()}
    return update, draw
