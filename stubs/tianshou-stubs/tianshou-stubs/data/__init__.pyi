"""What ``tianshou.data`` re-exports: a stub beside it would hide the names of the module itself."""

from tianshou.data.batch import Batch
from tianshou.data.buffer.buffer_base import ReplayBuffer
from tianshou.data.buffer.cached import CachedReplayBuffer
from tianshou.data.buffer.her import HERReplayBuffer
from tianshou.data.buffer.manager import (
    HERReplayBufferManager,
    PrioritizedReplayBufferManager,
    ReplayBufferManager,
)
from tianshou.data.buffer.prio import PrioritizedReplayBuffer
from tianshou.data.buffer.vecbuf import (
    HERVectorReplayBuffer,
    PrioritizedVectorReplayBuffer,
    VectorReplayBuffer,
)
from tianshou.data.collector import (
    AsyncCollector,
    BaseCollector,
    Collector,
    CollectStats,
    CollectStatsBase,
)
from tianshou.data.stats import (
    EpochStats,
    InfoStats,
    SequenceSummaryStats,
    TimingStats,
)
from tianshou.data.utils.converter import to_numpy, to_torch, to_torch_as
from tianshou.data.utils.segtree import SegmentTree

__all__ = [
    "AsyncCollector",
    "BaseCollector",
    "Batch",
    "CachedReplayBuffer",
    "CollectStats",
    "CollectStatsBase",
    "Collector",
    "EpochStats",
    "HERReplayBuffer",
    "HERReplayBufferManager",
    "HERVectorReplayBuffer",
    "InfoStats",
    "PrioritizedReplayBuffer",
    "PrioritizedReplayBufferManager",
    "PrioritizedVectorReplayBuffer",
    "ReplayBuffer",
    "ReplayBufferManager",
    "SegmentTree",
    "SequenceSummaryStats",
    "TimingStats",
    "VectorReplayBuffer",
    "to_numpy",
    "to_torch",
    "to_torch_as",
]
