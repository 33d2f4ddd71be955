"""Batches of four tensors from another process, beside the same dict: workers of data loaders, and queues.

Wall time is measured, as both processes are at work. Through a queue the other process answers with the sum of a field,
so that the data have arrived when the clock stops.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader

from typedbatch import Batch

from .timing import Row, summary

SIZES = {"60 KB": 1 << 12, "1 MB": 1 << 16, "12 MB": 3 << 18}
"""Number of float32 per field."""
_FIELDS = ("obs", "adv", "logp", "returns")
_ROUNDS = 15
_ITEMS = 8
BAR = 1.3


class Items:
    """A data set of new tensors, as a dict or as a Batch."""

    def __init__(self, size: int, make: Callable[[dict[str, Tensor]], Any]) -> None:
        self.size, self.make = size, make

    def __len__(self) -> int:
        return 100 * _ITEMS

    def __getitem__(self, number: int) -> Any:
        return self.make(_fields(self.size))


def measure_processes() -> list[Row]:
    """Return the rows of data loaders, and those of queues."""
    return [*_loaders(), *_queues()]


def _loaders() -> Iterator[Row]:
    for name, size in SIZES.items():
        dicts, batches = (
            iter(DataLoader(Items(size, make), batch_size=None, num_workers=1, collate_fn=_itself))
            for make in (dict, Batch)
        )
        yield _row(
            f"data loader, {name}", lambda dicts=dicts: _seconds_of(dicts), lambda own=batches: _seconds_of(own), BAR
        )


def _itself(item: Any) -> Any:
    return item


def _seconds_of(items: Iterator[Any]) -> float:
    begun = time.perf_counter()
    for _ in range(_ITEMS):
        float(next(items)["obs"].sum())
    return (time.perf_counter() - begun) / _ITEMS


def _queues() -> Iterator[Row]:
    context = mp.get_context("spawn")
    sent, answered = context.Queue(), context.Queue()
    worker = context.Process(target=_answer, args=(sent, answered), daemon=True)
    worker.start()

    def seconds(value: Any) -> float:
        begun = time.perf_counter()
        sent.put(value)
        answered.get()
        return time.perf_counter() - begun

    try:
        seconds({"obs": torch.zeros(1)})  # when the other process has started
        seconds(Batch(obs=torch.zeros(1)))
        for name, size in SIZES.items():
            yield _row(
                f"queue, {name}, copies", lambda n=size: seconds(_fields(n)), lambda n=size: seconds(Batch(_fields(n)))
            )
            kept = tree_map(Tensor.share_memory_, _fields(size))
            batch = Batch(kept)
            yield _row(f"queue, {name}, in shared memory", lambda k=kept: seconds(k), lambda b=batch: seconds(b), BAR)
    finally:
        sent.put(None)
        worker.join()


def _answer(sent: Any, answered: Any) -> None:
    while (value := sent.get()) is not None:
        answered.put(float(value["obs"].sum()))


def _fields(size: int) -> dict[str, Tensor]:
    return {name: torch.rand(size) for name in _FIELDS}


def _row(name: str, floor: Callable[[], float], own: Callable[[], float], bar: float | None = None) -> Row:
    floor(), own()
    pairs = [(floor(), own()) for _ in range(_ROUNDS)]
    ratios = {"typedbatch": summary([ours / theirs for theirs, ours in pairs])}
    return Row(name, statistics.median(theirs for theirs, _ in pairs), ratios, bar)
