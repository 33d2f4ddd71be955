"""A process that is killed, whatever it was doing, leaves a folder that has every row whose add had returned."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from typedbatch import Batch
from typedbatch.buffers import (
    CachedReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)

pytestmark = pytest.mark.slow
CAPACITY = 5
"""Of each ring: overwriting is constant."""
LENGTHS = (3, 4)
"""Of the episodes of each environment."""
CLASSES = {one.__name__: one for one in (ReplayBuffer, VectorReplayBuffer, PrioritizedReplayBuffer, CachedReplayBuffer)}
FIVE_CLASSES = {**CLASSES, "PrioritizedVectorReplayBuffer": PrioritizedVectorReplayBuffer}
KILLS = 40 if settings.get_current_profile_name() == "fuzz" else 12
"""Of each class, at random moments."""

PROCESS = """
import json, os, shutil, sys, traceback
from pathlib import Path
import numpy as np
from typedbatch import Batch
from typedbatch.buffers.state import state_of
import typedbatch.buffers as buffers

CAPACITY, LENGTHS = json.loads(sys.argv[1])

def say(what):
    os.write(1, f"{what}\\n".encode())

def opened(name, path, width):
    cls = getattr(buffers, name)
    if Path(path, "buffer.json").exists():
        return cls.open(path)
    if name == "VectorReplayBuffer":
        return cls(2 * CAPACITY, 2, path=path)
    if name == "PrioritizedReplayBuffer":
        return cls(CAPACITY, 0.5, 0.5, path=path)
    if name == "PrioritizedVectorReplayBuffer":
        return cls(2 * CAPACITY, 2, 0.5, 0.5, path=path)
    if name == "CachedReplayBuffer":
        return cls(buffers.ReplayBuffer(CAPACITY if width > 1 else 100), 2, max(LENGTHS), path=path)
    return cls(CAPACITY, path=path)

def rows(step, width, several, **more):
    env = np.arange(2) if several else np.array(0)
    obs = np.full((*env.shape, width), step, float) + env[..., None] / 4
    done = (step + 1) % np.array(LENGTHS) == 0 if several else (step + 1) % LENGTHS[0] == 0
    return Batch(obs=obs, act=np.full(env.shape, step), rew=env + step * 1.0, terminated=done, truncated=done & False,
                 obs_next=Batch(x=obs + 0.5), **more)

def add(buffer, step, width, **more):
    buffer.add(rows(step, width, state_of(buffer).many, **more))

def add_for_ever(name, path, width):
    buffer = opened(name, path, width)
    step = int(buffer.act[buffer.sample_indices(0)].max()) + 1 if len(buffer) else 0
    while True:
        add(buffer, step, width)
        say(step)
        if hasattr(buffer, "weight"):
            buffer.update_weight(buffer.sample_indices(3), np.full(3, step % 7))
        step += 1

def prepare(name, path, width, count):
    buffer = opened(name, path, width)
    for step in range(count):
        add(buffer, step, width)

def change(name, path, width, what, step):
    buffer = opened(name, path, width)
    if what == "add":
        return lambda: add(buffer, step, width)
    if what == "new field":
        return lambda: add(buffer, step, width, extra=np.arange(2.0) if state_of(buffer).many else 1.0)
    if what == "update":
        other = buffers.VectorReplayBuffer(4, 2) if name == "VectorReplayBuffer" else buffers.ReplayBuffer(2)
        for one in range(step, step + 2):
            add(other, one, width)
        return lambda: buffer.update(other)
    if what == "drop":
        buffer.set_array_at_key(np.array([np.nan]), "rew", [int(buffer.sample_indices(0)[0])])
        return buffer.dropnull
    if what == "priorities":
        return lambda: buffer.update_weight(buffer.sample_indices(0), np.arange(len(buffer)) + 5.0)
    if what == "replace":
        given = Batch.stack([rows(step, width, False)] * buffer.maxsize)
        given.rew = np.full((buffer.maxsize, 3), step * 1.0)  # positions take another place then
        return lambda: buffer.set_batch(given)
    assert what == "reset"
    return buffer.reset

def traced(act, at_line):
    package = os.path.dirname(buffers.__file__)
    def trace(frame, event, arg):
        if not frame.f_code.co_filename.startswith(package):
            return None
        if event == "line":
            at_line()
        return trace
    sys.settrace(trace)
    act()
    sys.settrace(None)
    at_line()

