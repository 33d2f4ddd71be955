"""DQN on a chain with a ring buffer of its own, allocated from the first transition."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from typedbatch import Batch

N_STATES = 8


class Ring:
    """Preallocated storage; the oldest rows are overwritten."""

    def __init__(self, capacity: int, seed: int = 0) -> None:
        self.capacity = capacity
        self.rng = np.random.default_rng(seed)
        self.storage = Batch(
            obs=np.zeros((capacity, N_STATES), np.float32),
            act=np.zeros(capacity, np.int64),
            rew=np.zeros(capacity, np.float32),
            obs_next=np.zeros((capacity, N_STATES), np.float32),
            terminated=np.zeros(capacity, bool),
        )
        self.pos = 0
        self.full = False

    def __len__(self) -> int:
        return self.capacity if self.full else self.pos

    def add(self, obs: np.ndarray, act: int, rew: float, obs_next: np.ndarray, terminated: bool) -> None:
        self.storage.obs[self.pos] = obs
        self.storage.act[self.pos] = act
        #! misspelt-read: self.storage.action[self.pos] = act
        self.storage.rew[self.pos] = rew
        self.storage.obs_next[self.pos] = obs_next
        #! misspelt-read: self.storage.next_obs[self.pos] = obs_next
        self.storage.terminated[self.pos] = terminated
        #! old-name: self.storage.done[self.pos] = terminated
        self.pos = (self.pos + 1) % self.capacity
        self.full = self.full or self.pos == 0

    def sample(self, size: int) -> Batch:
        index = self.rng.integers(0, len(self), size=size)
        return self.storage[index]

    def mean_reward(self) -> float:
        return float(self.storage[: len(self)].rew.mean())
        #! misspelt-read: return float(self.storage[: len(self)].reward.mean())


def one_hot(state: int) -> np.ndarray:
    out = np.zeros(N_STATES, np.float32)
    out[state] = 1.0
    return out


def step(state: int, action: int) -> tuple[int, float, bool]:
    state = min(max(state + (1 if action == 1 else -1), 0), N_STATES - 1)
    return state, float(state == N_STATES - 1), state == N_STATES - 1


def update(q: nn.Module, target: nn.Module, optim: torch.optim.Optimizer, sampled: Batch, gamma: float) -> float:
    batch = sampled.to_torch()
    #! misspelt-method: batch = sampled.to_tensor()
    with torch.no_grad():
        best = target(batch["obs_next"]).max(dim=1).values
        goal = batch["rew"] + gamma * best * (~batch["terminated"]).float()
        #! old-name: goal = batch["rew"] + gamma * best * (~batch["done"]).float()
    batch.td_target = goal
    chosen = q(batch["obs"]).gather(1, batch["act"][:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(chosen, batch.td_target)
    #! misspelt-read: loss = nn.functional.smooth_l1_loss(chosen, batch.td_targets)
    optim.zero_grad()
    loss.backward()
    optim.step()
    return loss.item()


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    q = nn.Linear(N_STATES, 2)
    target = nn.Linear(N_STATES, 2)
    target.load_state_dict(q.state_dict())
    optim = torch.optim.Adam(q.parameters(), lr=5e-2)
    ring = Ring(128)
    state, loss = 0, 0.0
    for t in range(400):
        eps = max(0.1, 1 - t / 200)
        with torch.no_grad():
            greedy = int(q(torch.as_tensor(one_hot(state))).argmax())
        action = int(rng.integers(2)) if rng.random() < eps else greedy
        after, rew, ended = step(state, action)
        ring.add(one_hot(state), action, rew, one_hot(after), ended)
        state = 0 if ended else after
        if len(ring) >= 32 and t % 4 == 0:
            loss = update(q, target, optim, ring.sample(32), gamma=0.95)
        if t % 50 == 0:
            target.load_state_dict(q.state_dict())
    print(f"loss {loss:.4f} reward {ring.mean_reward():.4f}")


if __name__ == "__main__":
    main()
