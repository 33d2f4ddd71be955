"""How calls are compared: beside one another, again and again."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass, field
from itertools import repeat

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
