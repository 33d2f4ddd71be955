"""TD3+BC without classes of nets: a dataclass of states, partials and closures, gradients assigned to .grad; normalized observations."""
import copy
from dataclasses import dataclass, field
from functools import partial
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from typedbatch import Batch

@dataclass
class TrainState:
    net: nn.Module
    lr: float
    frozen: nn.Module = field(init=False)
    tx: torch.optim.Optimizer = field(init=False)

    def __post_init__(self):
        self.frozen = copy.deepcopy(self.net).requires_grad_(False)
        self.tx = torch.optim.Adam(self.net.parameters(), self.lr)

    def apply_gradients(self, loss):
        params = list(self.net.parameters())
        for p, g in zip(params, torch.autograd.grad(loss, params)):
            p.grad = g
        self.tx.step()

    @torch.no_grad()
    def track(self, tau=0.01):
        torch._foreach_lerp_(list(self.frozen.parameters()), list(self.net.parameters()), tau)

def mlp(*sizes, last=nn.Identity):
    parts = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1], last())

def both(critics, s, a):
    return torch.stack([c(torch.cat([s, a], -1)).squeeze(-1) for c in critics])

def td_target(actor, critics, d, gamma, noise, clip):
    with torch.no_grad():
        eps = (noise * torch.randn_like(d["action"])).clamp(-clip, clip)
        after = (actor(d["s2"]) + eps).clamp(-1, 1)
        return d["r"] + gamma * d["not_done"] * both(critics, d["s2"], after).amin(0)

def actor_loss(actor, critics, d, alpha):
    pi = actor(d["s"])
    q = both(critics, d["s"], pi)[0]
    return -(alpha / q.abs().mean().detach()) * q.mean() + (pi - d["action"]).square().mean()

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng, env = np.random.default_rng(seed), gym.make("MountainCarContinuous-v0", max_episode_steps=150)
    log, s = [], env.reset(seed=seed)[0]
    for _ in range(1000):  # a driver who pushes to where the car is going, more or less
        a = np.clip(np.sign(s[1:]) * 0.9 + rng.normal(0, 0.3, 1), -1, 1).astype(np.float32)
        s2, r, terminated, truncated, _ = env.step(a)
        log.append((s, a, np.float32(r / 10), s2, np.float32(1 - terminated)))
        s = env.reset()[0] if terminated or truncated else s2
    names = ("observation", "action", "reward", "next_observation", "not_done")
    dataset = Batch({name: np.stack(column).astype(np.float32) for name, column in zip(names, zip(*log))})
    normalize = partial(lambda mean, std, x: (torch.as_tensor(x) - mean) / std, *map(torch.as_tensor, (dataset.observation.mean(0), dataset.observation.std(0) + 1e-3)))
    pi = TrainState(mlp(2, 64, 64, 1, last=nn.Tanh), 1e-3)
    q = TrainState(nn.ModuleList([mlp(3, 64, 64, 1), mlp(3, 64, 64, 1)]), 1e-3)
    make_target = partial(td_target, pi.frozen, q.frozen, gamma=0.98, noise=0.2, clip=0.5)
    make_actor_loss = partial(actor_loss, pi.net, q.net, alpha=2.5)

    def update(batch):
        metrics = {}
        for step, rows in enumerate(batch.split(len(batch) // 2, shuffle=False)):
            d = dict(s=normalize(rows.observation), s2=normalize(rows.next_observation), action=torch.as_tensor(rows.action),
                     r=torch.as_tensor(rows.reward), not_done=torch.as_tensor(rows.not_done))
            y = make_target(d)
            critic_loss = (both(q.net, d["s"], d["action"]) - y).square().mean(1).sum()
            q.apply_gradients(critic_loss)
            metrics["critic"] = critic_loss.item()
            if step % 2:  # the policy every other step
                loss = make_actor_loss(d)
                pi.apply_gradients(loss)
                pi.track()
                q.track()
                metrics["actor"] = loss.item()
        return metrics

    return update, lambda: (dataset[rng.integers(len(dataset), size=256)],)
