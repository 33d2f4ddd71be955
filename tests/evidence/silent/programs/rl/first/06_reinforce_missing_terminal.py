"""REINFORCE with a learned baseline on CartPole; returns are summed by hand, episode by episode."""
# wrong: """Returns are not reset where an episode was terminated (only where it was cut off): rewards of the next episode count too."""
# Source: RLMutation, Missing Terminal State (MTS), arXiv:2301.05651.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector

torch.set_num_threads(1)


def rewards_to_go(batch: RolloutBatch, last_value: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
    """Discounted sums up to the end of each episode, and the value behind it if it was only cut off."""
    returns, running = np.zeros(len(batch), np.float32), 0.0
    for t in reversed(range(len(batch))):
        if batch.terminated[t]:
        # wrong: if batch.truncated[t]:
            running = 0.0
            # wrong: without this line
        elif batch.truncated[t]:
        # wrong: without this line
            running = last_value[t]
        running = batch.rew[t] + gamma * running
        returns[t] = running
    return returns


class Reinforce:
    def __init__(self, gamma: float = 0.98, lr: float = 3e-3) -> None:
        self.gamma = gamma
        self.policy = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.baseline = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr)
        self.baseline_optim = torch.optim.Adam(self.baseline.parameters(), lr)

    def act(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=Categorical(logits=self.policy(torch.as_tensor(batch.obs))).sample())

    def process(self, batch: RolloutBatch) -> BatchWithReturns[Tensor]:
        with torch.no_grad():
            last_value = self.baseline(torch.as_tensor(batch.obs_next)).squeeze(-1).numpy()
        with_returns = extend(batch, BatchWithReturns, returns=rewards_to_go(batch, last_value, self.gamma))
        return convert(with_returns, BatchWithReturns[Tensor], dtype=torch.float32)

    def learn(self, batch: BatchWithReturns[Tensor]) -> dict[str, float]:
        value = self.baseline(batch.obs).squeeze(-1)
        with torch.no_grad():
            adv = batch.returns - value
            adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        policy_loss = -(Categorical(logits=self.policy(batch.obs)).log_prob(batch.act) * adv).mean()
        self.policy_optim.zero_grad()
        policy_loss.backward()
        self.policy_optim.step()
        baseline_loss = nn.functional.mse_loss(value, batch.returns)
        self.baseline_optim.zero_grad()
        baseline_loss.backward()
        self.baseline_optim.step()
        return {"policy": policy_loss.item(), "baseline": baseline_loss.item()}

    def update(self, batch: RolloutBatch) -> dict[str, float]:
        return self.learn(self.process(batch))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    algorithm = Reinforce()
    collector = Collector(gym.make_vec("CartPole-v1", 4), algorithm.act)
    collector.reset(seed=seed)
    return algorithm.update, lambda: (collector.rollout(400),)
