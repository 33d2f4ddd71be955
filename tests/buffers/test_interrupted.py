"""Calls that are interrupted at any moment, once or twice, and calls of several threads: a buffer stays what it was."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tests.buffers.test_disk import no_reward
from tests.interruptions import interrupted
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
    compute_nstep_return,
)
from typedbatch.buffers.state import state_of

FUZZING = settings.get_current_profile_name() == "fuzz"
LENGTHS = np.array([3, 4])
MAKE: dict[str, Callable[[Any], Any]] = {
    "ReplayBuffer": lambda path: ReplayBuffer(7, path=path),
    "VectorReplayBuffer": lambda path: VectorReplayBuffer(14, 2, path=path),
    "PrioritizedReplayBuffer": lambda path: PrioritizedReplayBuffer(7, 0.5, 0.5, path=path),
    "CachedReplayBuffer": lambda path: CachedReplayBuffer(ReplayBuffer(7), 2, 4, path=path),
    "HERReplayBuffer": lambda path: HERReplayBuffer(7, no_reward, 4, path=path),
}


def rows(step: int, several: bool, **more: Any) -> Batch:
    env = np.arange(2) if several else np.array(0)
    obs = np.full((*env.shape, 3), step, float) + env[..., None] / 4
    done = (step + 1) % (LENGTHS if several else LENGTHS[0]) == 0
    goals = {"achieved_goal": obs, "desired_goal": obs + 1}
    return Batch(
        obs=goals, act=np.full(env.shape, step), rew=env + step * 1.0, terminated=np.asarray(done),
        truncated=np.zeros(env.shape, bool), obs_next=goals, **more,
    )  # fmt: skip


def check_whole(buffer: Any) -> list[list[int]]:
    """The steps in each ring, after a look at every value, at positions and at priorities."""
    if not len(buffer):  # which finishes a rollback that was interrupted
        return [[] for _ in range(buffer.buffer_num)]
    slots = state_of(buffer).rings.chronological()
    stored = Batch({name: column[slots] for name, column in state_of(buffer).columns.items()})
    env = (stored.obs.achieved_goal[:, 0] % 1 * 4).astype(int)
    assert (stored.obs.achieved_goal == (stored.act + env / 4)[:, None]).all(), "a torn row"
    assert (stored.obs_next.desired_goal == stored.obs.desired_goal).all(), "a torn row"
    assert (stored.rew == stored.act + env * 1.0).all()
    assert (stored.done == ((stored.act + 1) % LENGTHS[env] == 0)).all()
    ring = np.broadcast_to(state_of(buffer).rings.ring_of(slots), slots.shape)
    out = [stored.act[ring == one].tolist() for one in range(buffer.buffer_num)]
    for one in out[1:] if isinstance(buffer, CachedReplayBuffer) else out:
        assert one == sorted(set(one)), "rows that are not in the order of time"
        if one:
            assert one == list(range(one[0], one[-1] + 1)), "a row is missing in between"
    if isinstance(buffer, CachedReplayBuffer):
        last = state_of(buffer).rings.last[1:][state_of(buffer).rings.length[1:] > 0]
        assert not buffer.done[last].any(), "an episode that ended is not moved"
    if isinstance(buffer, PrioritizedReplayBuffer):
        with_priority = np.flatnonzero(buffer.weight[np.arange(buffer.maxsize)])
        assert sorted(slots.tolist()) == with_priority.tolist()
        assert buffer.weight.reduce() == pytest.approx(buffer.weight.values.sum())
    assert set(buffer.sample(30)[1].tolist()) <= set(slots.tolist())
    return out


CALLS: dict[str, Callable[[Any, int], Any]] = {
    "add": lambda buffer, step: lambda: buffer.add(rows(step, state_of(buffer).many)),
    "extend": lambda buffer, step: _extend(buffer, step),
    "add a new field": lambda buffer, step: _add_new_field(buffer, step),
    "update": lambda buffer, step: _update(buffer, step),
    "set_array_at_key": lambda buffer, step: lambda: buffer.set_array_at_key(np.ones(buffer.maxsize), "more"),
    "reset": lambda buffer, step: buffer.reset,
    "set_batch": lambda buffer, step: _set_batch(buffer, step),
    "dropnull": lambda buffer, step: buffer.dropnull,
    "sample": lambda buffer, step: lambda: buffer.sample(5),
    "update_weight": lambda buffer, step: (
        lambda: buffer.update_weight(buffer.sample_indices(0), np.arange(len(buffer)) + 5.0)
    ),
}


def _add_new_field(buffer: Any, step: int) -> Callable[[], Any]:
    many = state_of(buffer).many
    return lambda: buffer.add(rows(step, many, new=np.ones(1 + many)))


def _extend(buffer: Any, step: int) -> Callable[[], Any]:
    if state_of(buffer).many:
        given = Batch.cat([rows(step, True), rows(step + 1, True)])
        return lambda: buffer.extend(given, [0, 1, 0, 1])
    given = Batch.stack([rows(step, False), rows(step + 1, False)])
    return lambda: buffer.extend(given)


def _update(buffer: Any, step: int) -> Any:
    other = VectorReplayBuffer(4, 2) if isinstance(buffer, VectorReplayBuffer) else ReplayBuffer(2)
    for one in range(step, step + 2):
        other.add(rows(one, state_of(other).many))
    return lambda: buffer.update(other)


def _set_batch(buffer: Any, step: int) -> Any:
    count = buffer.maxsize
    given = Batch.stack([rows(one, False) for one in range(step, step + count)])
    return lambda: buffer.set_batch(given)


def calls(name: str) -> list[str]:
    left_out = {"update_weight"} if name != "PrioritizedReplayBuffer" else set()
    if name == "CachedReplayBuffer":  # which has rows of its own order
        left_out |= {"update", "set_batch", "extend"}
    left_out |= {"set_batch"} if name == "VectorReplayBuffer" else set()
    return [one for one in CALLS if one not in left_out]


def prepared(name: str, what: str, path: Any) -> Any:
    buffer = MAKE[name](path)
    for step in range(9):
        buffer.add(rows(step, state_of(buffer).many))
    if what == "dropnull":
        gap = np.where(np.arange(buffer.maxsize) == state_of(buffer).rings.occupancy.oldest[0], np.nan, 1)
        buffer.set_array_at_key(gap, "gap")
    return buffer


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("name", "what"), [(name, what) for name in MAKE for what in calls(name)])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_call_that_is_interrupted_anywhere_is_done_as_a_whole_or_not_at_all(where, name, what, tmp_path):
    choice = random.Random(f"{name} {what}")

    def another(folder: str) -> Any:
        return prepared(name, what, tmp_path / folder if where == "disk" else None)

    whole = another("whole")
    before = check_whole(whole)
    lines = interrupted(CALLS[what](whole, 9), 10**9)
    after = check_whole(whole)
    moments = range(lines) if FUZZING else sorted(choice.sample(range(lines), min(lines, 12)))
    for moment in moments:
        buffer = another(str(moment))
        interrupted(CALLS[what](buffer, 9), moment)
        there = check_whole(buffer)
        if what in ("reset", "set_batch", "dropnull"):
            assert there in (before, after, [[] for _ in before])
        else:  # the rows that would have been overwritten may be gone
            for ring, one_before, one_after in zip(there, before, after, strict=True):
                fewer = len(one_before) - len(ring)
                assert ring == one_after or (0 <= fewer <= 2 and ring == one_before[fewer:])
        if where == "disk":
            buffer.close()
            more = {"compute_reward_fn": no_reward} if name == "HERReplayBuffer" else {}
            buffer = type(buffer).open(tmp_path / str(moment), **more)
            assert check_whole(buffer) == there
        if "add" in what or what in ("sample", "update_weight", "set_array_at_key"):
            begin = 1 + max(step for ring in there for step in ring)
            for step in range(begin, begin + 20):
                buffer.add(rows(step, state_of(buffer).many))
            check_whole(buffer)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.timeout(method="thread")  # as it takes the timer and the signal that the limit uses otherwise
@pytest.mark.parametrize("name", MAKE)
def test_ctrl_c_at_any_time_and_twice_leaves_a_buffer_of_whole_rows_in_order(name, monkeypatch):
    # it may fall into a finaliser, and then into pytest's hook
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    buffer, choice = MAKE[name](None), random.Random(name)
    MAKE[name](None).add(rows(0, state_of(buffer).many))  # an import that is interrupted leaves its file open
    armed, rang, step = False, False, 0

    def interrupt(*_: Any) -> None:
        nonlocal rang
        if armed:
            rang = True
            raise KeyboardInterrupt

    def add_until_it_rang() -> None:  # a function, as in Python 3.13 the end of a loop is outside the try around it
        nonlocal step
        while not rang:  # in a finaliser Python reports what is raised, and goes on
            buffer.add(rows(step, state_of(buffer).many))
            if hasattr(buffer, "update_weight"):
                buffer.update_weight(buffer.sample_indices(3), np.full(3, step % 7))
            step += 1

    signal.signal(signal.SIGALRM, interrupt)  # it stays: an alarm may still come, by a thread that was not running
    for _ in range(300 if FUZZING else 40):
        try:
            try:
                armed, rang = True, False
                signal.setitimer(signal.ITIMER_REAL, choice.uniform(1e-5, 1e-3), choice.choice([0, 1e-5]))
                add_until_it_rang()
            finally:
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:  # after the alarm is off: Python 3.12 may be interrupted once more after an except
            pass
        there = check_whole(buffer)
        step = 1 + max((one for ring in there for one in ring), default=step - 1)


def test_a_signal_handler_that_calls_the_buffer_in_the_middle_of_a_change_is_refused_and_the_change_rolled_back():
    buffer = ReplayBuffer(7)
    for step in range(3):
        buffer.add(rows(step, False))
    said = []

    class Column(np.ndarray):
        def __setitem__(self, *_: Any) -> None:
            buffer.sample(1)

    state_of(buffer).columns.__dict__["act"] = state_of(buffer).columns.__dict__["act"].view(Column)
    state_of(buffer).share_columns()
    with pytest.raises(errors.StructureError, match="in a signal handler that runs in the middle of a change"):
        buffer.add(rows(3, False))
    del state_of(buffer).columns.__dict__["act"], said
    assert len(buffer) == 3


def test_an_error_in_the_middle_of_a_change_rolls_it_back(monkeypatch):
    buffer = PrioritizedReplayBuffer(7, 0.5, 0.5)
    for step in range(9):
        buffer.add(rows(step, False))

    def fails(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(state_of(buffer), "on_rows_written", fails)
        with pytest.raises(MemoryError):
            buffer.add(rows(9, False))
    assert check_whole(buffer) == [[3, 4, 5, 6, 7, 8]]


@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize("name", MAKE)
def test_an_actor_adds_while_a_learner_samples(name, where, tmp_path):
    buffer = MAKE[name](tmp_path / "b" if where == "disk" else None)
    buffer.add(rows(0, state_of(buffer).many))
    until = time.monotonic() + (6 if FUZZING else 0.5)  # a minute over all of them
    failures: list[BaseException] = []

    def act() -> None:
        step = 1
        try:
            while time.monotonic() < until:
                buffer.add(rows(step, state_of(buffer).many))
                if step % 50 == 0:
                    buffer.save_hdf5(tmp_path / "file")
                step += 1
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    def learn() -> None:
        try:
            while time.monotonic() < until:
                with buffer.lock:
                    batch, slots = buffer.sample(8)
                    compute_nstep_return(batch, buffer, slots, lambda _, at: np.zeros(len(at)), n_step=3)
                assert (batch.obs.achieved_goal == batch.obs.achieved_goal[:, :1]).all(), "a torn row"
                assert (batch.obs.achieved_goal[:, 0].astype(int) == batch.act).all(), "a torn row"
                if hasattr(buffer, "update_weight"):
                    buffer.update_weight(buffer.sample_indices(0), 2.0)
                everything = [row.act.item() for row in Batch(act=buffer[:].act)]
                assert name != "ReplayBuffer" or everything == list(range(everything[0], everything[-1] + 1))
                assert 0 < len(buffer) <= buffer.maxsize
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=one) for one in (act, learn, learn)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    check_whole(buffer)


def test_two_buffers_that_two_threads_update_with_each_other_do_not_wait_for_ever():
    one, two = ReplayBuffer(7), ReplayBuffer(7)
    one.add(rows(0, False))
    two.add(rows(1, False))
    threads = [
        threading.Thread(target=lambda a=a, b=b: [a.update(b) for _ in range(200)], daemon=True)
        for a, b in ((one, two), (two, one))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # if they wait for each other, the limit in pyproject.toml ends the test
    assert (len(one), len(two)) == (7, 7)
