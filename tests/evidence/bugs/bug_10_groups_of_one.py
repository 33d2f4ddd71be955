"""Uid is new for every trajectory, so that each of a prompt's n samples is a group of its own."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch
from typedbatch.rows import groups

PROJECT = "rllm"
LINK = "https://github.com/rllm-org/rllm/issues/605"
CAUGHT_BY = "operation"

UID = np.array(["t0", "t1", "t2", "t3"], object)  # should be ["p0", "p0", "p1", "p1"]
REWARD = torch.tensor([1.0, 0.0, 1.0, 1.0])


def grpo(reward: Tensor, uid: NDArray[np.object_]) -> Tensor:
    out = reward.clone()
    for key in set(uid):
        rows = torch.tensor(uid == key)
        if rows.sum() > 1:  # a group of one: mean 0, std 1
            out[rows] = (reward[rows] - reward[rows].mean()) / (reward[rows].std() + 1e-6)
    return out


def broken() -> str:
    advantage = grpo(REWARD, UID)
    assert torch.equal(advantage, REWARD)
    return "the advantages are the rewards: no baseline, nothing is ever pushed down"


def typed() -> object:
    batch = Batch(uid=UID, reward=REWARD)
    return batch.reward - groups(batch, "uid", size=2).mean(batch.reward)
