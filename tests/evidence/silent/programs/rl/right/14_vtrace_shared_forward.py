"""V-trace (IMPALA) on time-major windows without obs_next: next values are values[1:] of the one forward pass of a shared net."""
import copy
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch
T, B, D, A, GAMMA = 13, 6, 4, 3, 0.97

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.pi, self.v = nn.Sequential(nn.Linear(D, 32), nn.ReLU()), nn.Linear(32, A), nn.Linear(32, 1)

    def forward(self, obs):
        return Categorical(logits=self.pi(h := self.trunk(obs))), self.v(h).squeeze(-1)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    net, updates = Net(), 0
    actor = copy.deepcopy(net).requires_grad_(False)  # the stale weights of the actors
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, eps=0.01)
    def draw():
        obs, u = torch.randn(T, B, D), torch.rand(T, B)
        act = (mu := actor(obs)[0]).sample()
        return (Batch(obs=obs, act=act, rew=obs[..., 0] * (act == 1), logp_mu=mu.log_prob(act), terminated=u < 0.1,
                      truncated=u > 0.95),)
    def update(batch):
        nonlocal updates
        dist, values = net(batch.obs)
        logp, v, v_next = dist.log_prob(batch.act)[:-1], values[:-1], values[1:].detach()  # the last step only bootstraps
        discount, valid = GAMMA * ~batch.terminated[:-1], batch.terminated[:-1] | ~batch.truncated[:-1]
        rho = (logp.detach() - batch.logp_mu[:-1]).exp().clamp(max=1.0)  # also c, as both are clipped at 1
        delta, vs, acc = rho * (batch.rew[:-1] + discount * v_next - v.detach()), v.detach().clone(), torch.zeros(B)
        for t in reversed(range(T - 1)):  # the state after a truncated step is not in the window: such a step has no target
            acc = valid[t] * (delta[t] + discount[t] * rho[t] * acc)
            vs[t] += acc
        adv = rho * (batch.rew[:-1] + discount * torch.cat([vs[1:], v_next[-1:]]) - v.detach())
        loss = ((-logp * adv + 0.5 * (vs - v).pow(2)) * valid).sum() / valid.sum() - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (updates := updates + 1) % 4 == 0:
            actor.load_state_dict(net.state_dict())
        return {"loss": loss.item()}
    return update, draw
