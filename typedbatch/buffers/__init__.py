"""Replay buffers of ``Batch`` rows: added rows are validated, and samples have the declared type."""

from typedbatch.buffers.arguments import BufferOptions
from typedbatch.buffers.hindsight import HERReplayBuffer, HERVectorReplayBuffer
from typedbatch.buffers.prioritized import PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer, SegmentTree
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.returns import compute_episodic_return, compute_nstep_return
from typedbatch.buffers.rings import Added
from typedbatch.buffers.vector import CachedReplayBuffer, VectorReplayBuffer

__all__ = [
    "Added", "BufferOptions", "CachedReplayBuffer", "HERReplayBuffer", "HERVectorReplayBuffer",
    "PrioritizedReplayBuffer", "PrioritizedVectorReplayBuffer", "ReplayBuffer", "SegmentTree", "VectorReplayBuffer",
    "compute_episodic_return", "compute_nstep_return",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__  # the modules of this package are not public
