"""As in Tianshou's tutorials: collect, sample, act, learn. What a function needs is said with a protocol."""

from typing import Any, Protocol, cast

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, CollectStats, ReplayBuffer, VectorReplayBuffer, to_torch
from tianshou.data.batch import BatchProtocol, TArr
from tianshou.data.types import (
    BatchWithReturnsProtocol,
    ModelOutputBatchProtocol,
    ObsBatchProtocol,
    RolloutBatchProtocol,
)
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net


class WithDone(RolloutBatchProtocol, Protocol):
    """A field of one's own."""

    done: np.ndarray


class PaddedProtocol(BatchWithReturnsProtocol, Protocol):
    mask: torch.Tensor | None


def with_done(batch: RolloutBatchProtocol) -> WithDone:
    batch["done"] = np.logical_or(batch.terminated, batch.truncated)
    return cast(WithDone, batch)


def with_returns(batch: RolloutBatchProtocol, gamma: float = 0.9) -> BatchWithReturnsProtocol:
    returns = np.zeros(len(batch) + 1)
    for t in reversed(range(len(batch))):
        returns[t] = batch.rew[t] + gamma * returns[t + 1]
    added = cast(BatchWithReturnsProtocol, batch)
    added.returns = torch.as_tensor(returns[:-1])
    return added


def loss(batch: BatchWithReturnsProtocol) -> float:
    total = 0.0
    for minibatch in batch.split(16, shuffle=False, merge_last=True):
        total += float(minibatch.returns.mean()) + float(minibatch.rew.sum())
    return total


def padded_loss(batch: PaddedProtocol) -> float:
    if batch.mask is None:
        return loss(batch)
    return float((batch.returns * batch.mask).mean())


def shapes(batch: BatchProtocol) -> dict[str, Any]:
    """Of any batch, whatever its fields: they are looked up by key."""
    return {key: np.shape(value) for key, value in batch.items() if key in batch and batch.get(key) is not None}


def by_hand() -> RolloutBatchProtocol:
    """A plain batch is open, and gets a type by a cast."""
    batch = Batch(dict.fromkeys(("act", "rew"), np.ones(4)), obs=np.zeros((4, 3)), info={})
    batch.obs_next = batch.obs + 1
    batch.terminated = np.zeros(4, dtype=bool)
    batch.update(truncated=np.zeros(4, dtype=bool))
    batch.obs[0] = 2.0
    assert batch.obs.shape == (4, 3)
    return cast(RolloutBatchProtocol, batch)


def rows(batch: RolloutBatchProtocol) -> list[float]:
    first: RolloutBatchProtocol = batch[0]
    some = batch[np.array([0, 1])]
    both: RolloutBatchProtocol = Batch.cat([some, batch[2:]])
    stacked: RolloutBatchProtocol = Batch.stack([batch, batch], axis=0)
    assert len(both) == len(batch)
    assert stacked.rew.ndim == 2
    return [float(first.rew), *(float(row.rew) for row in batch), float(batch[:2].to_torch()["rew"].sum())]


def together(batch: RolloutBatchProtocol, loaded: Batch) -> Batch:
    assert loss(with_returns(Batch.cat([batch, batch]))) > 0
    loaded.cat_(loaded[:1])
    loaded.apply_values_transform(np.negative, inplace=True)
    loaded.empty_(slice(0, 1))
    return Batch.empty(loaded.apply_values_transform(np.square))


def act(policy: DiscreteQLearningPolicy[Net], batch: ObsBatchProtocol) -> TArr:
    output: ModelOutputBatchProtocol = policy.forward(batch)
    assert len(output.logits) == len(batch)
    return output.act


def main() -> float:
    env = gym.make("CartPole-v1")
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])
    assert isinstance(env.action_space, gym.spaces.Discrete)
    net = Net(state_shape=env.observation_space.shape or (4,), action_shape=2, hidden_sizes=[8])
    policy = DiscreteQLearningPolicy(model=net, action_space=env.action_space, observation_space=env.observation_space)
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=0.9, target_update_freq=10)
    collector = Collector[CollectStats](algorithm, envs, VectorReplayBuffer(200, 2), exploration_noise=True)
    collector.reset()
    stats = collector.collect(n_step=60)
    assert stats.n_collected_steps == 60
    batch, indices = collector.buffer.sample(32)
    assert len(indices) == len(batch) == len(act(policy, batch))
    assert with_done(batch).done.dtype == bool
    observed = cast(ObsBatchProtocol, Batch(obs=batch.obs, info=Batch()))
    assert len(act(policy, observed)) == 32
    smaller = ReplayBuffer(8)
    for transition in by_hand():
        smaller.add(transition)
    assert sorted(shapes(smaller[:]))[0] == "act"
    assert together(by_hand(), Batch(a=np.zeros(3))).a.shape == (4,)
    if isinstance(batch, Batch):
        assert batch.done is not None
    assert isinstance(to_torch(batch.rew), torch.Tensor)
    return loss(with_returns(batch)) + sum(rows(by_hand()))


if __name__ == "__main__":
    main()
