"""Old_log_probs is in both sides of a union, with other values."""

import torch

from typedbatch import Batch
from typedbatch.rows import union

PROJECT = "verl"
LINK = "https://github.com/verl-project/verl/issues/1605"
CAUGHT_BY = "operation"


def broken() -> str:
    batch = {"responses": torch.ones(2, 2), "old_log_probs": torch.full((2, 2), -1.0)}  # the sampler's own
    recomputed = {"old_log_probs": torch.full((2, 2), -1.2)}
    batch.update(recomputed)
    assert batch["old_log_probs"][0, 0] == torch.tensor(-1.2)
    return "a dict takes the last; verl asserts, but says 'not the same object' where values differ"


def typed() -> object:
    batch = Batch(responses=torch.ones(2, 2), old_log_probs=torch.full((2, 2), -1.0))
    return union(batch, Batch(old_log_probs=torch.full((2, 2), -1.2)))
