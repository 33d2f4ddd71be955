"""A column is stacked when all lengths happen to be equal, else kept ragged; the reader wants one of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchRecord, validate

PROJECT = "verl"
LINK = "https://github.com/verl-project/verl/issues/6407"
CAUGHT_BY = "edge"


def collate(rows: list[list[int]]) -> NDArray[Any]:
    if len({len(r) for r in rows}) == 1:
        return np.array(rows)
    column = np.empty(len(rows), object)
    column[:] = [np.array(r) for r in rows]
    return column


def broken() -> str:
    def lengths(column: NDArray[Any]) -> list[int]:
        return (column.shape[1:] and [column.shape[1]] * len(column)) or [len(r) for r in column]

    ragged, equal = collate([[1, 2], [3]]), collate([[1, 2], [3, 4]])
    assert ragged.shape == (2,) and equal.shape == (2, 2)
    try:
        np.concatenate([ragged, equal])
    except ValueError as error:
        return f"{str(error)[:70]} ..., once two prompts have the same length"
    raise AssertionError


class Prompts(BatchRecord):
    prompt: NDArray[np.object_]


def typed() -> object:
    validate(Batch(prompt=collate([[1, 2], [3]])), Prompts)  # fine
    return validate(Batch(prompt=collate([[1, 2], [3, 4]])), Prompts)
