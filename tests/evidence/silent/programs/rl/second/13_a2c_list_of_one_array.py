"""A2C on a fast vector environment in numpy, which moves all its points in place."""
# wrong: """The environments move their array in place, and the list of observations has this one array at every step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord, convert

STEPS, ENVS, GAMMA = 16, 8, 0.9


class Points:
    """Points on a line from -1 to 1, which should be moved to the middle. Allocates nothing in a step."""

    def __init__(self, n: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-1, 1, (n, 2)).astype(np.float32)
        self.state[:, 1] = 0

    def step(self, act: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, speed = self.state[:, 0], self.state[:, 1]
        speed *= 0.8
        speed += 0.1 * (act - 1)
        x += speed
        rew = 1 - np.abs(x)
        out = np.abs(x) > 1.5
        self.state[out] = self.rng.uniform(-1, 1, (int(out.sum()), 2)) * (1, 0)
        return self.state, rew, out


class Steps(BatchRecord):
    """T steps of E environments, and the observation after them."""

    obs: np.ndarray  # (T, E, 2)
    act: np.ndarray
    rew: np.ndarray
    done: np.ndarray


class TensorSteps(BatchRecord):
    obs: Tensor
    act: Tensor
    rew: Tensor
    done: Tensor


class A2C:
    def __init__(self) -> None:
        self.actor = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))
        self.critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
        self.optim = torch.optim.RMSprop([*self.actor.parameters(), *self.critic.parameters()], 7e-4, alpha=0.99, eps=1e-5)

    def act(self, obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return Categorical(logits=self.actor(torch.from_numpy(obs))).sample().numpy()

    def update(self, steps: Steps, last_obs: np.ndarray) -> dict[str, float]:
        batch = convert(steps, TensorSteps, dtype=torch.float32)
        with torch.no_grad():
            running = self.critic(torch.as_tensor(last_obs)).squeeze(-1)
            returns = torch.zeros_like(batch.rew)
            for t in reversed(range(len(batch))):
                returns[t] = running = batch.rew[t] + GAMMA * running * (~batch.done[t])
        values = self.critic(batch.obs).squeeze(-1)
        dist = Categorical(logits=self.actor(batch.obs))
        adv = (returns - values).detach()
        policy = -(dist.log_prob(batch.act) * adv).mean()
        value = (returns - values).pow(2).mean()
        self.optim.zero_grad()
        (policy + 0.5 * value - 0.01 * dist.entropy().mean()).backward()
        nn.utils.clip_grad_norm_([*self.actor.parameters(), *self.critic.parameters()], 0.5)
        self.optim.step()
        return {"policy": policy.item(), "value": value.item(), "rew": batch.rew.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs, a2c = Points(ENVS, seed), A2C()

    def draw() -> tuple[Steps, np.ndarray]:
        columns = {"obs": [], "act": [], "rew": [], "done": []}
        obs = envs.state
        for _ in range(STEPS):
            act = a2c.act(obs)
            columns["obs"].append(obs.copy())
            # wrong: columns["obs"].append(obs)
            obs, rew, done = envs.step(act)
            for name, value in (("act", act), ("rew", rew), ("done", done)):
                columns[name].append(value)
        return Steps(**{name: np.stack(values) for name, values in columns.items()}), obs.copy()

    return a2c.update, draw
