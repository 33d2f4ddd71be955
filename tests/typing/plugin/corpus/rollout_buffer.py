"""A rollout buffer in the manner of Stable-Baselines3: reset, add, compute, get."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord


class RolloutSamples(BatchRecord):
    observations: Tensor
    actions: Tensor
    old_values: Tensor
    old_log_prob: Tensor
    advantages: Tensor
    returns: Tensor


class RolloutBuffer:
    def __init__(self, buffer_size: int, n_envs: int, obs_dim: int, gamma: float = 0.99, gae_lambda: float = 0.95) -> None:
        self.buffer_size, self.n_envs, self.obs_dim = buffer_size, n_envs, obs_dim
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.reset()

    def reset(self) -> None:
        shape = (self.buffer_size, self.n_envs)
        self.data = Batch(
            observations=np.zeros((*shape, self.obs_dim), np.float32),
            actions=np.zeros(shape, np.int64),
            rewards=np.zeros(shape, np.float32),
            episode_starts=np.zeros(shape, np.float32),
            old_values=np.zeros(shape, np.float32),
            log_probs=np.zeros(shape, np.float32),
        )
        self.data.advantages = np.zeros(shape, np.float32)
        self.pos = 0

    @property
    def full(self) -> bool:
        return self.pos == self.buffer_size

    def add(self, obs: np.ndarray, action: np.ndarray, reward: np.ndarray, start: np.ndarray, value: Tensor, log_prob: Tensor) -> None:
        self.data.observations[self.pos] = obs
        #! misspelt-read: self.data.obs[self.pos] = obs
        self.data.actions[self.pos] = action
        self.data.rewards[self.pos] = reward
        self.data.episode_starts[self.pos] = start
        #! misspelt-read: self.data.episode_start[self.pos] = start
        self.data.old_values[self.pos] = value.numpy()
        self.data.log_probs[self.pos] = log_prob.numpy()
        self.pos += 1

    def compute_returns_and_advantage(self, last_values: Tensor, dones: np.ndarray) -> None:
        last_gae = np.zeros(self.n_envs, np.float32)
        for step in reversed(range(self.buffer_size)):
            if step == self.buffer_size - 1:
                non_terminal, next_values = 1.0 - dones, last_values.numpy()
            else:
                non_terminal = 1.0 - self.data.episode_starts[step + 1]
                next_values = self.data.old_values[step + 1]
                #! misspelt-read: next_values = self.data.values_[step + 1]
            delta = self.data.rewards[step] + self.gamma * next_values * non_terminal - self.data.old_values[step]
            #! old-name: delta = self.data.rew[step] + self.gamma * next_values * non_terminal - self.data.old_values[step]
            last_gae = delta + self.gamma * self.gae_lambda * non_terminal * last_gae
            self.data.advantages[step] = last_gae
        self.data.returns = self.data.advantages + self.data.old_values

    def get(self, batch_size: int) -> Generator[RolloutSamples, None, None]:
        assert self.full
        flat = self.data.apply_values_transform(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:])).to_torch()
        #! wrong-kind: flat = self.data.apply_values_transform(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]))
        order = torch.randperm(self.buffer_size * self.n_envs)
        for start in range(0, len(order), batch_size):
            part = flat[order[start : start + batch_size]]
            yield RolloutSamples(observations=part["observations"], actions=part["actions"], old_values=part["old_values"], old_log_prob=part["log_probs"], advantages=part["advantages"], returns=part["returns"])
            #! misspelt-keyword: yield RolloutSamples(observations=part["observations"], actions=part["actions"], old_values=part["old_values"], log_prob=part["log_probs"], advantages=part["advantages"], returns=part["returns"])


def train(net: nn.Module, buffer: RolloutBuffer, optim: torch.optim.Optimizer) -> float:
    losses = []
    for samples in buffer.get(16):
        out = net(samples.observations)
        logp = torch.log_softmax(out[:, :2], -1).gather(1, samples.actions[:, None]).squeeze(1)
        ratio = torch.exp(logp - samples.old_log_prob)
        #! misspelt-read: ratio = torch.exp(logp - samples.log_prob)
        loss = -(ratio * samples.advantages).mean() + (out[:, 2] - samples.returns).pow(2).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        losses.append(loss.item())
    return float(np.mean(losses))


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
    optim = torch.optim.Adam(net.parameters(), lr=3e-3)
    buffer = RolloutBuffer(8, n_envs=4, obs_dim=3)
    obs, starts = rng.normal(size=(4, 3)).astype(np.float32), np.ones(4)
    for iteration in range(3):
        buffer.reset()
        while not buffer.full:
            with torch.no_grad():
                out = net(torch.as_tensor(obs))
            dist = torch.distributions.Categorical(logits=out[:, :2])
            action = dist.sample()
            reward = obs[:, 0] * (2 * action.numpy() - 1)
            buffer.add(obs, action.numpy(), reward, starts, out[:, 2], dist.log_prob(action))
            obs, starts = rng.normal(size=(4, 3)).astype(np.float32), (rng.random(4) < 0.1).astype(float)
        with torch.no_grad():
            last_values = net(torch.as_tensor(obs))[:, 2]
        buffer.compute_returns_and_advantage(last_values, starts)
        print(f"{iteration} {train(net, buffer, optim):.4f}")


if __name__ == "__main__":
    main()
