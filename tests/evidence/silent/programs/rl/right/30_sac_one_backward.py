"""SAC with learned temperature and tanh correction, dicts of modules, one optimizer, one backward: the actor sees detached critics."""
import copy
import math
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Independent, Normal
from torch.func import functional_call
from typedbatch import RolloutBatch
N, D, A, GAMMA = 64, 6, 3, 0.99

def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, 2 * A))
    critics = {name: nn.Sequential(nn.Linear(D + A, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0)) for name in ("q1", "q2")}
    slow, log_alpha = copy.deepcopy(critics), torch.zeros((), requires_grad=True)
    params = [p for net in (actor, *critics.values()) for p in net.parameters()]
    opt = torch.optim.Adam([{"params": params, "lr": 1e-3}, {"params": [log_alpha], "lr": 3e-3}])
    def sample(obs):
        mean, log_std = actor(obs).chunk(2, dim=1)
        u = (dist := Independent(Normal(mean, log_std.clamp(-5, 2).exp()), 1)).rsample()
        return u.tanh(), dist.log_prob(u) - 2 * (math.log(2) - u - F.softplus(-2 * u)).sum(1)
    def draw():
        u, obs, act = torch.rand(N), torch.randn(N, D), torch.rand(N, A) * 2 - 1
        return (RolloutBatch(obs=obs, act=act, rew=(act * obs[:, :A]).sum(1), terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=torch.randn(N, D), info={}),)
    def update(batch):
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            act_next, logp_next = sample(batch.obs_next)
            q_next = torch.min(*(q(torch.cat([batch.obs_next, act_next], 1)) for q in slow.values()))
            target = batch.rew + GAMMA * torch.where(batch.terminated, 0.0, q_next - alpha * logp_next)
        critic_loss = sum(F.mse_loss(q(torch.cat([batch.obs, batch.act], 1)), target) for q in critics.values())
        act, logp = sample(batch.obs)
        detached = [(q, {name: p.detach() for name, p in q.named_parameters()}) for q in critics.values()]
        q_new = torch.min(*(functional_call(q, params, (torch.cat([batch.obs, act], 1),)) for q, params in detached))
        actor_loss, alpha_loss = (alpha * logp - q_new).mean(), -(log_alpha * (logp.detach() - A)).mean()  # target entropy -A
        opt.zero_grad()
        (critic_loss + actor_loss + alpha_loss).backward()
        opt.step()
        for name, q in critics.items():
            [s.data.lerp_(p.data, 0.005) for s, p in zip(slow[name].parameters(), q.parameters())]
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "alpha": alpha_loss.item()}
    return update, draw
