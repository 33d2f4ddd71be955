"""The workers of an agent's rollout give different columns; joining them fails by a bare assert."""

import torch

from typedbatch import Batch, cat

PROJECT = "ROLL"
LINK = "https://github.com/alibaba/ROLL/issues/160"
CAUGHT_BY = "operation"

WORKERS = [
    {"reward": torch.ones(2), "turns": torch.ones(2)},
    {"reward": torch.zeros(2), "turns": torch.ones(2), "success": torch.ones(2)},
]


def broken() -> str:
    keys = WORKERS[0].keys()  # of the first worker
    batch = {k: torch.cat([w[k] for w in WORKERS]) for k in keys}
    assert "success" not in batch  # or `assert key in output`, as there, which names neither key nor worker
    return "success is gone (and in the other order: a KeyError that does not say whose)"


def typed() -> object:
    return cat([Batch(w) for w in WORKERS])
