"""Mistakes with replay buffers that say nothing of what they hold."""

from torch import Tensor

from typedbatch import Batch, ObsBatch, RolloutBatch
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer


def wrong(tensors: RolloutBatch[Tensor], open_: Batch, obs: ObsBatch) -> None:
    plain = ReplayBuffer(20)
    plain.add(open_)  # E: open-batch-added
    plain.add(obs)  # E: too-few-fields-added
    plain.add(tensors)  # E: other-stage-added
    plain.add({"obs": 1})  # E: dict-added
    plain.sample(4)[0].goal  # E: misspelt-read-of-sample: goal
    PrioritizedReplayBuffer(20, 0.6)  # E: no-beta
