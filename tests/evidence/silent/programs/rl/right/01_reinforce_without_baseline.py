"""REINFORCE on whole episodes of CartPole, without baseline or critic; the next observations are never read."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, convert, extend
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, EPISODES, ENVS = 0.99, 8, 4


def rewards_to_go(rollout: RolloutBatch) -> BatchWithReturns:
    """Sums within whole episodes, in numpy; nothing follows the last step of one."""
    returns, running = np.zeros(len(rollout), np.float32), 0.0
    ends = rollout.terminated | rollout.truncated
    for i in reversed(range(len(rollout))):
        running = rollout.rew[i] + GAMMA * running * (not ends[i])
        returns[i] = running
    return extend(rollout, BatchWithReturns, returns=returns)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    policy = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2))
    optim = torch.optim.Adam(policy.parameters(), 5e-3)

    def act(batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=Categorical(logits=policy(torch.as_tensor(batch.obs))).sample())

    collector = Collector(gym.make_vec("CartPole-v1", ENVS, vectorization_mode="sync"), act)
    collector.reset(seed=seed)

    def draw() -> tuple[RolloutBatch]:
        buffer = VectorReplayBuffer[RolloutBatch](ENVS * 2_000, ENVS)
        collector.collect(buffer, n_episode=EPISODES)
        return (buffer[buffer.sample_indices(0)],)

    def update(rollout: RolloutBatch) -> dict[str, float]:
        batch = convert(rewards_to_go(rollout), BatchWithReturns[Tensor], dtype=torch.float32)
        weight = (batch.returns - batch.returns.mean()) / (batch.returns.std() + 1e-8)
        logp = Categorical(logits=policy(batch.obs)).log_prob(batch.act)
        loss = -(logp * weight).sum() / EPISODES  # a sum over the steps of an episode, a mean over episodes
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
        optim.step()
        return {"loss": loss.item(), "length": len(batch) / EPISODES}

    return update, draw
