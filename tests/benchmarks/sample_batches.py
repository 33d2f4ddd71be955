"""Sample batches beside RLlib's: the same 256 steps in 8 columns, flat, with sequences, and of three agents.

What changes a batch in place is timed with a shallow copy before it, on both sides, unless it can be done again and
again. RLlib is in an environment of its own, which ``make bench`` runs in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from typedbatch import MultiAgentBatch, SampleBatch

from .timing import Row, row

ROWS, LENGTH, SEQUENCES = 256, 10, 32
Call = Callable[[], Any]


def columns(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "obs": rng.random((ROWS, 4), np.float32), "new_obs": rng.random((ROWS, 4), np.float32),
        "actions": rng.integers(0, 2, ROWS), "rewards": rng.random(ROWS), "terminateds": np.arange(ROWS) % 32 == 31,
        "truncateds": np.zeros(ROWS, bool), "eps_id": np.arange(ROWS) // 32, "t": np.arange(ROWS) % 32,
    }  # fmt: skip


def agents(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Three policies with one agent each."""
    return {f"policy_{i}": {**columns(rng), "agent_index": np.full(ROWS, i)} for i in range(3)}


def with_sequences(flat: dict[str, Any]) -> dict[str, Any]:
    lengths = np.full(SEQUENCES, ROWS // SEQUENCES, np.int32)
    return {**flat, "state_in_0": np.zeros((SEQUENCES, 64), np.float32), "seq_lens": lengths}


def measure_sample_batches() -> tuple[str, list[Row]]:
    """The title and one row per operation, none where RLlib is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from ray.rllib.policy import sample_batch as rllib
            from ray.rllib.policy.view_requirement import ViewRequirement
    except ModuleNotFoundError:
        return "sample batches", []
    rng = np.random.default_rng(0)
    flat = columns(rng)
    sequences, policies = with_sequences(flat), agents(rng)
    views = {"obs": ViewRequirement(), "prev_actions": ViewRequirement("actions", shift=-1)}

    def calls(sample: Any, multi: Any) -> dict[str, Call]:
        one, other, seq = sample(dict(flat)), sample(dict(flat)), sample(dict(sequences))
        pixels = sample({"obs": rng.integers(0, 9, (64, 84, 84), np.uint8)})
        ours = multi({name: sample(dict(batch)) for name, batch in policies.items()}, ROWS)
        return {
            "construct": lambda: sample(flat),
            "len": lambda: len(one),
            "concat": lambda: one.concat(other),
            "copy": lambda: one.copy(),
            "copy, shallow": lambda: one.copy(shallow=True),
            "rows": lambda: list(one.rows()),
            "columns": lambda: one.columns(["obs", "actions"]),
            "batch[10:200]": lambda: one[10:200],
            "slice": lambda: one.slice(10, 200),
            "slice, sequences": lambda: seq.slice(10, 200),
            "slice, zeros in front": lambda: seq.slice(-4, 200),
            "timeslices": lambda: one.timeslices(size=16),
            "split_by_episode, eps_id": lambda: one.split_by_episode(),
            "split_by_episode, flags": lambda: (
                one.split_by_episode(key="terminateds") if sample is SampleBatch else one.split_by_episode(key="dones")
            ),
            "shuffle": other.shuffle,
            "copy, right_zero_pad": lambda: seq.copy(shallow=True).right_zero_pad(LENGTH),
            "copy, to_device": lambda: one.copy(shallow=True).to_device("cpu"),
            "size_bytes": one.size_bytes,
            "as_multi_agent": one.as_multi_agent,
            "compress and decompress": lambda: pixels.compress().decompress_if_needed(),
            "the same, bulk": lambda: pixels.compress(bulk=True).decompress_if_needed(),
            "get_single_step_input_dict": lambda: one.get_single_step_input_dict(views),
            "multi-agent timeslices": lambda: ours.timeslices(16),
            "multi-agent copy": lambda: ours.copy(),
            "multi-agent size_bytes": ours.size_bytes,
            "wrap_as_needed": lambda: multi.wrap_as_needed({"default_policy": one}, ROWS),
        }

    theirs, own = calls(rllib.SampleBatch, rllib.MultiAgentBatch), calls(SampleBatch, MultiAgentBatch)
    title = f"sample batches, beside ray {version('ray')}: {ROWS} steps, 8 columns; below 1 is ahead"
    return title, [row(name, call, own[name], 1.0) for name, call in theirs.items()]
