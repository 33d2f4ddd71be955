"""Replay buffers hand on the type of what they hold: what is added is asked for, what is sampled is known."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import Any, assert_type

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchWithReturnsProtocol,
    PrioBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
)
from typedbatch.buffers import (
    Added,
    CachedReplayBuffer,
    HERReplayBuffer,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    SegmentTree,
    VectorReplayBuffer,
    compute_episodic_return,
    compute_nstep_return,
)

Array = NDArray[Any]


class GoalRollout(RolloutBatch):
    goal: Array


class PrioGoalRollout(GoalRollout):
    weight: Array


class GoalWindows(GoalRollout):
    mask: NDArray[np.bool_]
    is_first: NDArray[np.bool_]


class GoalBuffer(ReplayBuffer[GoalRollout]):
    def goals(self) -> Array:
        return self[:].goal


def step(i: int) -> GoalRollout:
    return GoalRollout(
        obs=np.full(3, i, np.float32),
        obs_next=np.full(3, i + 1, np.float32),
        act=np.array(i % 2),
        rew=np.array(1.0),
        terminated=np.array(i == 4),
        truncated=np.array(False),
        info=Batch(),
        goal=np.zeros(2),
    )


def learn(buffer: ReplayBuffer[Any, RolloutBatchProtocol]) -> float:
    batch, _ = buffer.sample(4)
    return float(batch.rew.sum())


def value(buffer: ReplayBuffer[Any, Any], indices: NDArray[np.intp]) -> Tensor:
    return torch.zeros(len(indices))


def array_value(buffer: ReplayBuffer[Any, Any], indices: NDArray[np.intp]) -> Array:
    return np.zeros(len(indices))


buffer = ReplayBuffer[GoalRollout](20, stack_num=1)
for i in range(5):
    added = buffer.add(step(i))
    assert_type(added, Added)
    slots, ep_return, ep_len, ep_start = added
    buffer.get(slots, "obs", stack_num=4)
batch, indices = buffer.sample(3)
assert_type(batch, GoalRollout)
assert type(batch) is GoalRollout
assert_type(batch.goal, Array)
assert_type(buffer[indices], GoalRollout)
assert_type(buffer[:].goal, Array)
learn(buffer)

vector = VectorReplayBuffer[GoalRollout](20, buffer_num=2, ignore_obs_next=False, random_seed=3)
rows = Batch.stack([step(0), step(1)])
vector.add(rows)
vector.add(rows, buffer_ids=[1, 0])
assert_type(vector[[0]], GoalRollout)
assert_type(vector.buffers[0][:], GoalRollout)

assert_type(vector.extend(rows, buffer_ids=[0, 1]), Added)
one_ring = ReplayBuffer[GoalRollout](3)
one_ring.extend(rows)
one_ring.extend(vector[:])
one_ring.stack_num = 1
as_tensors, slots_of_tensors = vector.sample(4, into=RolloutBatch[Tensor], dtype=torch.float32, device="cpu")
assert_type(as_tensors, RolloutBatch[Tensor])
assert_type(as_tensors.rew, Tensor)
assert_type(slots_of_tensors, NDArray[np.intp])
assert_type(vector.sample(None, into=RolloutBatchProtocol[Tensor])[0].rew, Tensor)

windows, slots_of_windows = vector.sample_sequences(4, 3, burn_in=1, stride=2, pad=False)
assert_type(windows, GoalRollout)
assert_type(slots_of_windows, NDArray[np.intp])
masked, _ = vector.sample_sequences(4, 3, into=GoalWindows)
assert_type(masked, GoalWindows)
assert_type(masked.mask, NDArray[np.bool_])
assert_type(masked.goal, Array)

prio = PrioritizedReplayBuffer[GoalRollout, PrioGoalRollout](20, alpha=0.6, beta=0.4)
prio.add(step(1))
weighted, indices = prio.sample(4)
assert_type(weighted, PrioGoalRollout)
assert_type(weighted.weight, Array)
prio.update_weight(indices, torch.ones(4))
assert_type(prio.weight, SegmentTree)
learn(prio)

by_default = PrioritizedVectorReplayBuffer[GoalRollout](20, 2, 0.6, 0.4, weight_norm=False)
by_default.add(rows)
assert_type(by_default[[0]], PrioBatchProtocol)

main = ReplayBuffer[GoalRollout](20)
cached = CachedReplayBuffer(main, cached_buffer_num=2, max_episode_length=5)
cached.add(rows)
assert_type(cached.sample(2)[0], GoalRollout)
assert_type(cached.main_buffer, ReplayBuffer[GoalRollout, GoalRollout])

mine = GoalBuffer(20)
mine.add(step(1))
assert_type(mine.goals(), Array)
assert_type(mine.sample(1)[0], GoalRollout)


def reward(achieved: Array, desired: Array) -> Array:
    equal: Array = (achieved == desired).all(-1)
    return equal.astype(np.float64)


HERReplayBuffer[GoalRollout](20, reward, horizon=5, future_k=4, stack_num=1)
HERVectorReplayBuffer[GoalRollout](20, 2, compute_reward_fn=reward, horizon=5, compute_terminated_fn=np.greater)

batch, indices = buffer.sample(3)
returns = compute_nstep_return(batch, buffer, indices, array_value, gamma=0.9, n_step=3)
assert_type(returns, BatchWithReturnsProtocol[Array, Array, Array])
assert_type(returns.returns, Array)
mixed = compute_nstep_return(batch, buffer, indices, value)
assert_type(mixed.returns, Array | Tensor)
total, adv = compute_episodic_return(buffer[:], buffer, buffer.sample_indices(0), gae_lambda=1.0)
assert_type(adv, Array)


def of_tensors(batch: RolloutBatch[Tensor], buffer: ReplayBuffer[Any, Any], indices: NDArray[np.intp]) -> Tensor:
    return compute_nstep_return(batch, buffer, indices, value).returns


def any_batch(batch: BatchProtocol) -> int:
    return len(batch)


any_batch(buffer[:])
