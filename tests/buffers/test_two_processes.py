"""A folder that two buffers want: one writes, any number reads, and nothing outside of it is written to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.buffers.test_disk import MAKE, described, file_of, filled, opened, state_file, transition
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
    compute_nstep_return,
)
from typedbatch.buffers import folder as folder_module
from typedbatch.buffers.state import state_of

pytestmark = pytest.mark.slow


def content(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir()}


@pytest.mark.parametrize("name", MAKE)
def test_a_second_writer_is_refused_and_the_first_goes_on(name, tmp_path):
    buffer = filled(name, tmp_path)
    before = content(tmp_path)
    with pytest.raises(errors.StorageError, match=r"being written to by this process.*close\(\).*mode='r'"):
        opened(buffer, tmp_path, "r+")
    assert content(tmp_path) == before
    one = transition(7)
    buffer.add(Batch.stack([one, one]) if state_of(buffer).many else one)
    buffer.close()
    again = opened(buffer, tmp_path, "r+")
    assert 7 in again[:].act


HOLDS = """
import sys
from tests.buffers.test_disk import filled
buffer = filled("ReplayBuffer", sys.argv[1])
print("made", flush=True)
sys.stdin.read()
"""


@pytest.mark.quick
def test_the_lock_of_another_process_goes_when_it_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "b")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "made\n"
        with pytest.raises(errors.StorageError, match=rf"being written to by process {holder.pid}"):
            ReplayBuffer.open(tmp_path / "b")
        assert len(ReplayBuffer.open(tmp_path / "b", mode="r")) == 4
        holder.send_signal(signal.SIGKILL)
    buffer = ReplayBuffer.open(tmp_path / "b")
    buffer.add(transition(8))
    assert buffer[:].act.tolist() == [3, 4, 5, 8]


def test_a_buffer_that_nobody_holds_any_more_lets_another_one_write(tmp_path):
    for name in MAKE:
        buffer = filled(name, tmp_path / name)
        assert len(buffer.buffers) > 0  # which refer to each other
        buffer = type(buffer)
        more = {"compute_reward_fn": np.add} if name == "HERReplayBuffer" else {}
        assert len(buffer.open(tmp_path / name, **more)) > 0


def test_a_closed_buffer_is_refused_in_every_call(tmp_path):
    buffer = filled("ReplayBuffer", tmp_path)
    buffer.close()
    buffer.close()
    for call in (lambda: buffer.add(transition(1)), lambda: buffer.sample(1), lambda: buffer[:], lambda: len(buffer)):
        with pytest.raises(errors.StorageError, match=r"this buffer was closed; open\(\)"):
            call()
    in_memory = ReplayBuffer(3)
    in_memory.close()
    in_memory.add(transition(1))
    assert len(in_memory) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_process_neither_writes_nor_keeps_the_lock(tmp_path):
    buffer, memory = filled("ReplayBuffer", tmp_path), ReplayBuffer(3)
    reading, writing = os.pipe()
    waiting, held = os.pipe()
    if not (child := os.fork()):
        said = []
        for call in (lambda: buffer.add(transition(9)), lambda: buffer.sample(1)):
            try:
                call()
            except errors.StorageError as error:
                said.append(str(error))
        memory.add(transition(1))
        said.append(str(len(memory)))
        said.append(str(len(ReplayBuffer.open(tmp_path, mode="r"))))
        os.write(writing, "|".join(said).encode())
        os.close(held)
        os.read(waiting, 1)  # until this process is gone, if it does not end the child itself
        os._exit(0)
    try:
        said = os.read(reading, 4000).decode().split("|")
        assert [one[:30] for one in said[:2]] == ["this buffer belongs to the pro"] * 2
        assert said[2:] == ["1", "4"]
        buffer.add(transition(6))
        buffer.close()
        assert ReplayBuffer.open(tmp_path)[:].act.tolist() == [3, 4, 5, 6]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (reading, writing, waiting, held):
            os.close(end)


def test_where_there_are_no_locks_a_buffer_is_read_and_not_written(tmp_path, monkeypatch):
    filled("ReplayBuffer", tmp_path / "b").close()
    monkeypatch.setattr(folder_module, "fcntl", None)
    for write in (lambda: ReplayBuffer.open(tmp_path / "b"), lambda: ReplayBuffer(3, path=tmp_path / "new")):
        with pytest.raises(errors.StorageError, match="only on Linux and macOS"):
            write()
    assert len(ReplayBuffer.open(tmp_path / "b", mode="r")) == 4


CHANGES: dict[str, Any] = {
    "add": lambda buffer: buffer.add(transition(1)),
    "update": lambda buffer: buffer.update(ReplayBuffer(2)),
    "reset": lambda buffer: buffer.reset(),
    "set_batch": lambda buffer: buffer.set_batch(buffer[:]),
    "set_array_at_key": lambda buffer: buffer.set_array_at_key(np.zeros(4), "act"),
    "dropnull": lambda buffer: buffer.dropnull(),
    "update_weight": lambda buffer: buffer.update_weight([0], [1.0]),
    "init_weight": lambda buffer: buffer.init_weight([0]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_reader_refuses_every_change_by_name(what, tmp_path):
    filled("PrioritizedReplayBuffer", tmp_path).close()
    before = content(tmp_path)
    reader = PrioritizedReplayBuffer.open(tmp_path, mode="r")
    with pytest.raises(errors.StorageError, match=rf"{what}\(\) changes the buffer, and this one is open for reading"):
        CHANGES[what](reader)
    with pytest.raises(ValueError, match="read-only"):
        reader.act[0] = 5
    assert content(tmp_path) == before


@pytest.mark.parametrize("mode", ["w", "a", "", None, "rb"])
def test_an_unknown_mode_is_refused(mode, tmp_path):
    filled("ReplayBuffer", tmp_path).close()
    with pytest.raises(errors.SettingError, match="mode= is 'r', to read, or 'r\\+'"):
        ReplayBuffer.open(tmp_path, mode)


@pytest.mark.parametrize("name", MAKE)
def test_a_reader_sees_what_the_writer_does_and_changes_nothing(name, tmp_path):
    buffer = filled(name, tmp_path, 2)
    readers = [opened(buffer, tmp_path) for _ in range(3)]
    for number in range(2, 9):
        one = transition(number, **({"new": number} if number > 4 else {}))
        buffer.add(Batch.stack([one, one]) if state_of(buffer).many else one)
        if hasattr(buffer, "update_weight"):
            buffer.update_weight(buffer.sample_indices(0), np.arange(len(buffer)) + 1.0)
        before, rows, slots = content(tmp_path), buffer[:], set(buffer.sample_indices(0).tolist())
        for reader in readers:
            assert reader[:] == rows
            assert len(reader) == len(buffer)
            assert reader.unfinished_index().tolist() == buffer.unfinished_index().tolist()
            sampled, at = reader.sample(20)
            assert (reader[at].act == sampled.act).all()
            assert set(at.tolist()) <= slots
            assert [row.act.item() for row in reader] == rows.act.tolist()
            if hasattr(buffer, "get_weight"):
                assert reader.get_weight(...).tolist() == buffer.get_weight(...).tolist()
        assert content(tmp_path) == before
    buffer.reset()
    assert [len(reader) for reader in readers] == [0, 0, 0]


def test_slots_of_a_reader_mean_the_rows_that_they_held(tmp_path):
    buffer = filled("ReplayBuffer", tmp_path, 4)
    reader = ReplayBuffer.open(tmp_path, mode="r")
    _, slots = reader.sample(0)
    buffer.add(transition(10))
    assert reader[slots[2:]].act.tolist() == [2, 3]
    gone = "overwritten since these slots were sampled; sample again"
    for read in (
        lambda: reader[slots],
        lambda: reader.get(slots, "act"),
        lambda: reader.next(slots),
        lambda: compute_nstep_return(rows, reader, slots, lambda _, at: np.zeros(len(at)), n_step=3),
    ):
        rows = Batch.stack([transition(one) for one in range(4)])
        with pytest.raises(errors.StorageError, match=gone):
            read()
    rows, slots = reader.sample(0)
    assert rows.act.tolist() == [1, 2, 3, 10]
    later = compute_nstep_return(rows, reader, slots, lambda _, at: np.zeros(len(at)), n_step=3)
    assert later.returns.shape == (4,)


def test_a_reader_works_where_nothing_may_be_written(tmp_path, monkeypatch):
    filled("CachedReplayBuffer", tmp_path).close()
    (tmp_path / "buffer.lock").unlink()
    before = content(tmp_path)
    open_file = os.open

    def only_read(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and str(path).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", only_read)
    with pytest.raises(errors.StorageError, match=r"cannot be written to: .*mode='r' opens it for reading"):
        CachedReplayBuffer.open(tmp_path)
    reader = CachedReplayBuffer.open(tmp_path, mode="r")
    assert len(reader.sample(5)[1]) == 5
    assert content(tmp_path) == before


def test_the_rows_of_a_reader_are_not_moved_but_saved(tmp_path):
    filled("ReplayBuffer", tmp_path / "b").close()
    reader = ReplayBuffer.open(tmp_path / "b", mode="r")
    with pytest.raises(errors.StructureError, match=r"the other buffer is open for reading.*save_hdf5"):
        ReplayBuffer(10).update(reader)
    reader.save_hdf5(tmp_path / "file")
    other = ReplayBuffer(10)
    other.update(ReplayBuffer.load_hdf5(tmp_path / "file"))
    assert other[:].act.tolist() == [2, 3, 4, 5]


WRITES = """
import select, sys
import numpy as np
from typedbatch import Batch
from typedbatch.buffers import CachedReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
name, path = sys.argv[1:]
make = {
    "ReplayBuffer": lambda: ReplayBuffer(50, path=path),
    "VectorReplayBuffer": lambda: VectorReplayBuffer(100, 2, path=path),
    "PrioritizedReplayBuffer": lambda: PrioritizedReplayBuffer(50, 0.5, 0.5, path=path),
    "CachedReplayBuffer": lambda: CachedReplayBuffer(ReplayBuffer(50), 2, 7, path=path),
}
buffer = make[name]()
step = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    env = np.arange(2) if name in ("VectorReplayBuffer", "CachedReplayBuffer") else np.array(0)
    obs = np.full((*env.shape, 50), step, float)
    more = {"new": obs + 1} if step > 3000 else {}
    buffer.add(Batch(obs=obs, act=np.full(env.shape, step), rew=env * 1.0, terminated=env + step % 5 == 4,
                     truncated=env > 5, obs_next=obs + 0.5, **more))
    if name == "PrioritizedReplayBuffer":
        buffer.update_weight(buffer.sample_indices(3), np.full(3, step % 7))
    if step == 10:
        print("begun", flush=True)
    if step % 5000 == 4999:
        buffer.reset()
    step += 1
