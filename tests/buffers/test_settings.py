"""The numbers that a buffer is made with and asked for: what makes no sense is an error of the library's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.buffers.helpers import BUFFERS, distance, goal_transitions, ids_for, rows_for, transition, transitions
from tests.buffers.test_declared import Frames, Step, fields
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    SegmentTree,
    VectorReplayBuffer,
    compute_episodic_return,
    compute_nstep_return,
)

NO_NUMBERS = [None, [1], float("nan"), "x", 1j]
NO_COUNTS = [*NO_NUMBERS, 1.9, float("inf"), 2**62, 2**70, -(2**70)]


def filled() -> Any:
    buffer = ReplayBuffer(6)
    buffer.extend(transitions(range(4)))
    return buffer


def nstep(gamma: Any = 0.5, n_step: Any = 2) -> Any:
    buffer = filled()
    slots = buffer.sample_indices(0)
    return compute_nstep_return(
        buffer[slots], buffer, slots, lambda _, slots: np.ones(len(slots)), gamma, n_step
    ).returns


def advantages(**settings: Any) -> Any:
    buffer = filled()
    return compute_episodic_return(buffer[:], buffer, buffer.sample_indices(0), np.ones(4), np.ones(4), **settings)


COUNTS: dict[str, Callable[[Any], Any]] = {
    "size": ReplayBuffer,
    "total_size": lambda value: VectorReplayBuffer(value, 2),
    "buffer_num": lambda value: VectorReplayBuffer(4, value),
    "cached_buffer_num": lambda value: CachedReplayBuffer(ReplayBuffer(4), value, 2),
    "max_episode_length": lambda value: CachedReplayBuffer(ReplayBuffer(4), 2, value),
    "stack_num": lambda value: ReplayBuffer(4, stack_num=value),
    "stack_num, set": lambda value: setattr(filled(), "stack_num", value),
    "horizon": lambda value: HERReplayBuffer(4, distance, value),
    "the size of a tree": SegmentTree,
}


@pytest.mark.parametrize("value", [*NO_COUNTS, -5], ids=repr)
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_a_whole_number_in_bounds(name, value):
    with pytest.raises(errors.SizeError, match=name.removesuffix(", set")):
        COUNTS[name](value)


@pytest.mark.parametrize("value", NO_COUNTS[1:-1], ids=repr)
@pytest.mark.parametrize("name", BUFFERS)
def test_so_is_the_size_of_a_sample(name, value):
    buffer = BUFFERS[name]()
    buffer.add(rows_for(name, [0, 1]), buffer_ids=ids_for(name))
    with pytest.raises(errors.SizeError, match="batch_size"):
        buffer.sample(value)


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "alpha": lambda value: PrioritizedReplayBuffer(4, value, 0.5),
    "beta": lambda value: PrioritizedReplayBuffer(4, 0.5, value),
    "beta, set": lambda value: PrioritizedReplayBuffer(4, 0.5, 0.5).set_beta(value),
    "future_p": lambda value: setattr(HERReplayBuffer(4, distance, 3), "future_p", value),
    "gamma": nstep,
    "gamma, of advantages": lambda value: advantages(gamma=value),
    "gae_lambda": lambda value: advantages(gae_lambda=value),
}


@pytest.mark.parametrize("value", [*NO_NUMBERS, -5, float("inf"), 10**400], ids=lambda value: repr(value)[:9])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_finite_and_in_bounds(name, value):
    with pytest.raises(errors.SettingError, match=name.partition(",")[0] + " is "):
        NUMBERS[name](value)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0.5, -5], ids=repr)
def test_future_k_is_1_or_more(value):
    with pytest.raises(errors.SizeError, match="future_k is 1 or more"):
        HERReplayBuffer(4, distance, 3, value)


@pytest.mark.parametrize("value", [-1, 1.9, "x"])
def test_a_seed_is_a_whole_number(value):
    with pytest.raises(errors.SettingError, match="random_seed must be None or a whole number"):
        ReplayBuffer(4, random_seed=value)


def test_a_reward_function_is_one():
    with pytest.raises(errors.LeafError, match="compute_reward_fn is a function"):
        HERReplayBuffer(4, None, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [10, 2**40, 10**30])
def test_more_steps_than_there_are_rows_are_those_that_there_are(steps):
    np.testing.assert_array_equal(nstep(n_step=steps), nstep(n_step=4))


@pytest.mark.parametrize(("start", "stop"), [(None, 2), (0, "x"), (1.9, 3), (2**70, 1)])
def test_the_ends_of_an_episode_are_slots(start, stop):
    with pytest.raises(errors.SizeError, match=r"(start|stop) is"):
        filled().get_buffer_indices(start, stop)


# ---- settings that change -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUFFERS)
def test_frames_that_are_set_are_as_frames_that_it_was_made_with(name):
    changed, made = BUFFERS[name](), BUFFERS[name](stack_num=3)
    for buffer in (changed, made):
        for number in range(3):
            buffer.add(rows_for(name, [number, number + 0.5]), buffer_ids=ids_for(name))
    rings = changed.buffers
    changed.stack_num = 3
    assert changed.stack_num == changed.options["stack_num"] == 3
    assert changed[:] == made[:]
    assert [ring[:] == other[:] for ring, other in zip(rings, made.buffers, strict=True)] == [True] * len(rings)
    changed.stack_num = 1
    assert changed[:].act.ndim == 1


def test_frames_that_are_not_declared_are_not_set():
    buffer = ReplayBuffer[Step](5)
    buffer.add(Batch(**fields()))
    with pytest.raises(errors.SchemaError, match=r"result of ReplayBuffer\.sample\(\)"):
        buffer.stack_num = 3
    assert (buffer.stack_num, buffer.options["stack_num"], buffer[:].obs.shape) == (1, 1, (1, 4))
    stacked = ReplayBuffer[Step, Frames](5, stack_num=3)
    stacked.add(Batch(**fields()))
    with pytest.raises(errors.SchemaError):
        stacked.stack_num = 1
    assert stacked.sample(2)[0].obs.shape == (2, 3, 4)


def test_settings_that_were_changed_are_kept_on_disk_and_in_files(tmp_path):
    buffer = HERReplayBuffer(5, distance, 3, path=tmp_path / "b")
    for row in goal_transitions(range(3)):
        buffer.add(row)
    buffer.stack_num, buffer.future_p = 2, 0.5
    buffer.save_hdf5(tmp_path / "b.h5")
    buffer.close()
    for again in (
        HERReplayBuffer.open(tmp_path / "b", compute_reward_fn=distance),
        HERReplayBuffer.load_hdf5(tmp_path / "b.h5", compute_reward_fn=distance),
    ):
        assert (again.stack_num, again.future_p, again.future_k, len(again)) == (2, 0.5, 2, 3)


def test_a_reader_sets_nothing(tmp_path):
    buffer = ReplayBuffer(5, path=tmp_path)
    buffer.add(transition(0))
    with pytest.raises(errors.StorageError, match="is open for reading"):
        ReplayBuffer.open(tmp_path, "r").stack_num = 2


@pytest.mark.parametrize(("future_p", "future_k"), [(0, 1), (0.8, 5), (1, float("inf"))])
def test_goals_are_as_likely_as_is_set(future_p, future_k):
    buffer = HERReplayBuffer(8, distance, 4)
    for row in goal_transitions(range(8), terminated=True):
        buffer.add(row)
    buffer.future_p = future_p
    assert buffer.future_p == future_p
    assert buffer.future_k == pytest.approx(future_k)
    changed = np.mean([(buffer.sample(0)[0].obs.desired_goal != -1).mean() for _ in range(200)])
    assert changed == pytest.approx(future_p, abs=0.1)
