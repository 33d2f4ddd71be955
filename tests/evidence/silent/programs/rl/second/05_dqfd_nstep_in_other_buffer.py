"""DQN from demonstrations (DQfD) on CartPole: half of each sample is an expert's, with n-step returns and a margin loss."""
# wrong: """The n-step returns of the demonstrations are computed in the agent's buffer, at the slots of the other buffer."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, cat, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, add_nstep

GAMMA, N_STEP, MARGIN, ENVS = 0.99, 3, 0.8, 4
Slots = NDArray[np.intp]


def expert(batch: ObsBatch) -> ActBatch:
    return ActBatch(act=(batch.obs[:, 2] + 0.5 * batch.obs[:, 3] > 0).astype(np.int64))


class DQfD:
    def __init__(self, demos: VectorReplayBuffer, own: VectorReplayBuffer, seed: int) -> None:
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.target = copy.deepcopy(self.net)
        self.optim = torch.optim.Adam(self.net.parameters(), 1e-3, weight_decay=1e-5)
        self.demos, self.own = demos, own
        self.rng = np.random.default_rng(seed)

    def explore(self, batch: ObsBatch) -> ActBatch:
        best = self.net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(self.rng.random(len(best)) < 0.05, self.rng.integers(0, 2, len(best)), best))

    def value(self, obs: NDArray[np.floating]) -> Tensor:
        obs = torch.as_tensor(obs)
        best = self.net(obs).argmax(-1, keepdim=True)
        return self.target(obs).gather(-1, best).squeeze(-1)

    def update(self, demo: RolloutBatch, demo_slots: Slots, own: RolloutBatch, own_slots: Slots) -> dict[str, float]:
        demo = add_nstep(demo, self.demos, demo_slots, self.value, gamma=GAMMA, n=N_STEP)
        # wrong: demo = add_nstep(demo, self.own, demo_slots, self.value, gamma=GAMMA, n=N_STEP)
        own = add_nstep(own, self.own, own_slots, self.value, gamma=GAMMA, n=N_STEP)
        batch = convert(cat([demo, own]), BatchWithReturns[Tensor], dtype=torch.float32)
        q = self.net(batch.obs)
        chosen = q.gather(1, batch.act[:, None]).squeeze(1)
        td = nn.functional.smooth_l1_loss(chosen, batch.returns)
        n = len(demo)
        margins = torch.full_like(q[:n], MARGIN).scatter(1, batch.act[:n, None], 0.0)
        margin = ((q[:n] + margins).amax(1) - chosen[:n]).mean()
        self.optim.zero_grad()
        (td + margin).backward()
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return {"td": td.item(), "margin": margin.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec("CartPole-v1", ENVS, vectorization_mode="sync")
    demos = VectorReplayBuffer[RolloutBatch](1_600, ENVS, random_seed=seed)
    own = VectorReplayBuffer[RolloutBatch](1_600, ENVS, random_seed=seed + 1)
    teacher = Collector(envs, expert)
    teacher.reset(seed=seed)
    teacher.collect(demos, n_step=1_200)
    dqfd = DQfD(demos, own, seed)
    collector = Collector(gym.make_vec("CartPole-v1", ENVS, vectorization_mode="sync"), dqfd.explore)
    collector.reset(seed=seed + 1)
    collector.collect(own, n_step=1_600, random=True)

    def draw() -> tuple[RolloutBatch, Slots, RolloutBatch, Slots]:
        collector.collect(own, n_step=8)
        return *demos.sample(32), *own.sample(32)

    return dqfd.update, draw
