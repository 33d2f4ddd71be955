"""Loading, and what loading gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from typedbatch import Batch, RolloutBatch, convert


class Dataset:
    """Transitions of an unknown policy; ``weights`` if the returns of episodes are used for sampling."""

    def __init__(self, n: int, seed: int, reweight: bool) -> None:
        rng = np.random.default_rng(seed)
        obs = rng.normal(size=(n + 1, 3)).astype(np.float32)
        act = rng.integers(0, 2, n)
        self.reweight = reweight
        self.raw = Batch(obs=obs[:-1], obs_next=obs[1:], act=act, rew=(obs[:-1, 0] * (2 * act - 1)).astype(np.float32))
        self.raw.terminated = np.arange(n) % 10 == 9
        if reweight:
            self.raw.weights = np.exp(self.raw.rew) / np.exp(self.raw.rew).sum()
            #! old-name: self.raw.weights = np.exp(self.raw.reward) / np.exp(self.raw.rew).sum()
        self.rng = rng

    def rollout(self) -> RolloutBatch:
        return RolloutBatch(obs=self.raw.obs, obs_next=self.raw.obs_next, act=self.raw.act, rew=self.raw.rew, terminated=self.raw.terminated, truncated=np.zeros(len(self.raw), bool), info=Batch())
        #! missing-field: return RolloutBatch(obs=self.raw.obs, obs_next=self.raw.obs_next, act=self.raw.act, rew=self.raw.rew, terminated=self.raw.terminated, info=Batch())

    def batches(self, steps: int, size: int) -> Iterator[RolloutBatch[Tensor]]:
        tensors = convert(self.rollout(), RolloutBatch[Tensor])
        for _ in range(steps):
            p = self.raw.weights if self.reweight else None
            #! branch-field: p = self.raw.weights
            yield tensors[torch.as_tensor(self.rng.choice(len(self.raw), size, p=p))]