"""

READS, STEPS = 1000, 12_000
"""So often is everything read, and so far has the writer come at last: past a new field and two resets."""


@pytest.mark.parametrize(
    "name", ["ReplayBuffer", "VectorReplayBuffer", "PrioritizedReplayBuffer", "CachedReplayBuffer"]
)
def test_a_reader_beside_a_writer_at_full_speed_sees_whole_rows_in_order(name, tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WRITES, name, str(tmp_path / "b")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "begun\n"
        reader = {
            one.__name__: one for one in (ReplayBuffer, VectorReplayBuffer, PrioritizedReplayBuffer, CachedReplayBuffer)
        }[name].open(tmp_path / "b", mode="r")
        read, latest = 0, 0
        while writer.poll() is None and (read < READS or latest < STEPS):
            try:
                rows, slots = reader.sample(10)
                everything = reader[:]
            except (errors.EmptyBufferError, errors.StorageError):  # it was just reset; it is overwritten too fast
                continue
            if len(everything.act) == 0:  # it was reset in between
                continue
            for batch in (rows, everything):
                assert (batch.obs == batch.act[:, None]).all(), "a torn row"
                assert (batch.obs_next == batch.obs + 0.5).all(), "a torn row"
            assert len(slots) == 10
            if name == "ReplayBuffer":
                assert (np.diff(everything.act) == 1).all()
            if name != "CachedReplayBuffer":  # whose short rings may be left out
                assert everything.act.max() >= latest
            latest = everything.act.max()
            read += 1
        writer.stdin.close()
    assert writer.returncode == 0
    assert len(reader) > 0


def test_a_row_that_is_being_overwritten_is_not_read_however_often_it_is_tried(tmp_path):
    writer = ReplayBuffer(8, path=tmp_path)
    for number in range(12):
        writer.add(transition(number))
    reader = ReplayBuffer.open(tmp_path, mode="r")
    rings = state_of(writer).rings
    rows_written = iter([2, 4, 1])  # the second time, as many as the reader then leaves out
    state_of(writer).begin_overwrite(slice(None))

    def count_while_rows_are_written():
        counted = state_of(reader).rings.stored()
        for _ in range(next(rows_written)):
            state_of(writer).on_rows_written(rings.advance_one(np.zeros(()), done=False).slots)
            state_of(writer).begin_overwrite(slice(None))
        return counted

    counted = state_of(reader).guard.reader.read(count_while_rows_are_written, state_of(reader))
    assert len(counted) >= 3
    assert int(rings.insertion[0]) not in counted


def test_rows_that_are_left_out_for_a_fast_writer_are_not_sampled(tmp_path):
    writer = PrioritizedReplayBuffer(8, 0.6, 0.4, path=tmp_path)
    for number in range(12):
        writer.add(transition(number))
    reader = PrioritizedReplayBuffer.open(tmp_path, mode="r")

    def sample_while_a_row_is_written():
        writer.add(transition(0))
        return state_of(reader).rings.has_row(reader.sample_indices(1000))

    assert state_of(reader).guard.reader.read(sample_while_a_row_is_written, state_of(reader)).all()


@pytest.mark.parametrize("name", ["a column", "priorities", "the state", "buffer.json", "buffer.lock"])
@pytest.mark.parametrize("how", ["symbolic", "hard", "pipe", "folder"])
def test_what_is_no_file_of_the_folder_is_neither_opened_nor_written_through(name, how, tmp_path):
    path, target = tmp_path / "b", tmp_path / "mine"
    filled("PrioritizedReplayBuffer", path).close()
    place = {
        "a column": file_of(path, "act"),
        "priorities": path / described(path)["extras"]["priorities"],
        "the state": state_file(path),
    }.get(name, path / name)
    target.write_bytes(place.read_bytes())
    place.unlink()
    {"symbolic": place.symlink_to, "hard": place.hardlink_to}.get(
        how, lambda _: os.mkfifo(place) if how == "pipe" else place.mkdir()
    )(target)
    before = target.read_bytes()
    with pytest.raises(errors.StorageError):
        PrioritizedReplayBuffer.open(path)
    if how != "hard" and name != "buffer.lock":
        with pytest.raises(errors.StorageError):
            PrioritizedReplayBuffer.open(path, mode="r")
    assert target.read_bytes() == before


def test_a_folder_that_is_a_link_is_read_and_not_written_through(tmp_path):
    mine, link = tmp_path / "mine", tmp_path / "b"
    mine.mkdir()
    link.symlink_to(mine)
    with pytest.raises(errors.StorageError, match=re.escape(f"{link} is a link, which is not followed; pass {mine}")):
        ReplayBuffer(4, path=link)
    assert os.listdir(mine) == []
    filled("ReplayBuffer", mine, 2).close()
    with pytest.raises(errors.StorageError, match="is a link, which is not followed"):
        ReplayBuffer.open(link)
    assert len(ReplayBuffer.open(link, mode="r")) == 2
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(errors.StorageError, match="is a link, which is not followed"):
        ReplayBuffer(4, path=link)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["buffer.new.json", "10.npy", "11.npy", "12.npy", "state.12.npy", "state.18.npy"])
def test_a_link_in_the_place_of_a_file_that_is_made_next_is_removed_and_not_followed(name, tmp_path):
    path, target = tmp_path / "b", tmp_path / "mine"
    buffer = filled("ReplayBuffer", path, 2)
    target.write_text("mine")
    (path / name).symlink_to(target)
    buffer.add(transition(2, new=1.5, more={"deep": 2}))
    flags = np.zeros(4, bool)
    rows = Batch(obs=np.arange(4.0), act=np.arange(4), rew=np.ones((4, 3)), terminated=flags, truncated=flags)
    buffer.set_batch(rows)
    buffer.flush()
    assert target.read_text() == "mine"
    buffer.close()
    assert ReplayBuffer.open(path)[:].act.tolist() == [0, 1, 2, 3]


MAKES = """
import shutil, sys
from pathlib import Path
from tests.buffers.test_disk import MAKE
import typedbatch.buffers
package, (name, folder) = str(Path(typedbatch.buffers.__file__).parent), sys.argv[1:]
path, states = Path(folder, "whole"), []

