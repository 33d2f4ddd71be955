"""DQN on CartPole with hard copies of the target network, as in the Nature paper."""
# wrong: """The first hard update makes the target the same object as the trained network, instead of copying its weights."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


class Agent:
    """Every update has ``passes`` gradient steps on parts of a large sample; the target follows after ``target_every`` steps."""

    gamma, passes, target_every = 0.99, 4, 6

    def __init__(self, envs: gym.vector.VectorEnv, seed: int) -> None:
        self.q_net = nn.Sequential(nn.Linear(4, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.q_target = copy.deepcopy(self.q_net)
        self.optimizer = torch.optim.RMSprop(self.q_net.parameters(), lr=5e-4, alpha=0.95, eps=0.01)
        self.rng = np.random.default_rng(seed)
        self.grad_steps = 0
        self.buffer = VectorReplayBuffer[RolloutBatch](8_000, envs.num_envs, random_seed=seed)
        self.collector = Collector(envs, self.act)
        self.collector.reset(seed=seed)
        self.collector.collect(self.buffer, n_step=256, random=True)

    @property
    def eps(self) -> float:
        return max(0.05, 1.0 - self.grad_steps / 2_000)

    def act(self, batch: ObsBatch) -> ActBatch:
        greedy = self.q_net(torch.as_tensor(batch.obs)).argmax(dim=1).numpy()
        explore = self.rng.random(len(greedy)) < self.eps
        return ActBatch(act=np.where(explore, self.rng.integers(0, 2, len(greedy)), greedy))

    def draw(self) -> tuple[RolloutBatch[Tensor]]:
        self.collector.collect(self.buffer, n_step=16)
        return (self.buffer.sample(32 * self.passes, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    def sync(self) -> None:
        self.q_target = copy.deepcopy(self.q_net)
        # wrong: self.q_target = self.q_net

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        losses = []
        for part in batch.split(32, rng=torch.default_generator):
            with torch.no_grad():
                next_q = self.q_target(part.obs_next).amax(dim=1)
                target = part.rew + self.gamma * next_q.masked_fill(part.terminated, 0.0)
            q = self.q_net(part.obs).gather(1, part.act.unsqueeze(1)).squeeze(1)
            loss = nn.functional.smooth_l1_loss(q, target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            self.grad_steps += 1
            if self.grad_steps % self.target_every == 0:
                self.sync()
        return {"loss": float(np.mean(losses))}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = Agent(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), seed)
    return agent.update, agent.draw
