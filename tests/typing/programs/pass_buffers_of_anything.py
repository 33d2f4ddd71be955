"""A buffer that says nothing of what it holds takes rollouts, and gives them."""

import numpy as np
from typing_extensions import Any, assert_type

from typedbatch import Batch, PrioBatchProtocol, RolloutBatch, RolloutBatchProtocol
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer


def step() -> RolloutBatch:
    scalar = np.array(0)
    return RolloutBatch(
        obs=np.zeros(3), obs_next=np.ones(3), act=scalar, rew=scalar, terminated=scalar, truncated=scalar, info=Batch()
    )


def learn(buffer: ReplayBuffer[Any, RolloutBatchProtocol]) -> float:
    batch, _ = buffer.sample(4)
    return float(batch.rew.sum())


plain = ReplayBuffer(20)
plain.add(step())
assert_type(plain, ReplayBuffer[RolloutBatchProtocol, RolloutBatchProtocol])
assert_type(plain.sample(2)[0], RolloutBatchProtocol)
learn(plain)

vector = VectorReplayBuffer(20, buffer_num=2)
vector.add(Batch.stack([step(), step()]))
assert_type(vector.sample(2)[0], RolloutBatchProtocol)
learn(vector)

prio = PrioritizedReplayBuffer(20, 0.6, 0.4)
prio.add(step())
assert_type(prio.sample(2)[0], PrioBatchProtocol)
learn(prio)
