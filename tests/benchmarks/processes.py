"""Batches of tensors sent to another process through a queue of torch.multiprocessing, beside the same dict.

The other process answers with the sum of a field, so that the data have arrived when the clock stops. Wall time is
measured, as both processes are at work.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing as mp

from typedbatch import Batch

from .posttraining import Row
from .timing import summary

SIZES = {"60 KB": 1 << 12, "1 MB": 1 << 16, "12 MB": 3 << 18}
"""Number of float32 per field, of which there are four."""
_FIELDS = ("obs", "adv", "logp", "returns")
_ROUNDS = 15
BAR = 1.3


def measure_processes() -> list[Row]:
    """Return a row for each size, of new tensors and of the same ones sent again."""
    context = mp.get_context("spawn")
    sent, answered = context.Queue(), context.Queue()
    worker = context.Process(target=_answer, args=(sent, answered), daemon=True)
    worker.start()

    def seconds(value: Any) -> float:
        begun = time.perf_counter()
        sent.put(value)
        answered.get()
        return time.perf_counter() - begun

    rows = []
    try:
        seconds({"obs": torch.zeros(1)})  # when the other process has started
        seconds(Batch(obs=torch.zeros(1)))
        for name, size in SIZES.items():
            rows.append(_row(f"{name}, new tensors", seconds, lambda size=size: _fields(size)))
            kept = _fields(size)
            rows.append(_row(f"{name}, sent again", seconds, lambda kept=kept: kept))
    finally:
        sent.put(None)
        worker.join()
    return rows


def _fields(size: int) -> dict[str, torch.Tensor]:
    return {name: torch.rand(size) for name in _FIELDS}


def _row(name: str, seconds: Callable[[Any], float], make: Callable[[], Any]) -> Row:
    floors, ratios = [], []
    for _ in range(_ROUNDS):
        floor = seconds(make())
        own = seconds(Batch(make()))
        floors.append(floor)
        ratios.append(own / floor)
    return Row(name, statistics.median(floors), {"typedbatch": summary(ratios)}, BAR)


def _answer(sent: Any, answered: Any) -> None:
    while (value := sent.get()) is not None:
        answered.put(float(value["obs"].sum()))
