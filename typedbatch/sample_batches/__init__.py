"""RLlib's SampleBatch and MultiAgentBatch, and what they are laid out and compressed by."""

from typedbatch.sample_batches.multi_agent import MultiAgentBatch
from typedbatch.sample_batches.sample_batch import SampleBatch

__all__ = ["MultiAgentBatch", "SampleBatch"]


def __dir__() -> list[str]:
    return __all__  # what is public; not the modules that it comes from
