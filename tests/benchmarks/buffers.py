"""Replay buffers beside a ring of preallocated arrays that is written and read by hand, and beside Tianshou's.

A transition: obs and obs_next float32 (4,), act int64, rew float64, terminated and truncated, and done, which every
contender computes. Buffers are full: 20,000 rows, 100,000 for the prioritized ones, whose floor has a binary tree of
sums in numpy. What is added is cycled through, so that data comes from memory as it does in training.
"""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch

from typedbatch import Batch
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer, compute_nstep_return
from typedbatch.buffers.incoming import add_one, check_rows
from typedbatch.buffers.state import state_of

from .floors import Fields
from .timing import Ratio, beside

SIZE, PRIO_SIZE, ENVS, ROWS, STEPS, FRAMES, GAMMA = 20_000, 100_000, 16, 256, 3, 4, 0.99
MEMORY_BAR = 1.01
Call = Callable[[], Any]


@dataclass
class Row:
    """One operation: the floor's seconds, our ratio and its bar (None: ahead of Tianshou), and Tianshou's ratio."""

    name: str
    floor: float
    own: Ratio
    bar: float | None
    tianshou: Ratio | None


def transitions(rng: np.random.Generator, lead: tuple[int, ...]) -> Fields:
    return {
        "obs": rng.random((*lead, 4), np.float32), "obs_next": rng.random((*lead, 4), np.float32),
        "act": np.asarray(rng.integers(0, 2, lead)), "rew": np.asarray(rng.random(lead)),
        "terminated": np.asarray(rng.random(lead) < 0.005), "truncated": np.asarray(rng.random(lead) < 0.001),
    }  # fmt: skip


class Ring:
    """The floor: arrays, and where the next row goes."""

    def __init__(self, size: int, row: Fields) -> None:
        self.size, self.at, self.rows = size, 0, 0
        self.arrays = {name: np.zeros((size, *value.shape), value.dtype) for name, value in row.items()}
        self.arrays["done"] = np.zeros(size, bool)
        self.rng = np.random.default_rng(0)

    def add(self, row: Fields) -> int:
        at = self.at
        for name, value in row.items():
            self.arrays[name][at] = value
        self.arrays["done"][at] = row["terminated"] or row["truncated"]
        self.at, self.rows = (at + 1) % self.size, min(self.rows + 1, self.size)
        return at

    def add_many(self, rows: Fields) -> None:
        count = len(rows["rew"])
        at = (self.at + np.arange(count)) % self.size
        for name, value in rows.items():
            self.arrays[name][at] = value
        self.arrays["done"][at] = rows["terminated"] | rows["truncated"]
        self.at, self.rows = (self.at + count) % self.size, min(self.rows + count, self.size)

    def gather(self, at: Any) -> Fields:
        return {name: array[at] for name, array in self.arrays.items()}

    def sample(self, count: int) -> Fields:
        return self.gather(self.rng.integers(0, self.rows, count))

    def ends(self, at: Any) -> Any:
        return self.arrays["done"][at] | (at == (self.at - 1) % self.size)

    def frames(self, at: Any, count: int) -> Any:
        stack = []
        for _ in range(count):
            stack.insert(0, self.arrays["obs"][at])
            before = (at - 1) % self.size
            at = np.where(self.ends(before), at, before)
        return np.stack(stack, 1)

    def nstep(self, at: Any, values: Any) -> Any:
        ahead = [at]
        for _ in range(STEPS - 1):
            ahead.append((ahead[-1] + (1 - self.ends(ahead[-1]))) % self.size)
        total, steps = np.zeros(len(at)), np.full(len(at), STEPS)
        for step in range(STEPS - 1, -1, -1):
            end = self.ends(ahead[step])
            total[end], steps[end] = 0, step + 1
            total = self.arrays["rew"][ahead[step]] + GAMMA * total
        return total + GAMMA**steps * values * ~self.arrays["terminated"][ahead[-1]]


