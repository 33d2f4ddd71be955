"""A small Dreamer: a latent world model on padded sequences, imagined rollouts, an actor through the dynamics, a slow critic."""
import copy
import torch
from torch import nn
from torch.distributions import Independent, Normal
from torch.nn import functional as F
from typedbatch import Batch

D, A, Z, T, H, GAMMA, LAM, ENTROPY = 4, 2, 16, 6, 5, 0.95, 0.9, 1e-3

def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 48), nn.ELU(), nn.Linear(48, o))

class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.dynamics, self.decoder, self.reward, self.cont = mlp(D, Z), nn.GRUCell(A, Z), mlp(Z, D), mlp(Z, 1), mlp(Z, 1)

    def observe(self, obs, action):  # the first observation is encoded, the rest is predicted; (B, T + 1, Z)
        states = [torch.tanh(self.encoder(obs[:, 0]))]
        for t in range(action.shape[1]):
            states.append(self.dynamics(action[:, t], states[-1]))
        return torch.stack(states, 1)

    def loss(self, data):
        states, mask = self.observe(data.obs, data.action), data.mask
        recon = ((self.decoder(states) - data.obs) ** 2).sum(-1)
        reward = (self.reward(states[:, 1:]).squeeze(-1) - data.reward) ** 2
        cont = F.binary_cross_entropy_with_logits(self.cont(states[:, 1:]).squeeze(-1), 1 - data.is_terminal, reduction="none")
        return recon[:, 0].mean() + ((recon[:, 1:] + reward + cont) * mask).sum() / mask.sum()

def setup(seed: int = 0):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed)
    world, actor, critic = WorldModel(), mlp(Z, 2 * A), mlp(Z, 1)
    slow_critic = copy.deepcopy(critic).requires_grad_(False)
    opts = {m: torch.optim.Adam(m.parameters(), lr, eps=1e-5) for m, lr in ((world, 1e-3), (actor, 3e-4), (critic, 1e-3))}

    def draw(n=16):  # points that random actions push around, until one leaves the box
        obs, live, rows = 2 * torch.rand(n, D, generator=gen) - 1, torch.ones(n), []
        seen = [obs]
        for _ in range(T):
            action = 2 * torch.rand(n, A, generator=gen) - 1
            obs = obs + 0.3 * torch.cat([action, obs[:, :2]], -1) * live[:, None]
            out = (obs.abs() > 1.5).any(-1).float()
            rows.append((action, (1 - obs.pow(2).mean(-1)) * live, out * live, live))
            seen.append(obs * live[:, None])
            live = live * (1 - out)
        action, reward, is_terminal, mask = (torch.stack(c, 1) for c in zip(*rows))
        return (Batch(obs=torch.stack(seen, 1), action=action * mask[..., None], reward=reward, is_terminal=is_terminal, mask=mask),)

    def act(state):
        mean, std = actor(state).chunk(2, -1)
        dist = Independent(Normal(mean, F.softplus(std) + 0.1), 1)
        raw = dist.rsample()
        log_prob = dist.log_prob(raw) - 2 * (0.6931472 - raw - F.softplus(-2 * raw)).sum(-1)
        return torch.tanh(raw), log_prob

    def step(module, loss):
        opts[module].zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 100.0)
        opts[module].step()
        return loss.item()

    def update(data):
        metrics = {"world": step(world, world.loss(data))}
        with torch.no_grad():  # begin where an episode goes on after the row
            start = world.observe(data.obs, data.action)[:, 1:][(data.mask * (1 - data.is_terminal)).bool()]
        states, log_probs = [start], []
        for _ in range(H):
            action, log_prob = act(states[-1])
            log_probs.append(log_prob)
            states.append(world.dynamics(action, states[-1]))
        imagined = torch.stack(states)
        reward, discount = world.reward(imagined[1:]).squeeze(-1), GAMMA * world.cont(imagined[1:]).squeeze(-1).sigmoid()
        value = slow_critic(imagined).squeeze(-1)
        ret, returns = value[-1], []
        for t in reversed(range(H)):
            ret = reward[t] + discount[t] * ((1 - LAM) * value[t + 1] + LAM * ret)
            returns.insert(0, ret)
        returns = torch.stack(returns)
        weight = torch.cat([torch.ones_like(discount[:1]), discount[:-1]]).cumprod(0).detach()
        metrics["actor"] = step(actor, -(weight * (returns - ENTROPY * torch.stack(log_probs))).mean())
        metrics["critic"] = step(critic, (weight * (critic(imagined[:-1].detach()).squeeze(-1) - returns.detach()) ** 2).mean())
        for s, c in zip(slow_critic.parameters(), critic.parameters()):
            s.data.lerp_(c.data, 0.02)
        return metrics

    return update, draw
