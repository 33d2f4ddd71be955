"""Read by mypy and pyright, with Ray's own types."""

from collections.abc import Callable
from typing import Any, assert_type

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, RolloutBatchProtocol, extend
from typedbatch.bridges.ray import Actor, RayCollectors, get, remote, value_of
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import off_policy, on_policy


class Learner:
    def __init__(self, lr: float) -> None:
        self.lr = lr

    def learn(self, batch: BatchWithReturns, scale: float = 1.0) -> float:
        return float(batch.returns.mean()) * scale * self.lr

    def label(self, batch: RolloutBatchProtocol) -> BatchWithReturns:
        return extend(batch, BatchWithReturns, returns=batch.rew)


def act(batch: ObsBatch) -> ActBatch:
    return ActBatch(act=np.zeros(len(batch.obs)))


def learn(batch: BatchWithReturns) -> float:
    return float(batch.returns.mean())


def calls(rollout: RolloutBatch) -> None:
    actor = Actor(lambda: Learner(1.0), num_cpus=1)
    assert_type(actor, Actor[Learner])
    ref = actor.remote(Learner.label, rollout)
    assert_type(get(ref), BatchWithReturns)
    assert_type(actor.call(Learner.learn, value_of(ref), scale=2), float)
    assert_type(remote(learn)(value_of(ref)), float)
    actor.call(Learner.learn, rollout)  # wrong: no returns
    actor.call(Learner.learn, value_of(ref), scael=2)  # wrong: misspelt
    actor.call(act, rollout)  # wrong: not a method of Learner
    remote(learn)(rollout)  # wrong: no returns


def pipelines(make_envs: Callable[[], gym.vector.VectorEnv[Any, Any, Any]]) -> None:
    collectors = RayCollectors(make_envs, act, 2)
    buffer = VectorReplayBuffer[RolloutBatch](1000, 8)

    def update(batch: RolloutBatch, slots: NDArray[np.intp]) -> dict[str, float]:
        return {"rew": float(batch.rew.sum())}

    off_policy(collectors, buffer, update, n_step=8, updates_per_step=1, batch_size=64, epoch_steps=9, epochs=5)
    on_policy(collectors, lambda batch: {"rew": float(batch.rew.sum())}, n_step=8, epoch_steps=9, epochs=5)
    on_policy(collectors, learn, n_step=8, epoch_steps=9, epochs=5)  # wrong: a rollout has no returns
