"""Rollouts brought into another layout, rows put into bins, and groups, beside the same by hand.

Prompts take at most a fifth of the columns. Lengths are uniform, so about half of the positions are padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from typedbatch import Batch, objects
from typedbatch.posttraining import to_layout
from typedbatch.rows import bins, groups

from .posttraining import Case
from .timing import Row, row

SIZES = ((43, 64), (256, 1280), (1024, 1280))
ROWS = (43, 1024, 20_000)
_PER_TOKEN = ("response_mask", "loss_mask", "old_logp", "advantages", "rollout_logp")
_ROUNDS = 11
_TOKENS = 8192
_OF_ONE_PROMPT = 8


def measure_packing() -> Iterator[tuple[str, list[Row]]]:
    """Yield the table of layouts, and that of bins and groups."""
    layouts = [case for rows, columns in SIZES for case in _layouts(rows, columns)]
    yield "layouts of post-training, beside the same by hand in torch", [_measured(case) for case in layouts]
    rows = [case for count in ROWS for case in _of_rows(count)]
    yield f"rows: bins of {_TOKENS} tokens, and groups of {_OF_ONE_PROMPT}", [_measured(case) for case in rows]


def _measured(case: Case) -> Row:
    return row(case.name, case.floor, case.calls, case.bar, _ROUNDS)


def _layouts(rows: int, columns: int) -> Iterator[Case]:
    batch = _rollouts(rows, columns)
    packed = to_layout(batch, "packed")
    by_hand = _packed(batch)
    wrong = [name for name, value in by_hand.items() if not torch.equal(packed[name], value)]
    if wrong:
        raise AssertionError(f"packed: {wrong}")
    large = rows > SIZES[0][0]
    yield Case(
        f"split to packed, {rows} x {columns}",
        lambda: _packed(batch),
        {"typedbatch": lambda: to_layout(batch, "packed")},
        1.0 if large else None,
    )
    yield Case(
        f"packed to split, {rows} x {columns}",
        lambda: _split(by_hand, batch.prompt_ids.shape[1], batch.response_ids.shape[1]),
        {"typedbatch": lambda: to_layout(packed, "split", pad_token_id=0)},
        1.0 if large else None,
    )


def _rollouts(rows: int, columns: int) -> Any:
    numbers = np.random.default_rng(0)
    prompt, response = columns // 5, columns - columns // 5
    lengths = numbers.integers(1, prompt + 1, rows), numbers.integers(1, response + 1, rows)
    prompt_mask = torch.from_numpy(np.arange(prompt) >= prompt - lengths[0][:, None])
    response_mask = torch.from_numpy(np.arange(response) < lengths[1][:, None])
    fields = {name: torch.rand(rows, response) for name in _PER_TOKEN[2:]}
    return Batch(
        {"prompt_ids": torch.randint(9, (rows, prompt)), "prompt_mask": prompt_mask},
        response_ids=torch.randint(9, (rows, response)),
        response_mask=response_mask,
        loss_mask=response_mask.clone(),
        **fields,
    )


def _packed(batch: Any) -> dict[str, Tensor]:
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    lengths = mask.sum(1)
    out = {
        "input_ids": torch.cat([batch.prompt_ids, batch.response_ids], 1)[mask],
        "cu_seqlens": torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int(),
        "position_ids": (mask.cumsum(1) - 1)[mask],
    }
    for name in _PER_TOKEN:
        value = batch[name]
        out[name] = torch.cat([value.new_zeros(batch.prompt_ids.shape), value], 1)[mask]
    return out


def _split(packed: dict[str, Tensor], prompt: int, response: int) -> dict[str, Tensor]:
    ends = packed["cu_seqlens"].long()
    lengths = ends.diff()
    is_response = packed["response_mask"]
    counts = torch.nn.functional.pad(is_response.cumsum(0), (1, 0))
    of_response = counts[ends[1:]] - counts[ends[:-1]]
    of_prompt = lengths - of_response
    prompt_mask = torch.arange(prompt) >= prompt - of_prompt[:, None]
    response_mask = torch.arange(response) < of_response[:, None]
    prompts = torch.zeros(prompt_mask.shape, dtype=torch.int64)
    prompts[prompt_mask] = packed["input_ids"][~is_response]
    out = {"prompt_ids": prompts, "prompt_mask": prompt_mask}
    for name in ("input_ids", *_PER_TOKEN):
        padded = packed[name].new_zeros(response_mask.shape)
        padded[response_mask] = packed[name][is_response]
        out[name] = padded
    return out


def _of_rows(count: int) -> Iterator[Case]:
    lengths = np.random.default_rng(0).integers(1, 1280, count)
    if [rows.tolist() for rows in bins(lengths, _TOKENS)] != _bins(lengths, _TOKENS):
        raise AssertionError("bins")
    large = count == ROWS[-1]
    yield Case(
        f"bins, {count} rows",
        lambda: _bins(lengths, _TOKENS),
        {"typedbatch": lambda: bins(lengths, _TOKENS)},
        0.1 if large else None,
    )
    reward = torch.rand(count)
    batch = Batch(uid=objects(f"prompt {row // _OF_ONE_PROMPT}" for row in range(count)), reward=reward)
    yield Case(
        f"groups, mean and std, {count} rows",
        lambda: _groups(batch["uid"], reward),
        {"typedbatch": lambda: _own_groups(batch, reward)},
        1.2 if large else None,
    )


def _bins(lengths: Any, tokens: int) -> list[list[int]]:
    """First fit decreasing, as a loop over rows and open bins."""
    found: list[list[int]] = []
    free: list[int] = []
    for sample in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[sample])
        number = next((number for number, room in enumerate(free) if room >= size), len(free))
        if number == len(free):
            found.append([])
            free.append(tokens)
        found[number].append(sample)
        free[number] -= size
    return [sorted(rows) for rows in found]


def _groups(uid: Any, reward: Tensor) -> tuple[Tensor, Tensor]:
    numbers: dict[str, int] = {}
    index = torch.tensor([numbers.setdefault(key, len(numbers)) for key in uid])
    count = torch.bincount(index, minlength=len(numbers)).double()
    wide = reward.double()
    mean = torch.zeros(len(numbers), dtype=torch.float64).index_add(0, index, wide) / count
    apart = (wide - mean[index]) ** 2
    variance = torch.zeros(len(numbers), dtype=torch.float64).index_add(0, index, apart) / (count - 1 + (count == 1))
    return mean[index].float(), variance.sqrt()[index].float()


def _own_groups(batch: Batch, reward: Tensor) -> tuple[Tensor, Tensor]:
    found = groups(batch, "uid")
    return found.mean(reward), found.std(reward)
