"""Multi-turn rollouts give any number of rows; the dispatcher wants a multiple."""

import torch

from typedbatch import Batch
from typedbatch.rows import chunk

PROJECT = "rllm, SkyRL"
LINK = "https://github.com/rllm-org/rllm/pull/506"
CAUGHT_BY = "operation"


def broken() -> str:
    batch = {"ids": torch.arange(10)}
    parts = [{k: c for k, c in zip(batch, chunks)} for chunks in zip(*(torch.chunk(v, 4) for v in batch.values()))]
    sizes = [len(p["ids"]) for p in parts]
    assert sizes == [3, 3, 3, 1]  # and torch.arange(6).chunk(4) gives three parts
    assert len(torch.arange(6).chunk(4)) == 3
    return f"{sizes} rows on four ranks, and 6 rows on 'four' ranks are three parts; with an assert: after the rollout"


def typed() -> object:  # exactly four, and pad_rows(batch, 4) makes them equal
    sizes = [len(part) for part in chunk(Batch(ids=torch.arange(10)), 4)]
    assert sizes == [3, 3, 2, 2]
    return chunk(Batch(ids=torch.arange(3)), 4)
