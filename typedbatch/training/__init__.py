"""Training without base classes: collectors, evaluation and epochs, typed by protocols."""

from typedbatch.training.agent_rows import JointRollout
from typedbatch.training.by_env import ByEnv, by_env
from typedbatch.training.collector import Collector, evaluate
from typedbatch.training.epochs import BufferSource, Epoch, Losses, Source, Training, Writer, off_policy, on_policy
from typedbatch.training.parallel import ParallelCollector, ParallelEnv
from typedbatch.training.policy import ObsStateBatch, Policy, RecurrentPolicy, compute_action, random_policy
from typedbatch.training.stats import CollectStats
from typedbatch.training.targets import add_gae, add_nstep

__all__ = [
    "BufferSource", "ByEnv", "CollectStats", "Collector", "Epoch", "JointRollout", "Losses", "ObsStateBatch",
    "ParallelCollector", "ParallelEnv", "Policy", "RecurrentPolicy", "Source", "Training", "Writer", "add_gae",
    "add_nstep", "by_env", "compute_action", "evaluate", "off_policy", "on_policy", "random_policy",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
