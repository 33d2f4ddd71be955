"""Mistakes with Ragged fields of plain batches and records."""

import torch
from jaxtyping import Int
from torch import Tensor

from typedbatch import Batch, BatchRecord, Ragged


class Tokens(BatchRecord):
    ids: Int[Tensor, "N"]


def wrong() -> None:
    tokens = Ragged(Tokens(ids=torch.zeros(3, dtype=torch.int64)), [1, 2])
    batch = Batch(tokens=tokens)
    batch.tokenz  # E: misspelt-field: tokenz
    batch[1:].tokens.values.idz  # E: misspelt-value: idz
    batch[0].tokens.ids  # E: values-left-out: ids
    tokens.values.ids[:, 0]  # E: second-axis-of-tokens
