"""The update: critics, actor, temperature, targets."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from typedbatch import Batch

from sacfork.config import CFG
from sacfork.memory import Memory


def mlp(n_in: int, n_out: int) -> nn.Sequential:
    hidden = int(CFG.net.hidden)
    #! misspelt-nested: hidden = int(CFG.net.hiden)
    return nn.Sequential(nn.Linear(n_in, hidden), nn.Tanh(), nn.Linear(hidden, n_out)).double()


class Learner:
    def __init__(self, auto_alpha: bool) -> None:
        torch.manual_seed(0)
        self.memory = Memory()
        self.actor = mlp(2, int(CFG.net.out))
        self.critics = nn.ModuleList([mlp(3, 1) for _ in range(2 if CFG.twin else 1)])
        self.target = copy.deepcopy(self.critics)
        self.auto = auto_alpha
        self.log_alpha = torch.zeros((), requires_grad=True)
        params = [*self.actor.parameters(), *self.critics.parameters(), self.log_alpha]
        self.opt = torch.optim.Adam(params, lr=float(CFG.lr))
        self.obs = np.array([1.0, 0.0])

    def policy(self, obs: torch.Tensor) -> Batch:
        mean, log_std = self.actor(obs).chunk(2, -1)
        out = Batch(dist=torch.distributions.Normal(mean, log_std.clamp(-3, 1).exp()))
        raw = out.dist.rsample()
        out.act = torch.tanh(raw)
        out.logp = (out.dist.log_prob(raw) - torch.log(1 - out.act**2 + 1e-6)).sum(-1)
        #! misspelt-read: out.logp = (out.dist.log_prob(raw) - torch.log(1 - out.action**2 + 1e-6)).sum(-1)
        return out

    def q(self, nets: Any, obs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        x = torch.cat([obs, act], -1)
        return torch.stack([net(x).squeeze(-1) for net in nets]).min(0).values

    def act(self) -> None:
        with torch.no_grad():
            a = self.policy(torch.as_tensor(self.obs)[None]).act[0].numpy()
            #! old-name: a = self.policy(torch.as_tensor(self.obs)[None]).action[0].numpy()
        nxt = np.array([self.obs[0] + 0.1 * self.obs[1], self.obs[1] + 0.1 * a[0]])
        self.memory.add(self.obs, a, -float(nxt @ nxt), nxt, bool(abs(nxt[0]) > 2))
        self.obs = nxt

    def update(self, step: int) -> Batch:
        b = self.memory.sample(int(CFG.batch))
        alpha = self.log_alpha.exp().detach() if self.auto else torch.tensor(0.1)
        with torch.no_grad():
            later = self.policy(b["obs_next"])
            b.target = b["rew"] + float(CFG.gamma) * b["live"] * (self.q(self.target, b["obs_next"], later.act) - alpha * later.logp)
        critic = sum(((net(torch.cat([b["obs"], b["act"]], -1)).squeeze(-1) - b.target) ** 2).mean() for net in self.critics)
        now = self.policy(b["obs"])
        actor = (alpha * now.logp - self.q(self.critics, b["obs"], now.act)).mean()
        loss: Any = critic + actor
        if self.auto:
            loss = loss - (self.log_alpha * (now.logp.detach() + float(CFG.target_entropy))).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        out = Batch(step=step, critic=float(critic), actor=float(actor))
        if self.auto:
            out.alpha = float(alpha)
        for old, new in zip(self.target.parameters(), self.critics.parameters(), strict=True):
            old.data.lerp_(new.data, float(CFG.tau))
        return out

    def run(self, steps: int) -> list[Batch]:
        rows = []
        for step in range(steps):
            self.act()
            if step < CFG.warmup:
                continue
            rows.append(self.update(step))
        return rows
