"""A2C with a shared trunk, disjoint parts in two optimizers, one backward; auxiliary reward prediction and CURL's contrast."""
import copy
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical
from typedbatch import BatchWithAdvantages

N, D, H, A, GAMMA = 64, 6, 32, 3, 0.95

def setup(seed: int = 0):
    torch.manual_seed(seed)
    trunk, pi, v = nn.Sequential(nn.Linear(D, H), nn.ReLU()), nn.Linear(H, A), nn.Linear(H, 1)
    reward, bilinear = nn.Linear(H + A, 1), nn.Linear(H, H, bias=False)
    slow_trunk = copy.deepcopy(trunk).requires_grad_(False)  # momentum encoder of the keys
    opt = torch.optim.RMSprop([*trunk.parameters(), *pi.parameters()], lr=1e-3)
    heads_opt = torch.optim.AdamW([{"params": [*v.parameters()], "weight_decay": 0.0},
                                   {"params": [*reward.parameters(), *bilinear.parameters()], "weight_decay": 0.01}], lr=1e-3)
    def draw():
        u, obs = torch.rand(N), torch.randn(N, D)
        terminated, truncated = u < 0.1, u > 0.95
        chained = torch.cat([obs[1:], torch.randn(1, D)])
        obs_next = torch.where((terminated | truncated)[:, None], torch.randn(N, D), chained)
        with torch.no_grad():
            act = Categorical(logits=pi(h := trunk(obs))).sample()
            value, value_next, rew = v(h).squeeze(1), v(trunk(obs_next)).squeeze(1), obs[:, 0] * (act - 1)
        returns, following = torch.zeros(N), value_next[-1]
        for t in reversed(range(N)):
            following = torch.zeros(()) if terminated[t] else value_next[t] if truncated[t] else following
            returns[t] = following = rew[t] + GAMMA * following
        return (BatchWithAdvantages(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next, info={},
                                    returns=returns, adv=returns - value, v_s=value),)
    def update(batch):
        dist = Categorical(logits=pi(h := trunk(batch.obs)))
        query, key = (batch.obs * (torch.rand(N, 1) * 0.4 + 0.8) for _ in range(2))  # random amplitude scaling
        contrast = F.cross_entropy(bilinear(trunk(query)) @ slow_trunk(key).T, torch.arange(N))
        predicted = reward(torch.cat([h, F.one_hot(batch.act, A)], dim=1)).squeeze(1)
        loss = -(dist.log_prob(batch.act) * batch.adv).mean() + 0.5 * F.mse_loss(v(h).squeeze(1), batch.returns)
        loss = loss - 0.01 * dist.entropy().mean() + 0.1 * F.mse_loss(predicted, batch.rew) + 0.1 * contrast
        for call in (opt.zero_grad, heads_opt.zero_grad, loss.backward, opt.step, heads_opt.step):
            call()
        for slow, fast in zip(slow_trunk.parameters(), trunk.parameters()):
            slow.lerp_(fast.detach(), 0.05)
        return {"loss": loss.item()}
    return update, draw
