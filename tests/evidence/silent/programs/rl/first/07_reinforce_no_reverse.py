"""REINFORCE on whole episodes of CartPole, as in PyTorch's example."""
# wrong: """The list of returns, built from the last step to the first, is not reversed: returns of the wrong steps."""
# Source: RLMutation, No Reverse (NR), arXiv:2301.05651.
from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, ObsBatch, RolloutBatch, cat, convert
from typedbatch.episodes import split_by_episode
from typedbatch.training import Collector

torch.set_num_threads(1)


class Trajectory(RolloutBatch[Tensor]):
    """An episode with its returns."""

    returns: Tensor


def finish_episode(episode: RolloutBatch[Tensor], gamma: float) -> Trajectory:
    R, returns = 0.0, []
    for r in episode.rew.flip(0).tolist():
        R = r + gamma * R
        returns.append(R)
    returns.reverse()
    # wrong: without this line
    fields = {name: episode[name] for name in ("obs", "obs_next", "act", "rew", "terminated", "truncated", "info")}
    return Trajectory(**fields, returns=torch.tensor(returns))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    eps = 1e-8

    def select_action(batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=Categorical(logits=policy(torch.as_tensor(batch.obs))).sample())

    def record(rollout: RolloutBatch, choice: ActBatch[Tensor]) -> RolloutBatch[Tensor]:
        return convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)

    collector = Collector(gym.make_vec("CartPole-v1", 2), select_action, record)
    collector.reset(seed=seed)

    def draw() -> tuple[list[RolloutBatch[Tensor]]]:
        return ([episode for episode in split_by_episode(collector.rollout(300)) if episode.terminated[-1]],)

    def update(episodes: list[RolloutBatch[Tensor]]) -> dict[str, float]:
        batch = cat([finish_episode(episode, 0.99) for episode in episodes])
        returns = (batch.returns - batch.returns.mean()) / (batch.returns.std() + eps)
        log_probs = Categorical(logits=policy(batch.obs)).log_prob(batch.act)
        loss = -(log_probs * returns).sum() / len(episodes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.item(), "length": len(batch) / len(episodes)}

    return update, draw
