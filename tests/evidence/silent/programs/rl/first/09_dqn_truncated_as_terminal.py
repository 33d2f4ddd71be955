"""DQN (dueling) on CartPole with a time limit of 30 steps."""
# wrong: """An episode that was cut off by the time limit has no value behind it, as if it were terminated."""
# Source: arXiv:1712.00378 (Time Limits in RL); `handle_timeout_termination` of SB3.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)


class DuelingNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 64), nn.ReLU())
        self.value, self.advantage = nn.Linear(64, 1), nn.Linear(64, 2)

    def forward(self, obs: Tensor) -> Tensor:
        hidden = self.features(obs)
        advantage = self.advantage(hidden)
        return self.value(hidden) + advantage - advantage.mean(-1, keepdim=True)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = DuelingNet()
    target = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    gamma, tau = 0.97, 0.02

    def explore(batch: ObsBatch) -> ActBatch:
        greedy = net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        # pushes the cart to where the pole leans, to reach the time limit
        lean = (batch.obs[:, 2] + 0.5 * batch.obs[:, 3] > 0).astype(np.int64)
        return ActBatch(act=np.where(rng.random(len(greedy)) < 0.8, lean, greedy))

    envs = gym.make_vec("CartPole-v1", 4, vectorization_mode="sync", max_episode_steps=30)
    collector = Collector(envs, explore)
    collector.reset(seed=seed)
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector.collect(buffer, n_step=800)

    def update(sample: RolloutBatch) -> dict[str, float]:
        batch = convert(sample, RolloutBatch[Tensor], dtype=torch.float32)
        with torch.no_grad():
            not_done = 1.0 - batch.terminated.float()
            # wrong: not_done = 1.0 - (batch.terminated | batch.truncated).float()
            y = batch.rew + gamma * not_done * target(batch.obs_next).amax(-1)
        q = net(batch.obs)[torch.arange(len(batch)), batch.act]
        loss = (q - y).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
                slow.mul_(1 - tau).add_(fast, alpha=tau)
        return {"loss": loss.item()}

    def draw() -> tuple[RolloutBatch]:
        collector.collect(buffer, n_step=16)
        return (buffer.sample(128)[0],)

    return update, draw
