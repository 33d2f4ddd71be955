"""Ragged beside loops: over flat tensors, for what is moved, and over jagged tensors of torch, for chunks.

1,024 samples of at most 4,096 tokens, filled to a fifth, with eight fields per token.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from typedbatch import Batch, Ragged
from typedbatch.posttraining import Tokens

from .timing import Ratio, Row, row

SAMPLES, LONGEST, FILL = 1024, 4096, 0.2
SHARE_OF_PADDED_BAR = 0.21
_CHUNKS, GRADED = 8, 128
_INTEGERS, _FLOATS = ("ids", "position"), ("old", "ref", "rollout", "advantage", "value", "returns")
Tensors = dict[str, Any]
TITLE = f"ragged: {SAMPLES} samples of at most {LONGEST} tokens, {FILL:.0%} of them there, 8 fields"


def measure_ragged() -> list[Row]:
    """Every operation, and the bytes of a Ragged as a share of those of the padded batch."""
    lengths = _lengths()
    flat = _fields(int(lengths.sum()))
    batch = Batch(tokens=Ragged(Batch(flat), lengths))
    order, parts = torch.from_numpy(np.random.default_rng(1).permutation(SAMPLES)), _pieces(batch)
    flat_parts = [part.tokens.values.__dict__ for part in parts]
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
    jagged = {name: torch.nested.nested_tensor_from_jagged(value, offsets) for name, value in flat.items()}
    answers = _answers()
    calls = [
        ("reorder", 1.1, lambda: _gathered(flat, lengths, order), lambda: batch[order]),
        ("concat of 8", 1.1, lambda: _joined(flat_parts), lambda: Batch.cat(parts)),
        ("chunk into 8, beside jagged tensors", 0.01, lambda: _cut(jagged), lambda: _pieces(batch)),
        (
            f"{GRADED} rows of lists, as a sampler returns them",
            1.3,
            lambda: _of_lists(answers),
            lambda: Ragged.from_lists(answers, into=Tokens),
        ),
    ]
    rows = [row(name, floor, own, bar) for name, bar, floor, own in calls]
    held = sum(value.nbytes for value in flat.values()) + lengths.nbytes
    padded = sum(SAMPLES * LONGEST * value.element_size() for value in flat.values())
    share = {"typedbatch": Ratio(held / padded, 0.0)}
    return [*rows, Row("bytes / those of the padded batch", 0.0, share, SHARE_OF_PADDED_BAR)]


def _answers() -> list[dict[str, Any]]:
    """Answers of 100 to 400 tokens, each a dict of lists of Python's numbers."""
    rng = np.random.default_rng(2)
    return [
        {
            "input_ids": rng.integers(0, 50_000, size).tolist(), "response_mask": [True] * size,
            "loss_mask": (rng.random(size) < 0.9).tolist(), "rollout_logp": (-rng.random(size)).tolist(),
        }
        for size in rng.integers(100, 400, GRADED).tolist()
    ]  # fmt: skip


def _of_lists(answers: list[dict[str, Any]]) -> tuple[Tensors, Any]:
    flat = {name: [number for answer in answers for number in answer[name]] for name in answers[0]}
    return {name: torch.tensor(numbers) for name, numbers in flat.items()}, [len(one["input_ids"]) for one in answers]


def _lengths() -> Any:
    lengths = np.random.default_rng(0).integers(1, int(2 * FILL * LONGEST), SAMPLES)
    lengths[0] = LONGEST
    return lengths


def _fields(count: int) -> Tensors:
    fields: Tensors = {name: torch.arange(count) for name in _INTEGERS}
    return {**fields, **{name: torch.rand(count) for name in _FLOATS}}


def _pieces(batch: Batch) -> list[Batch]:
    return list(batch.split(SAMPLES // _CHUNKS, shuffle=False))


def _gathered(flat: Tensors, lengths: Any, order: Any) -> Tensors:
    """Take the sequences by hand: compute the numbers of the tokens, and gather each field once."""
    numbers = torch.from_numpy(lengths)
    starts, sizes = (numbers.cumsum(0) - numbers)[order], numbers[order]
    shift = starts - (sizes.cumsum(0) - sizes)
    rows = torch.arange(int(sizes.sum())) + shift.repeat_interleave(sizes)
    return {name: value.index_select(0, rows) for name, value in flat.items()}


def _joined(parts: list[Tensors]) -> Tensors:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _cut(jagged: Tensors) -> list[Tensors]:
    """Jagged tensors are taken apart, and each part is made anew."""
    rows = {name: value.unbind() for name, value in jagged.items()}
    size = SAMPLES // _CHUNKS
    return [
        {
            name: torch.nested.as_nested_tensor(list(value[first : first + size]), layout=torch.jagged)
            for name, value in rows.items()
        }
        for first in range(0, SAMPLES, size)
    ]
