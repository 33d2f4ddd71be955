"""The samples come back repeated n times, the prompts they are joined to do not."""

import torch

from typedbatch import Batch
from typedbatch.rows import union

PROJECT = "verl"
LINK = "https://github.com/verl-project/verl/issues/148"
CAUGHT_BY = "operation"


def broken() -> str:
    prompts = {"prompt_ids": torch.arange(4).reshape(4, 1)}
    sampled = {"responses": torch.arange(8).reshape(8, 1), "reward": torch.ones(8)}  # n = 2
    batch = {**prompts, **sampled}  # a dict joins anything
    part = {k: v[2:4] for k, v in batch.items()}  # prompts 2, 3 beside the responses of prompt 1
    assert part["prompt_ids"].ravel().tolist() == [2, 3] and part["responses"].ravel().tolist() == [2, 3]
    return "rows 2 and 3: prompts 2 and 3 beside the two responses of prompt 1"


def typed() -> object:
    prompts = Batch(prompt_ids=torch.arange(4).reshape(4, 1))
    return union(prompts, Batch(responses=torch.arange(8).reshape(8, 1), reward=torch.ones(8)))
