"""Mistakes with Ragged."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import BatchRecord, Ragged


class Tokens(BatchRecord):
    ids: Tensor


class Patches(BatchRecord):
    pixels: Tensor


class Rollout(BatchRecord):
    uid: NDArray[np.int64]
    tokens: Ragged[Tokens]


def wrong(batch: Rollout, patches: Ragged[Patches], tokens: Ragged[Tokens]) -> None:
    batch.tokens.values.idz  # E: misspelt-value: idz
    batch[2:5].tokens.values.idz  # E: misspelt-value-of-rows: idz
    batch.tokens.ids  # E: values-left-out: ids
    tokens[0].idz  # E: misspelt-value-of-sequence: idz
    tokens.padded().idz  # E: misspelt-value-of-padded: idz
    tokens.padded("middle")  # E: no-such-side
    tokens.padded(sise="left")  # E: misspelt-option: sise
    tokens.values = Tokens(ids=tokens.values.ids)  # E: values-are-read-only: values
    Rollout(uid=np.arange(3), tokens=patches)  # E: other-values
    Rollout(uid=np.arange(3), tokens=tokens.values)  # E: values-for-ragged
    Ragged(tokens.values)  # E: no-lengths
    Ragged([1, 2], [2])  # E: list-for-values
    tokens["ids"]  # E: name-for-index
