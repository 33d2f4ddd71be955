"""IQL with a Gaussian policy on a fixed data set of Pendulum (after the authors' PyTorch ports)."""
# wrong: """clamp(100.0) is a lower bound: every advantage weight is 100 or more, so the policy just clones the data."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, TAU, BETA, EXPECTILE, EXP_MAX = 0.97, 0.005, 3.0, 0.7, 100.0


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


class TwinQ(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q1, self.q2 = mlp(4, 1), mlp(4, 1)

    def both(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        pair = torch.cat([obs, act], dim=-1)
        return self.q1(pair).squeeze(-1), self.q2(pair).squeeze(-1)

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        return torch.min(*self.both(obs, act))


class ImplicitQLearning:
    def __init__(self) -> None:
        self.qf, self.vf, self.mean = TwinQ(), mlp(3, 1), mlp(3, 1)
        self.q_target = copy.deepcopy(self.qf).requires_grad_(False)
        self.log_std = nn.Parameter(torch.zeros(1))
        self.q_optim = torch.optim.Adam(self.qf.parameters(), 3e-4)
        self.v_optim = torch.optim.Adam(self.vf.parameters(), 3e-4)
        self.policy_optim = torch.optim.Adam([*self.mean.parameters(), self.log_std], 3e-4)

    def policy(self, obs: Tensor) -> Independent:
        mean = 2 * torch.tanh(self.mean(obs))
        return Independent(Normal(mean, self.log_std.clamp(-5, 2).exp().expand_as(mean)), 1)

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            target_q = self.q_target(batch.obs, batch.act)
            next_v = self.vf(batch.obs_next).squeeze(-1)
        v = self.vf(batch.obs).squeeze(-1)
        adv = target_q - v
        v_loss = (torch.abs(EXPECTILE - (adv < 0).float()) * adv**2).mean()
        self.v_optim.zero_grad(set_to_none=True)
        v_loss.backward()
        self.v_optim.step()

        targets = batch.rew + (1.0 - batch.terminated.float()) * GAMMA * next_v
        q_loss = sum(nn.functional.mse_loss(q, targets) for q in self.qf.both(batch.obs, batch.act)) / 2
        self.q_optim.zero_grad(set_to_none=True)
        q_loss.backward()
        self.q_optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.q_target.parameters(), self.qf.parameters(), strict=True):
                slow.lerp_(fast, TAU)

        exp_adv = torch.exp(BETA * adv.detach()).clamp(max=EXP_MAX)
        # wrong: exp_adv = torch.exp(BETA * adv.detach()).clamp(EXP_MAX)
        bc_losses = -self.policy(batch.obs).log_prob(batch.act)
        policy_loss = (exp_adv * bc_losses).mean()
        self.policy_optim.zero_grad(set_to_none=True)
        policy_loss.backward()
        self.policy_optim.step()
        return {"v": v_loss.item(), "q": q_loss.item(), "policy": policy_loss.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)

    def behavior(batch: ObsBatch) -> ActBatch:
        push = 2 * np.sign(batch.obs[:, 2] + 1e-6) + rng.normal(0, 1, len(batch.obs))
        return ActBatch(act=push.clip(-2, 2)[:, None].astype(np.float32))

    envs = gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync")
    data = VectorReplayBuffer[RolloutBatch](1_000, 4, random_seed=seed)
    collector = Collector(envs, behavior)
    collector.reset(seed=seed)
    collector.collect(data, n_step=1_000)
    iql = ImplicitQLearning()
    return iql.update, lambda: (data.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)
