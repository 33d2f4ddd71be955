"""n-step DQN with a deque of the last steps, one environment and a loop by hand."""
# wrong: """The window of the last n steps is not cleared at the end of an episode: returns begin in one episode and end in the next."""
# Source: common in ports of Rainbow ("n_step_buffer.clear()" is missing); RLMutation's Missing Terminal State is its relative.
from __future__ import annotations

from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import ReplayBuffer

N, GAMMA, EPS, COPY = 3, 0.98, 0.3, 20


class NStep:
    """Makes a transition over N steps of the last N transitions."""

    def __init__(self) -> None:
        self.window: deque[tuple[np.ndarray, int, float]] = deque(maxlen=N)

    def push(self, obs: np.ndarray, act: int, rew: float) -> None:
        self.window.append((obs, act, rew))

    def oldest(self) -> tuple[np.ndarray, int, float]:
        obs, act, _ = self.window[0]
        return obs, act, sum(GAMMA**k * rew for k, (_, _, rew) in enumerate(self.window))

    def ready(self) -> bool:
        return len(self.window) == N

    def clear(self) -> None:
        self.window.clear()


class Player:
    def __init__(self, net: nn.Module, seed: int) -> None:
        self.env, self.net, self.rng = gym.make("CartPole-v1"), net, np.random.default_rng(seed)
        self.obs, _ = self.env.reset(seed=seed)
        self.recent = NStep()

    @torch.no_grad()
    def act(self) -> int:
        if self.rng.random() < EPS:
            return int(self.rng.integers(2))
        return int(self.net(torch.as_tensor(self.obs)).argmax())

    def play(self, buffer: ReplayBuffer[RolloutBatch], steps: int) -> None:
        for _ in range(steps):
            act = self.act()
            obs_next, rew, terminated, truncated, _ = self.env.step(act)
            self.recent.push(self.obs, act, float(rew))
            if self.recent.ready():
                obs, first_act, total = self.recent.oldest()
                buffer.add(
                    RolloutBatch(
                        obs=obs, act=np.array(first_act), rew=np.array(total), obs_next=obs_next,
                        terminated=np.array(terminated), truncated=np.array(truncated), info=Batch(),
                    )
                )
            self.obs = obs_next
            if terminated or truncated:
                self.obs, _ = self.env.reset()
                self.recent.clear()
                # wrong: without this line


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    net, target = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
    target.load_state_dict(net.state_dict())
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    player, buffer = Player(net, seed), ReplayBuffer[RolloutBatch](5_000, random_seed=seed)
    player.play(buffer, 300)
    count = 0

    def draw() -> tuple[RolloutBatch[Tensor]]:
        player.play(buffer, 60)
        return (buffer.sample(256, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        nonlocal count
        for part in batch.split(64, rng=torch.default_generator):
            with torch.no_grad():
                y = part.rew + GAMMA**N * (~part.terminated).float() * target(part.obs_next).amax(-1)
            loss = F.smooth_l1_loss(net(part.obs).gather(-1, part.act[:, None]).squeeze(-1), y)
            optim.zero_grad()
            loss.backward()
            optim.step()
            count += 1
            if count % COPY == 0:
                target.load_state_dict(net.state_dict())
        return {"loss": loss.item()}

    return update, draw
