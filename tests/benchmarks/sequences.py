"""Windows of rows from a buffer of 100,000, beside torchrl's SliceSampler, and cpprb's sample of as many single rows.

A transition: obs and obs_next float32 (8,), act int64, rew float64, terminated and truncated; episodes of 200 steps.
"""

from __future__ import annotations

import numpy as np
import torch

from typedbatch import Batch
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer

from .timing import Row, row

SIZE, STEPS, WINDOWS, LENGTH = 100_000, 200, 32, 40
TITLE = f"{WINDOWS} windows of {LENGTH} rows from {SIZE:,}"


def measure_sequences() -> list[Row]:
    """Return the rows of the table; none if torchrl or cpprb is not installed."""
    try:
        import cpprb
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
    except ImportError:
        return []
    rng = np.random.default_rng(0)
    terminated = np.arange(SIZE) % STEPS == STEPS - 1
    fields = {
        "obs": rng.random((SIZE, 8), np.float32), "act": rng.integers(0, 4, SIZE), "rew": rng.random(SIZE),
        "obs_next": rng.random((SIZE, 8), np.float32), "terminated": terminated, "truncated": np.zeros(SIZE, bool),
    }  # fmt: skip
    uniform, prioritized = ReplayBuffer(SIZE), PrioritizedReplayBuffer(SIZE, 0.6, 0.4)
    for buffer in (uniform, prioritized):
        buffer.extend(Batch(fields))  # type: ignore[arg-type]  # a plain batch of the fields of a rollout
    sampler = SliceSampler(slice_len=LENGTH, end_key="done", strict_length=True)
    slices = TensorDictReplayBuffer(storage=LazyTensorStorage(SIZE), sampler=sampler, batch_size=WINDOWS * LENGTH)
    tensors = {name: torch.from_numpy(value) for name, value in fields.items()}
    slices.extend(TensorDict({**tensors, "done": tensors["terminated"][:, None]}, [SIZE]))
    single = cpprb.ReplayBuffer(
        SIZE, {name: {"shape": value.shape[1:] or 1, "dtype": value.dtype} for name, value in fields.items()}
    )
    single.add(**fields)
    return [
        row("torchrl, whole windows", slices.sample, lambda: uniform.sample_sequences(WINDOWS, LENGTH, pad=False), 1.0),
        row("torchrl, padded windows", slices.sample, lambda: uniform.sample_sequences(WINDOWS, LENGTH), 1.0),
        row(
            "cpprb, single rows",
            lambda: single.sample(WINDOWS * LENGTH),
            lambda: uniform.sample_sequences(WINDOWS, LENGTH, pad=False),
            3.0,
        ),
        row(
            "torchrl uniform, prioritized here",
            slices.sample,
            lambda: prioritized.sample_sequences(WINDOWS, LENGTH),
            1.0,
        ),
    ]
