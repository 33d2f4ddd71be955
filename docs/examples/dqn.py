"""DQN with n-step returns and a target network (arXiv:1312.5602) on CartPole: ``python docs/examples/dqn.py [seed]``.

With ``prioritized`` behind the seed, transitions with larger errors are sampled more often (arXiv:1511.05952).
"""

from __future__ import annotations

import copy
import sys

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, PrioBatch, RolloutBatch, convert
from typedbatch.buffers import PrioritizedVectorReplayBuffer
from typedbatch.training import Collector, Losses, add_nstep, evaluate, off_policy

Slots = NDArray[np.intp]
Buffer = PrioritizedVectorReplayBuffer[RolloutBatch, PrioBatch]

GAMMA, N_STEP, TAU = 0.99, 3, 0.01
LEARNING_RATE, BATCH = 1e-3, 128


class DQN:
    """Action values, of a network and of its slow copy."""

    def __init__(self, buffer: Buffer, seed: int, prioritized: bool) -> None:
        self.net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
        self.target = copy.deepcopy(self.net)
        self.optim = torch.optim.Adam(self.net.parameters(), LEARNING_RATE)
        self.buffer, self.prioritized = buffer, prioritized
        self.eps, self.rng = 1.0, np.random.default_rng(seed)

    def best(self, obs: NDArray[np.floating]) -> NDArray[np.int64]:
        act: NDArray[np.int64] = self.net(torch.as_tensor(obs)).argmax(-1).numpy()
        return act

    def greedy(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=self.best(batch.obs))

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.best(batch.obs)
        random = self.rng.random(len(act)) < self.eps
        return ActBatch(act=np.where(random, self.rng.integers(0, 2, len(act)), act))

    def anneal(self, step: int) -> None:
        self.eps = max(0.05, 1 - step / 5_000)

    def value(self, array: NDArray[np.floating]) -> Tensor:
        """Return the target's value of the action that the network finds best (double DQN, arXiv:1509.06461)."""
        obs = torch.as_tensor(array)
        best = self.net(obs).argmax(-1, keepdim=True)
        value: Tensor = self.target(obs).gather(-1, best).squeeze(-1)
        return value

    def process(self, batch: PrioBatch, slots: Slots) -> BatchWithReturns[Tensor]:
        with_returns = add_nstep(batch, self.buffer, slots, self.value, gamma=GAMMA, n=N_STEP)
        return convert(with_returns, BatchWithReturns[Tensor])

    def learn(self, batch: BatchWithReturns[Tensor], weight: Tensor) -> Tensor:
        """A step down the gradient; how far each value was off."""
        value = self.net(batch.obs).gather(-1, batch.act[:, None]).squeeze(-1)
        self.optim.zero_grad()
        (weight * nn.functional.smooth_l1_loss(value, batch.returns, reduction="none")).mean().backward()
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, TAU)
        return (value.detach() - batch.returns).abs()

    def update(self, batch: PrioBatch, slots: Slots) -> Losses:
        errors = self.learn(self.process(batch, slots), torch.as_tensor(batch.weight))
        if self.prioritized:  # else all priorities stay the same
            self.buffer.update_weight(slots, errors)
        return {"td": errors.mean().item()}


def main(seed: int = 0, prioritized: bool = False, epochs: int = 50) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs, tests = gym.make_vec("CartPole-v1", 8), gym.make_vec("CartPole-v1", 10)
    buffer = Buffer(50_000, 8, alpha=0.6, beta=0.4, random_seed=seed)
    dqn = DQN(buffer, seed, prioritized)
    collector = Collector(envs, dqn.explore)
    collector.reset(seed)
    training = off_policy(
        collector,
        buffer,
        dqn.update,
        n_step=8,
        updates_per_step=0.25,
        batch_size=BATCH,
        epoch_steps=2_000,
        epochs=epochs,
        warmup=1_000,
        before=dqn.anneal,
    )
    for epoch in training:
        score = evaluate(tests, dqn.greedy, 20, seed=seed + 1000).mean
        collected, error = epoch.collected.mean, epoch.losses.get("td", 0.0)
        print(f"{epoch.step:6} steps, collected {collected:5.1f}, mean return {score:5.1f}, error {error:6.3f}")
        if score >= 475:
            break


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 0, prioritized="prioritized" in sys.argv)
