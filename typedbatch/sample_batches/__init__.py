"""RLlib's SampleBatch and MultiAgentBatch, with their layout and compression."""

from typedbatch.sample_batches.multi_agent import MultiAgentBatch
from typedbatch.sample_batches.sample_batch import SampleBatch

__all__ = ["MultiAgentBatch", "SampleBatch"]


def __dir__() -> list[str]:
    return __all__  # without the submodules, which are private
