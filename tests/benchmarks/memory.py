"""Which operations copy, shown by ``np.shares_memory`` and ``tracemalloc``."""

from __future__ import annotations

import copy
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedbatch import Batch, convert

from .data import DataSet
from .operations import Call
from .peers import plain

SMALL = 8192  # bytes that new Batches, dicts and array headers may take, for the dozen leaves here


@dataclass(frozen=True)
class Memory:
    """The most memory that an operation allocated, and the size of its result."""

    name: str
    copies: bool
    """Whether the result is meant to own its memory."""
    result: int
    peak: int
    shared: int
    leaves: int

    @property
    def right(self) -> bool:
        if self.copies:
            return self.shared == 0 and self.peak <= self.result + SMALL
        return self.shared == self.leaves and self.peak <= SMALL


def check_memory(data: DataSet) -> list[Memory]:
    """Views share every leaf with their source; joined batches are allocated once."""
    d, pieces = data.fields, data.pieces
    b, tensors = Batch(**d), Batch(**d).to_torch()
    batches = [Batch(**piece) for piece in pieces]
    views: dict[str, Call] = {
        "construct": lambda: Batch(**d), "slice": lambda: b[64:192], "to_torch": lambda: b.to_torch(),
        "to_numpy": lambda: tensors.to_numpy(), "copy": lambda: b.copy(), "copy.copy": lambda: copy.copy(b),
        "convert to torch": lambda: convert(b, data.torch_schema),
        "convert to numpy": lambda: convert(tensors, data.schema),
    }  # fmt: skip
    joined: dict[str, Call] = {"stack 16": lambda: Batch.stack(batches), "cat 16": lambda: Batch.cat(batches)}
    return [
        *(_observe(name, call, [d], copies=False) for name, call in views.items()),
        *(_observe(name, call, pieces, copies=True) for name, call in joined.items()),
    ]


def _observe(name: str, call: Call, sources: list[Any], *, copies: bool) -> Memory:
    call()  # so that what is cached at the first call does not count
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    leaves = list(_leaves(plain(result)))
    origins = [list(_leaves(source)) for source in sources]
    shared = sum(any(np.shares_memory(leaf, origin[i]) for origin in origins) for i, leaf in enumerate(leaves))
    return Memory(name, copies, sum(leaf.nbytes for leaf in leaves), peak - before, shared, len(leaves))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for nested in value.values():
            yield from _leaves(nested)
    else:
        yield value