def trace(frame, event, arg):
    if not frame.f_code.co_filename.startswith(package):
        return None
    now = {file.name: file.read_bytes() for file in path.iterdir()} if path.exists() else {}
    if event == "line" and path.exists() and now not in states:
        shutil.copytree(path, Path(folder, str(len(states))))
        states.append(now)
    return trace

sys.settrace(trace)
MAKE[name](path)
sys.settrace(None)
"""
"""Between lines, a copy of the files is what a process that is killed there leaves: each state they are in, once."""


@pytest.mark.parametrize("name", ["ReplayBuffer", "PrioritizedReplayBuffer"])
def test_a_process_that_is_killed_while_a_buffer_is_made_leaves_a_folder_to_begin_with(name, tmp_path):
    subprocess.run([sys.executable, "-c", MAKES, name, str(tmp_path)], check=True)
    halfway = 0
    cls = type(MAKE[name](None))
    for path in sorted(tmp_path.iterdir()):
        if (path / "buffer.json").exists():
            cls.open(path).close()
            continue
        if (path / "buffer.lock").exists():
            halfway += 1
            with pytest.raises(
                errors.StorageError, match=r"buffer.json is missing; .*create the buffer again with path="
            ):
                cls.open(path)
        MAKE[name](path).add(transition(0))
        assert len(cls.open(path)) == 1
    assert halfway > 2


def test_what_somebody_else_has_in_a_folder_is_not_taken_for_leftovers(tmp_path):
    (tmp_path / "1.npy").write_text("mine")
    with pytest.raises(errors.StorageError, match=r"needs an empty folder, and .* holds 1\.npy"):
        ReplayBuffer(3, path=tmp_path)
    (tmp_path / "buffer.lock").touch()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(errors.StorageError, match=r"needs an empty folder, and .* holds notes\.txt"):
        ReplayBuffer(3, path=tmp_path)
    assert (tmp_path / "1.npy").read_text() == "mine"


def test_two_buffers_that_are_made_in_one_folder_at_once_are_one_and_a_refusal(tmp_path):
    outcomes: list[Any] = []

    def make() -> None:
        try:
            outcomes.append(ReplayBuffer(3, path=tmp_path / "b"))
        except errors.StorageError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (made,) = [one for one in outcomes if isinstance(one, ReplayBuffer)]
    made.add(transition(0))
    assert len(ReplayBuffer.open(tmp_path / "b", mode="r")) == 1