class PrioRing(Ring):
    """A ring with a binary tree of sums, a level at a time."""

    def __init__(self, size: int, row: Fields) -> None:
        super().__init__(size, row)
        self.bound = 1 << (size - 1).bit_length()
        self.tree = np.zeros(2 * self.bound)

    def update(self, at: Any, priorities: Any) -> None:
        at = np.atleast_1d(at) + self.bound
        self.tree[at] = priorities**0.6
        while at[0] > 1:
            at = at // 2
            self.tree[at] = self.tree[2 * at] + self.tree[2 * at + 1]

    def add_new(self, row: Fields) -> None:
        self.update(self.add(row), np.float64(1))

    def sample(self, count: int) -> Fields:
        rest, node = self.rng.random(count) * self.tree[1], np.ones(count, int)
        while node[0] < self.bound:
            node *= 2
            left = self.tree[node]
            right = left < rest
            rest -= left * right
            node += right
        rows = self.gather(node - self.bound)
        weight = self.tree[node] ** -0.4
        return {**rows, "weight": weight / weight.max()}


def measure_buffers() -> list[Row]:
    """Every operation, timed; contents are compared first."""
    rng = np.random.default_rng(0)
    rows, many = [transitions(rng, ()) for _ in range(64)], [transitions(rng, (ENVS,)) for _ in range(64)]
    peer = _tianshou()
    floor, own = Ring(SIZE, rows[0]), ReplayBuffer(SIZE)
    theirs = peer and peer.ReplayBuffer(SIZE)
    for place in range(SIZE + 7):
        floor.add(rows[place % 64])
        own.add(_batch(rows[place % 64]))
        if peer:
            theirs.add(peer.Batch(rows[place % 64], info={}))
    at = rng.integers(0, SIZE, ROWS)
    _require_same(floor, own, at)
    prepared = [_batch(row) for row in rows]
    out = [
        _row(
            "add one", 8.0, _each(floor.add, rows), _each(own.add, prepared),
            peer and _each(theirs.add, [peer.Batch(row, info={}) for row in rows]),
        ),
        _row(
            "the same, and make the Batch", 8.0, _each(floor.add, rows), _each(lambda row: own.add(_batch(row)), rows),
            peer and _each(lambda row: theirs.add(peer.Batch(**row, info={})), rows),
        ),
    ]  # fmt: skip
    out += _locks(own, prepared)
    vector = VectorReplayBuffer(SIZE, ENVS)
    theirs_16 = peer and peer.VectorReplayBuffer(SIZE, ENVS)
    ring_16 = Ring(SIZE, rows[0])
    out += [
        _row(
            f"add {ENVS} environments", 4.0, _each(ring_16.add_many, many),
            _each(vector.add, [_batch(each) for each in many]),
            peer and _each(theirs_16.add, [peer.Batch(each, info={}) for each in many]),
        ),
        _row(
            f"sample {ROWS}", 1.4, lambda: floor.sample(ROWS), lambda: own.sample(ROWS),
            peer and (lambda: theirs.sample(ROWS)),
        ),
        *_returns(floor, own, peer, theirs, at),
        _row(
            f"frame stack {FRAMES}, {ROWS}", 1.5, lambda: floor.frames(at, FRAMES),
            lambda: own.get(at, "obs", stack_num=FRAMES), peer and (lambda: theirs.get(at, "obs", stack_num=FRAMES)),
        ),
    ]  # fmt: skip
    return out + _prioritized(rows, peer, rng)


def _locks(own: Any, rows: list[Any]) -> list[Row]:
    """Measure the lock: calls beside the functions that they call under it."""
    state = state_of(own)

    def add(row: Any) -> Any:
        return add_one(state, *check_rows(state, row, ()))

    draw: Any = vars(ReplayBuffer)["sample_indices"].__wrapped__

    def sample() -> Any:
        slots = draw(own, ROWS)
        return state.rows(slots), slots

    return [
        _row("add one, beside the same without the lock", 1.05, _each(add, rows), _each(own.add, rows), None),
        _row(f"sample {ROWS}, beside the same without the lock", 1.05, sample, lambda: own.sample(ROWS), None),
    ]


