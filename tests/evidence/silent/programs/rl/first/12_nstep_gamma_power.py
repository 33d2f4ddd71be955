"""DQN with hand-written n-step transitions on CartPole (a deque of the last n steps, as in many Rainbow implementations)."""
# wrong: """The value after n steps is discounted by gamma, not by gamma to the power of n."""
# Happens when one-step code becomes n-step code; Rainbow, arXiv:1710.02298 (no single source).
from __future__ import annotations

import copy
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import ReplayBuffer

torch.set_num_threads(1)
GAMMA, N_STEP = 0.95, 4


class NStep:
    """The last steps of an episode, added to the buffer as one transition each."""

    def __init__(self, buffer: ReplayBuffer[RolloutBatch]) -> None:
        self.buffer, self.steps = buffer, deque(maxlen=N_STEP)

    def push(self, obs, act, rew, obs_next, terminated, truncated) -> None:
        self.steps.append((obs, act, rew))
        if len(self.steps) == N_STEP:
            self.flush(obs_next, terminated)
        if terminated:  # shorter windows, which nothing follows
            while len(self.steps) > 1:
                self.steps.popleft()
                self.flush(obs_next, terminated)
        if terminated or truncated:
            self.steps.clear()

    def flush(self, obs_next, terminated) -> None:
        obs, act, _ = self.steps[0]
        rew = sum(GAMMA**i * step[2] for i, step in enumerate(self.steps))
        self.buffer.add(RolloutBatch(
            obs=obs, act=np.array(act), rew=np.array(rew), obs_next=obs_next, terminated=np.array(terminated),
            truncated=np.array(not terminated), info=Batch()))


class Agent:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dqn = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
        self.dqn_target = copy.deepcopy(self.dqn).eval()
        self.optimizer = torch.optim.Adam(self.dqn.parameters(), 1e-3)

    @torch.no_grad()
    def select_action(self, obs) -> int:
        if self.rng.random() < 0.3:
            return int(self.rng.integers(2))
        return int(self.dqn(torch.as_tensor(obs)).argmax())

    def compute_loss(self, samples: RolloutBatch[Tensor]) -> Tensor:
        curr_q = self.dqn(samples.obs).gather(1, samples.act.reshape(-1, 1))
        with torch.no_grad():
            next_q = self.dqn_target(samples.obs_next).gather(1, self.dqn(samples.obs_next).argmax(1, keepdim=True))
        mask = 1 - samples.terminated.float().reshape(-1, 1)
        target = samples.rew.reshape(-1, 1) + GAMMA**N_STEP * next_q * mask
        # wrong: target = samples.rew.reshape(-1, 1) + GAMMA * next_q * mask
        return nn.functional.smooth_l1_loss(curr_q, target)

    def update(self, samples: RolloutBatch[Tensor]) -> dict[str, float]:
        loss = self.compute_loss(samples)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.dqn.parameters(), 10.0)
        self.optimizer.step()
        with torch.no_grad():
            for t, s in zip(self.dqn_target.parameters(), self.dqn.parameters(), strict=True):
                t.lerp_(s, 0.01)
        return {"loss": loss.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    env = gym.make("CartPole-v1")
    agent, buffer = Agent(seed), ReplayBuffer[RolloutBatch](2_000, random_seed=seed)
    memory, state = NStep(buffer), {"obs": env.reset(seed=seed)[0]}

    def play(steps: int) -> None:
        for _ in range(steps):
            act = agent.select_action(state["obs"])
            obs_next, rew, terminated, truncated, _ = env.step(act)
            memory.push(state["obs"], act, rew, obs_next, terminated, truncated)
            state["obs"] = env.reset()[0] if terminated or truncated else obs_next

    play(200)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        play(8)
        return (buffer.sample(32, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return agent.update, draw
