"""n-step DQN that discounts the bootstrapped value by gamma to the power of the steps taken."""
# wrong: """The value after n steps is discounted by gamma once instead of by gamma to the power of the steps."""

import random
from collections import deque

import gymnasium as gym
import torch
from torch import Tensor, nn

from typedbatch import BatchRecord


class Span(BatchRecord):
    """Several steps as one: what was gained in ``steps`` steps, and where they led."""

    obs: Tensor
    act: Tensor
    gain: Tensor
    steps: Tensor
    obs_after: Tensor
    ended: Tensor


class NStepMemory:
    def __init__(self, n: int, gamma: float, capacity: int) -> None:
        self.n, self.gamma = n, gamma
        self.window: deque = deque()
        self.rows: deque = deque(maxlen=capacity)

    def push(self, obs, act, rew, obs_next, terminated, truncated) -> None:
        self.window.append((obs, act, rew))
        if terminated or truncated:
            while self.window:
                self._close(obs_next, terminated)
        elif len(self.window) == self.n:
            self._close(obs_next, False)

    def _close(self, obs_after, ended: bool) -> None:
        gain = sum(self.gamma**i * rew for i, (_, _, rew) in enumerate(self.window))
        steps = len(self.window)
        obs, act, _ = self.window.popleft()
        self.rows.append((torch.as_tensor(obs), torch.tensor(act), torch.tensor(gain, dtype=torch.float32),
                          torch.tensor(steps), torch.as_tensor(obs_after), torch.tensor(ended)))

    def sample(self, size: int) -> Span:
        columns = map(torch.stack, zip(*random.sample(self.rows, size)))
        return Span(**dict(zip(("obs", "act", "gain", "steps", "obs_after", "ended"), columns)))


class Learner:
    def __init__(self, gamma: float = 0.97, lr: float = 1e-3) -> None:
        self.gamma = gamma
        self.net, self.frozen = (
            nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2)) for _ in range(2))
        self.frozen.load_state_dict(self.net.state_dict())
        self.optim = torch.optim.RMSprop(self.net.parameters(), lr)
        self.calls = 0

    def act(self, obs, eps: float) -> int:
        if random.random() < eps:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.net(torch.as_tensor(obs)).argmax())

    def update(self, batch: Span) -> dict[str, float]:
        with torch.no_grad():
            best = self.frozen(batch.obs_after).max(-1).values
            discount = self.gamma**batch.steps
            # wrong: discount = self.gamma
            target = batch.gain + discount * best.masked_fill(batch.ended, 0.0)
        value = self.net(batch.obs)[torch.arange(len(batch)), batch.act]
        loss = nn.functional.mse_loss(value, target)
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.optim.step()
        self.calls += 1
        if self.calls % 50 == 0:
            self.frozen.load_state_dict(self.net.state_dict())
        return {"loss": loss.item(), "value": value.mean().item(), "target": target.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    random.seed(seed)
    env, learner = gym.make("CartPole-v1"), Learner()
    memory = NStepMemory(5, learner.gamma, 10_000)
    obs, _ = env.reset(seed=seed)

    def play(steps: int, eps: float) -> None:
        nonlocal obs
        for _ in range(steps):
            act = learner.act(obs, eps)
            obs_next, rew, terminated, truncated, _ = env.step(act)
            memory.push(obs, act, rew, obs_next, terminated, truncated)
            obs = env.reset()[0] if terminated or truncated else obs_next

    play(400, 1.0)

    def draw() -> tuple[Span]:
        play(10, 0.1)
        return (memory.sample(64),)

    return learner.update, draw
