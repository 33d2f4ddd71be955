"""The micro-batch made up to fill a rank has the usual fields, but not the optional rollout_logprobs."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from typedbatch import BatchRecord

PROJECT = "SkyRL"
LINK = "https://github.com/NovaSky-AI/SkyRL/pull/1815"
CAUGHT_BY = "checker"


def broken() -> str:
    def micro_batches(data: dict, n: int) -> list:
        size = len(data["sequences"])
        rows = [{k: v[i : i + 1] for k, v in data.items()} for i in range(size)]
        fill = {"sequences": torch.zeros(1, 3, dtype=torch.long), "logp": torch.zeros(1, 3)}  # fields by hand
        return rows + [fill] * (n - size)

    data = {
        "sequences": torch.ones(1, 3, dtype=torch.long),
        "logp": torch.zeros(1, 3),
        "rollout_logp": torch.zeros(1, 3),
    }
    try:
        for micro in micro_batches(data, 2):
            micro["logp"] - micro["rollout_logp"]
    except KeyError as error:
        return f"KeyError {error}, on the ranks that had to fill up, and only there"
    raise AssertionError


class Train(BatchRecord):
    sequences: Int[Tensor, "N T"]
    logp: Float[Tensor, "N R"]
    rollout_logp: Float[Tensor, "N R"]


def typed() -> object:  # every checker reports it, too
    return Train(sequences=torch.zeros(1, 3, dtype=torch.long), logp=torch.zeros(1, 3))  # type: ignore
