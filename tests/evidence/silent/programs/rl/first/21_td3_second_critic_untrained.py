"""TD3 on Pendulum with two separate critics."""
# wrong: """The optimizer of the critics has only the parameters of the first one: the second is never trained."""
# A module that was added later and forgotten in the optimizer (no single source).
from __future__ import annotations

import copy
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer, compute_nstep_return
from typedbatch.training import Collector, Losses

torch.set_num_threads(1)


def mlp(*sizes: int, last: Callable[[], nn.Module] = nn.Identity) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        layers += [nn.Linear(inputs, outputs), nn.ReLU() if i < len(sizes) - 2 else last()]
    return nn.Sequential(*layers)


class TD3:
    def __init__(self, buffer: VectorReplayBuffer[RolloutBatch], seed: int, lr: float = 1e-3) -> None:
        self.buffer, self.rng = buffer, np.random.default_rng(seed)
        self.policy = mlp(3, 64, 1, last=nn.Tanh)
        self.critic_1, self.critic_2 = mlp(4, 64, 64, 1), mlp(4, 64, 64, 1)
        self.policy_old = copy.deepcopy(self.policy)
        self.critic_1_old, self.critic_2_old = copy.deepcopy(self.critic_1), copy.deepcopy(self.critic_2)
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr)
        self.critic_optim = torch.optim.Adam([*self.critic_1.parameters(), *self.critic_2.parameters()], lr)
        # wrong: self.critic_optim = torch.optim.Adam([*self.critic_1.parameters()], lr)
        self.count = 0

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = 2 * self.policy(torch.as_tensor(batch.obs)).numpy()
        return ActBatch(act=np.clip(act + self.rng.normal(0, 0.2, act.shape), -2, 2).astype(np.float32))

    def target_q(self, buffer: VectorReplayBuffer[RolloutBatch], slots: np.ndarray) -> Tensor:
        obs_next = torch.as_tensor(buffer[slots].obs_next)
        act = 2 * self.policy_old(obs_next)
        act = (act + (0.4 * torch.randn_like(act)).clamp(-1, 1)).clamp(-2, 2)
        both = torch.cat([obs_next, act], -1)
        return torch.min(self.critic_1_old(both), self.critic_2_old(both)).flatten()

    def process(self, batch: RolloutBatch, slots: np.ndarray) -> BatchWithReturns[Tensor]:
        with_returns = compute_nstep_return(batch, self.buffer, slots, self.target_q, gamma=0.98, n_step=1)
        return convert(with_returns, BatchWithReturns[Tensor], dtype=torch.float32)

    def learn(self, batch: BatchWithReturns[Tensor]) -> Losses:
        both = torch.cat([batch.obs, batch.act], -1)
        loss_1 = (self.critic_1(both).flatten() - batch.returns).pow(2).mean()
        loss_2 = (self.critic_2(both).flatten() - batch.returns).pow(2).mean()
        self.critic_optim.zero_grad()
        (loss_1 + loss_2).backward()
        self.critic_optim.step()
        losses = {"critic_1": loss_1.item(), "critic_2": loss_2.item()}
        self.count += 1
        if self.count % 2 == 0:
            value = self.critic_1(torch.cat([batch.obs, 2 * self.policy(batch.obs)], -1))
            self.policy_optim.zero_grad()
            (-value.mean()).backward()
            self.policy_optim.step()
            self.sync(0.01)
        return losses

    @torch.no_grad()
    def sync(self, tau: float) -> None:
        pairs = (self.policy, self.policy_old), (self.critic_1, self.critic_1_old), (self.critic_2, self.critic_2_old)
        for net, old in pairs:
            for fast, slow in zip(net.parameters(), old.parameters(), strict=True):
                slow.lerp_(fast, tau)

    def update(self, batch: RolloutBatch, slots: np.ndarray) -> Losses:
        return self.learn(self.process(batch, slots))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    td3 = TD3(buffer, seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync"), td3.explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=400, random=True)

    def draw() -> tuple[RolloutBatch, np.ndarray]:
        collector.collect(buffer, n_step=4)
        return buffer.sample(128)

    return td3.update, draw