def killed(name, path, width, what, step):
    # Between lines, a copy of the files is what a process that is killed there leaves: each state they are in, once.
    count, before = 0, None
    def at_line():
        nonlocal count, before
        now = {file.name: file.read_bytes() for file in Path(path).iterdir()}
        if now != before:
            shutil.copytree(path, f"{path}-{count}")
            count += 1
        before = now
    traced(change(name, path, width, what, step), at_line)
    say(count)

add(buffers.ReplayBuffer(2), 0, 3)  # what numpy imports when it is first needed would be imported in each child
for line in sys.stdin:
    what, *arguments = json.loads(line)
    if not (child := os.fork()):
        try:
            globals()[what](*arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    say(f"process {child}")
    say(f"gone {os.waitpid(child, 0)[1]}")
"""


class Processes:
    """Processes that import typedbatch once, fork for each task, and say on a pipe what they did."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-c", PROCESS, json.dumps([CAPACITY, LENGTHS])]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self.child = 0

    def start(self, task: str, *arguments: Any) -> None:
        self.process.stdin.write(json.dumps([task, *map(_plain, arguments)]) + "\n")
        self.process.stdin.flush()
        self.child = 0

    def lines(self) -> Iterator[str]:
        """Yield the lines that the process prints, until it has ended."""
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "gone":
                self.status = int(rest)
                return
            if word == "process":
                self.child = int(rest)
            else:
                yield line.strip()
        raise AssertionError("the processes are at an end")

    def do(self, task: str, *arguments: Any) -> list[str]:
        self.start(task, *arguments)
        return list(self.lines())

    def end(self) -> None:
        """With the child that a test has left, if it was ended."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def _plain(argument: Any) -> Any:
    return str(argument) if isinstance(argument, Path) else argument


@pytest.fixture(scope="module")
def processes():
    out = Processes()
    yield out
    out.end()


def environments(name: str) -> int:
    return 1 if name in ("ReplayBuffer", "PrioritizedReplayBuffer") else 2


def held(name: str, adds: int, capacity: int = CAPACITY) -> list[list[tuple[int, int]]]:
    """The rows of each ring after so many adds, as (environment, step), oldest first."""
    if name != "CachedReplayBuffer":
        return [[(env, step) for step in range(adds)][-capacity:] for env in range(environments(name))]
    main: list[tuple[int, int]] = []
    caches: list[list[tuple[int, int]]] = [[], []]
    for step in range(adds):
        for env, cache in enumerate(caches):
            cache.append((env, step))
        for env, cache in enumerate(caches):
            if (step + 1) % LENGTHS[env] == 0:
                main = [*main, *cache][-capacity:]
                cache.clear()
    return [main, *caches]


def rings(buffer: Any) -> list[list[tuple[int, int]]]:
    """The rows of each ring as (environment, step), after a look at every value of theirs."""
    if not len(buffer):
        return [[] for _ in buffer.last_index]
    rows, slots = buffer[:], buffer.sample_indices(0)
    env = (rows.obs[:, 0] % 1 * 4).astype(int)
    assert (rows.obs == (rows.act + env / 4)[:, None]).all(), "a torn row"
    assert (rows.obs_next.x == rows.obs + 0.5).all(), "a torn row"
    assert (rows.rew == rows.act + env * 1.0).all()
    assert (rows.terminated == ((rows.act + 1) % np.array(LENGTHS)[env] == 0)).all()
    assert (rows.done == rows.terminated).all()
    assert not rows.truncated.any()
    ring = np.searchsorted(buffer.subbuffer_edges, slots, side="right") - 1
    named = list(zip(env.tolist(), rows.act.tolist(), strict=True))
    return [
        [one for one, its in zip(named, ring, strict=True) if its == which] for which in range(len(buffer.last_index))
    ]


def flat(of_rings: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    return [row for ring in of_rings for row in ring]


def check_kept(buffer: Any, name: str, adds: int, capacity: int = CAPACITY) -> int:
    """So many adds had returned, one more may have been going on. Returns how many count."""
    there = rings(buffer)
    begun = flat(held(name, adds + 1, capacity))
    required = [row for row in flat(held(name, adds, capacity)) if row in begun]
    assert set(required) <= set(flat(there)), "a row is gone whose add had returned"
    assert set(flat(there)) <= {*flat(held(name, adds, capacity)), *begun}, (
        "a row that was never added, or was overwritten"
    )
    assert len(set(flat(there))) == len(flat(there)), "a row is there twice"
    for ring in there[1:] if name == "CachedReplayBuffer" else there:
        assert ring == sorted(ring), "rows are not in the order of time"
    if name == "CachedReplayBuffer" and there[0]:
        moved = held(name, adds + 1, capacity=1000000)[0]
        first = moved.index(there[0][0])
        assert there[0] == moved[first : first + len(there[0])], "episodes are not in one piece"
    check_priorities(buffer)
    return 1 + max((step for _, step in flat(there)), default=-1)


def check_priorities(buffer: Any) -> None:
    if isinstance(buffer, PrioritizedReplayBuffer):
        has_priority = np.flatnonzero(buffer.weight[np.arange(buffer.maxsize)])
        assert sorted(buffer.sample_indices(0).tolist()) == has_priority.tolist(), "priorities where no rows are"
        if len(buffer):
            assert np.isin(buffer.sample_indices(50), has_priority).all()


def add_step(buffer: Any, name: str, step: int, width: int) -> None:
    env = np.arange(environments(name))
    obs = np.full((len(env), width), step, float) + env[:, None] / 4
    done = (step + 1) % np.array(LENGTHS)[env] == 0
    given = {"obs": obs, "act": np.full(len(env), step), "rew": env + step * 1.0, "terminated": done}
    buffer.add(Batch(given, truncated=done & False, obs_next=Batch(x=obs + 0.5)), buffer_ids=env)


def goes_on(buffer: Any, name: str, adds: int, width: int) -> None:
    """Whole rings of rows more are added, and are all that is there then."""
    after = adds + 2 * max(CAPACITY, *LENGTHS)
    for step in range(adds, after):
        add_step(buffer, name, step, width)
    assert rings(buffer) == held(name, after)
    check_priorities(buffer)


@pytest.mark.parametrize("name", FIVE_CLASSES)
def test_a_process_that_is_killed_at_random_moments_loses_no_row_and_tears_none(name, tmp_path, processes):
    moments = random.Random(name)
    adds, overwritten = 0, False
    for _ in range(KILLS):
        processes.start("add_for_ever", name, tmp_path / "buffer", 2000)
        deadline = None
        for line in processes.lines():
            adds = int(line) + 1
            deadline = deadline or time.monotonic() + moments.uniform(0, 0.04)
            if processes.child and time.monotonic() > deadline:
                os.kill(processes.child, signal.SIGKILL)
                processes.child, deadline = 0, float("inf")
        assert os.WTERMSIG(processes.status) == signal.SIGKILL
        overwritten |= adds > 4 * CAPACITY
        buffer = FIVE_CLASSES[name].open(tmp_path / "buffer")
        adds = check_kept(buffer, name, adds)
        buffer.close()
    assert overwritten
    goes_on(FIVE_CLASSES[name].open(tmp_path / "buffer"), name, adds, 2000)


def folders_of_killed_processes(
    processes: Processes, name: str, before: Path, what: str, step: int, width: int = 3
) -> Iterator[Path]:
    """A folder for every state that the files are in while something goes on, as a process killed there leaves it."""
    changed = before.with_name(f"{before.name}-{what}")
    if before.exists():
        shutil.copytree(before, changed)
    (count,) = processes.do("killed", name, changed, width, what, step)
    assert int(count) > 1
    for number in range(int(count)):
        yield changed.with_name(f"{changed.name}-{number}")


@pytest.mark.parametrize("what", ["add", "new field"])
@pytest.mark.parametrize("name", CLASSES)
def test_an_add_that_is_killed_between_any_two_writes_is_there_as_a_whole_or_not_at_all(
    name, what, tmp_path, processes
):
    for adds in (2, 23 if name == "CachedReplayBuffer" else 3 * CAPACITY):  # with 24, both episodes end
        processes.do("prepare", name, tmp_path / str(adds), 3, adds)
        for folder in folders_of_killed_processes(processes, name, tmp_path / str(adds), what, adds):
            there = check_kept(CLASSES[name].open(folder), name, adds)
            assert there in (adds, adds + 1)
            goes_on(CLASSES[name].open(folder), name, there, 3)


def test_an_episode_whose_move_was_interrupted_is_not_overwritten_by_the_next_one(tmp_path, processes):
    name, adds = "CachedReplayBuffer", 11  # with the next one, both episodes end, and there is room for all rows
    processes.do("prepare", name, tmp_path / "buffer", 1, adds)
    for folder in folders_of_killed_processes(processes, name, tmp_path / "buffer", "add", adds, width=1):
        buffer = CachedReplayBuffer.open(folder)
        there = check_kept(buffer, name, adds, capacity=100)
        for step in range(there, 24):
            add_step(buffer, name, step, 1)
            assert sorted(flat(rings(buffer))) == [(env, one) for env in range(2) for one in range(step + 1)]
        assert rings(buffer)[1:] == [[], []]


@pytest.mark.parametrize("name", CLASSES)
def test_a_first_add_that_is_killed_leaves_a_folder_to_go_on_with(name, tmp_path, processes):
    for folder in folders_of_killed_processes(processes, name, tmp_path / "none", "add", 0):
        there = check_kept(CLASSES[name].open(folder), name, 0)
        goes_on(CLASSES[name].open(folder), name, there, 3)


@pytest.mark.parametrize("name", ["ReplayBuffer", "VectorReplayBuffer", "PrioritizedReplayBuffer"])
def test_an_update_that_is_killed_tears_no_row_and_keeps_those_that_it_does_not_overwrite(name, tmp_path, processes):
    for adds in (2, 3 * CAPACITY):
        processes.do("prepare", name, tmp_path / str(adds), 3, adds)
        for folder in folders_of_killed_processes(processes, name, tmp_path / str(adds), "update", adds):
            buffer = CLASSES[name].open(folder)
            for ring, before, after in zip(rings(buffer), held(name, adds), held(name, adds + 2), strict=True):
                assert ring in (before, [row for row in before if row in after], after)
            check_priorities(buffer)


@pytest.mark.parametrize("name", CLASSES)
def test_a_reset_that_is_killed_keeps_every_row_or_none(name, tmp_path, processes):
    processes.do("prepare", name, tmp_path / "buffer", 3, 8)
    for folder in folders_of_killed_processes(processes, name, tmp_path / "buffer", "reset", 8):
        buffer = CLASSES[name].open(folder)
        assert len(buffer) == 0 or rings(buffer) == held(name, 8)
        check_priorities(buffer)


@pytest.mark.parametrize(
    "name", [pytest.param("ReplayBuffer", marks=pytest.mark.quick), "VectorReplayBuffer", "PrioritizedReplayBuffer"]
)
def test_a_dropnull_that_is_killed_leaves_only_rows_that_were_there(name, tmp_path, processes):
    processes.do("prepare", name, tmp_path / "buffer", 3, 8)
    first, *others = flat(held(name, 8))
    for folder in folders_of_killed_processes(processes, name, tmp_path / "buffer", "drop", 8):
        buffer = CLASSES[name].open(folder)
        if buffer.hasnull():
            buffer.set_array_at_key(np.array([float(sum(first))]), "rew", [int(buffer.sample_indices(0)[0])])
        there = flat(rings(buffer))
        assert there in ([], [first, *others], others)
        check_priorities(buffer)


def test_a_set_batch_that_is_killed_leaves_the_rows_of_before_or_after_or_none(tmp_path, processes):
    processes.do("prepare", "ReplayBuffer", tmp_path / "buffer", 3, 8)
    for folder in folders_of_killed_processes(processes, "ReplayBuffer", tmp_path / "buffer", "replace", 8):
        buffer = ReplayBuffer.open(folder)
        if len(buffer) and buffer.rew.ndim == 1:
            assert rings(buffer) == held("ReplayBuffer", 8)
        elif len(buffer):
            assert (buffer[:].act == 8).all()
            assert (buffer[:].obs == 8).all()
            assert (buffer[:].rew == np.full((CAPACITY, 3), 8.0)).all()


def test_priorities_that_are_being_set_when_the_process_is_killed_are_those_of_before_or_after(tmp_path, processes):
    processes.do("prepare", "PrioritizedReplayBuffer", tmp_path / "buffer", 3, 8)
    before = PrioritizedReplayBuffer.open(tmp_path / "buffer")
    old = before.weight[np.arange(CAPACITY)]
    new = np.zeros(CAPACITY)
    new[before.sample_indices(0)] = np.sqrt(np.arange(CAPACITY) + 5.0)
    del before
    folders = folders_of_killed_processes(processes, "PrioritizedReplayBuffer", tmp_path / "buffer", "priorities", 8)
    for folder in folders:
        buffer = PrioritizedReplayBuffer.open(folder)
        weights = buffer.weight[np.arange(CAPACITY)]
        assert (np.isclose(weights, old) | np.isclose(weights, new)).all()
        check_priorities(buffer)