def _returns(floor: Ring, own: Any, peer: Any, theirs: Any, at: Any) -> list[Row]:
    values = torch.zeros(ROWS)
    batch = own[at]
    row = _row(
        f"{STEPS}-step return, {ROWS}", 1.6, lambda: floor.nstep(at, values.numpy()),
        lambda: compute_nstep_return(batch, own, at, lambda _, at: values.numpy(), GAMMA, STEPS), None,
    )  # fmt: skip
    theirs_call = None
    if peer:
        from tianshou.algorithm.algorithm_base import Algorithm

        their_batch = theirs[at]

        def theirs_call() -> Any:
            return Algorithm.compute_nstep_return(their_batch, theirs, at, lambda _, at: values[:, None], GAMMA, STEPS)

    tensors = _row(
        "the same, values in tensors", None, lambda: torch.from_numpy(floor.nstep(at, values.numpy())).float(),
        lambda: compute_nstep_return(batch, own, at, lambda _, at: values, GAMMA, STEPS), theirs_call,
    )  # fmt: skip
    row.tianshou = tensors.tianshou  # it takes tensors alone
    return [row, tensors]


def _prioritized(rows: list[Fields], peer: Any, rng: np.random.Generator) -> list[Row]:
    floor, own = PrioRing(PRIO_SIZE, rows[0]), PrioritizedReplayBuffer(PRIO_SIZE, 0.6, 0.4)
    theirs = peer and peer.PrioritizedReplayBuffer(PRIO_SIZE, 0.6, 0.4)
    prepared, their_rows = [_batch(row) for row in rows], peer and [peer.Batch(row, info={}) for row in rows]
    for place in range(PRIO_SIZE):
        floor.add_new(rows[place % 64])
        own.add(prepared[place % 64])
        if peer:
            theirs.add(their_rows[place % 64])
    at, priorities = rng.integers(0, PRIO_SIZE, ROWS), rng.random(ROWS)
    return [
        _row(
            f"prioritized add, {PRIO_SIZE:,}", None, _each(floor.add_new, rows), _each(own.add, prepared),
            peer and _each(theirs.add, their_rows),
        ),
        _row(
            f"prioritized sample {ROWS}", None, lambda: floor.sample(ROWS), lambda: own.sample(ROWS),
            peer and (lambda: theirs.sample(ROWS)),
        ),
        _row(
            f"prioritized update {ROWS}", None, lambda: floor.update(at, priorities),
            lambda: own.update_weight(at, priorities), peer and (lambda: theirs.update_weight(at, priorities)),
        ),
    ]  # fmt: skip


def buffer_memory() -> dict[str, float]:
    """Bytes that a full buffer holds, over those of its arrays, the priorities among them."""
    rng = np.random.default_rng(0)
    out = {}
    row = transitions(rng, ())
    for name, make in (
        ("ReplayBuffer", lambda: ReplayBuffer(PRIO_SIZE)),
        ("PrioritizedReplayBuffer", lambda: PrioritizedReplayBuffer(PRIO_SIZE, 0.6, 0.4)),
    ):
        tracemalloc.start()
        buffer = make()
        for _ in range(10):
            buffer.add(_batch(row))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        arrays = sum(getattr(buffer, field).nbytes for field in (*row, "done"))
        out[name] = held / (arrays + (8 * PRIO_SIZE if "Prio" in name else 0))
    return out


def _tianshou() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import tianshou.data
        except ImportError:
            return None
    return tianshou.data


def _batch(row: Fields) -> Any:
    return Batch(**row, info={})


def _each(function: Callable[[Any], Any], arguments: list[Any]) -> Call:
    following = cycle(arguments).__next__
    return lambda: function(following())


def _row(name: str, bar: float | None, floor: Call, own: Call, theirs: Call | None) -> Row:
    seconds, ratios = beside(floor, {"own": own, **({"tianshou": theirs} if theirs else {})})
    return Row(name, seconds, ratios["own"], bar, ratios.get("tianshou"))


def _require_same(floor: Ring, own: Any, at: Any) -> None:
    for name, values in floor.gather(at).items():
        np.testing.assert_array_equal(own[at][name], values, err_msg=name)
    np.testing.assert_array_equal(own.get(at, "obs", stack_num=FRAMES), floor.frames(at, FRAMES))
    values = np.linspace(0, 1, ROWS)
    returns = compute_nstep_return(own[at], own, at, lambda *_: values, GAMMA, STEPS).returns
    np.testing.assert_allclose(returns, floor.nstep(at, values))
