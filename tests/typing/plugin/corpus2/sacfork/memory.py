"""Transitions in a plain list of Batches, sampled with numpy."""

import numpy as np

from typedbatch import Batch, stack

from sacfork.config import CFG


class Memory:
    def __init__(self, seed: int = 0) -> None:
        self.rows: list[Batch] = []
        self.rng = np.random.default_rng(seed)
        self.stats = Batch(added=0, dropped=0)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, obs, act, rew, obs_next, done):
        row = Batch(obs=obs, act=act, rew=rew, obs_next=obs_next, done=done)
        row.id = self.stats.added.item()
        self.rows.append(row)
        self.stats.added += 1
        if len(self.rows) > CFG.capacity:
            self.rows.pop(0)
            self.stats.dropped += 1
        return row.id
        #! misspelt-read: return row.index

    def sample(self, n: int) -> Batch:
        picks = self.rng.integers(0, len(self.rows), n)
        out = stack([self.rows[int(i)] for i in picks])
        out.live = 1.0 - out.done
        #! old-name: out.live = 1.0 - out.terminated
        return out.to_torch()
