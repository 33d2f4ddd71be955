"""How calls are compared: beside one another, again and again."""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from .operations import Call, Operation
from .peers import difference

# CPU time: on an idle machine it is as steady as perf_counter, and on a busy one it does not count the time in which
# another process had the core, which makes ratios of wall times useless (5th to 95th percentile 0.1 to 10).
clock = time.process_time
ROUNDS = 25
SAMPLE = 2e-3  # seconds; long enough for the clock, short enough that both samples of a pair meet the same machine


@dataclass(frozen=True)
class Ratio:
    """A contender's time over the floor's: the median over the rounds, and half the distance between the quartiles."""

    median: float
    spread: float


@dataclass
class Measured:
    """One operation's row of the table."""

    operation: Operation
    floor: float
    """Seconds."""
    ratios: dict[str, Ratio] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    """The contenders that raised or whose result is not the floor's, which are not timed, and why."""


class Row(NamedTuple):
    """An operation: the seconds of the floor, how many times that each contender takes, and the bar of typedbatch."""

    name: str
    floor: float
    ratios: dict[str, Ratio]
    bar: float | None = None

    @property
    def missed(self) -> bool:
        """Return whether the ratio of typedbatch is above its bar."""
        return self.bar is not None and self.ratios["typedbatch"].median > self.bar


def row(name: str, floor: Call, own: Call | dict[str, Call], bar: float | None = None, rounds: int = ROUNDS) -> Row:
    """Measure an operation beside its floor; ``own`` is the call of typedbatch, or those of all contenders."""
    calls = own if isinstance(own, dict) else {"typedbatch": own}
    return Row(name, *beside(floor, calls, rounds), bar)


def measure(operation: Operation, peers: list[str]) -> Measured:
    """Check every contender's result against the floor's, then time them beside it."""
    calls = {name: call for name in ["typedbatch", *peers] if (call := getattr(operation, name)) is not None}
    wrong = {name: why for name, call in calls.items() if (why := _check(call, operation.floor))}
    right = {name: call for name, call in calls.items() if name not in wrong}
    floor, ratios = beside(operation.floor, right)
    return Measured(operation, floor, ratios, wrong)


def beside(floor: Call, calls: dict[str, Call], rounds: int = ROUNDS) -> tuple[float, dict[str, Ratio]]:
    """The floor's seconds, and each call's time over that of a floor right beside it, before or after it in turn."""
    loops, floor_loops = {name: calibrate(call) for name, call in calls.items()}, calibrate(floor)
    floors: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    try:
        for round_ in range(rounds):
            for name, call in calls.items():
                own = seconds(call, loops[name]) if round_ % 2 else 0.0
                floors.append(seconds(floor, floor_loops))
                own = own or seconds(call, loops[name])
                ratios[name].append(own / floors[-1])
    finally:
        gc.enable()
    return statistics.median(floors), {name: summary(values) for name, values in ratios.items()}


def seconds(call: Call, loops: int) -> float:
    """CPU time of one call, over ``loops`` of them."""
    each = repeat(None, loops)
    start = clock()
    for _ in each:
        call()
    return (clock() - start) / loops


def seconds_of_process(command: list[str], folder: Any = None, environment: dict[str, str] | None = None) -> float:
    """CPU time of a process that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NO_COLOR": "1"} if environment is None else environment
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def calibrate(call: Call) -> int:
    """How many calls make a sample; finding out is the warm-up too."""
    call()  # a first call that imports something would pass for a slow one
    loops = 1
    while (once := seconds(call, loops)) * loops < SAMPLE / 2:
        loops *= 2
    return max(1, round(SAMPLE / once))


def summary(ratios: list[float]) -> Ratio:
    low, median, high = statistics.quantiles(ratios, n=4)
    return Ratio(median, (high - low) / 2)


def _check(call: Call, floor: Call) -> str:
    np.random.seed(0)
    expected = floor()
    np.random.seed(0)
    try:
        return difference(call(), expected)
    except Exception as error:  # noqa: BLE001  # whatever a peer raises is its result
        return f"raised {type(error).__name__}: {error}"
