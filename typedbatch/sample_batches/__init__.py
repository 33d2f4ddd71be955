"""RLlib's SampleBatch and MultiAgentBatch, and what they are laid out and compressed by."""

from typedbatch.sample_batches.multi_agent import MultiAgentBatch as MultiAgentBatch
from typedbatch.sample_batches.sample_batch import SampleBatch as SampleBatch
