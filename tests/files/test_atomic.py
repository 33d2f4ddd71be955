"""A file is there whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from tests.files.helpers import ENDINGS, cells
from typedbatch import Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.errors import StorageError
from typedbatch.files import load, save


@pytest.fixture(params=ENDINGS)
def path(request: Any, tmp_path: Any) -> Any:
    return tmp_path / f"batch{request.param}"


class Refuses:
    """An object that raises an error while it is pickled."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error


def test_a_new_file_takes_the_place_of_the_old_one(path):
    path.write_text("something else, and longer than what comes then" * 1000)
    for number in range(3):
        save(Batch(a=np.full(3, number)), path)
        assert load(path).a.tolist() == [number] * 3
    assert os.listdir(path.parent) == [path.name]


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(path):
    save(Batch(a=1), path)
    before = path.read_bytes()
    with pytest.raises(StorageError):
        save(Batch(a=np.ones(1000), z=cells(print)), path)
    with pytest.raises(StorageError):
        save(Batch(a=np.ones(1000), z=cells(print)), path.with_name(f"new{path.name}"))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt(), MemoryError(), ZeroDivisionError()])
def test_an_error_of_an_object_that_is_pickled_leaves_the_old_file(error, tmp_path):
    path = tmp_path / "a.safetensors"
    save(Batch(a=1), path)
    with pytest.raises((type(error), StorageError)):
        save(Batch(a=2, it=Refuses(error)), path, allow_pickle=True)
    assert load(path).a == 1
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interruption_before_the_end_leaves_the_old_file(error, path, monkeypatch):
    save(Batch(a=1), path)

    def fails(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises((KeyboardInterrupt, StorageError), match=r"^$|cannot be written: .*No space left"):
        save(Batch(a=2), path)
    assert load(path).a == 1
    assert os.listdir(path.parent) == [path.name]


def test_a_reader_of_the_old_file_goes_on(path):
    save(Batch(a=np.arange(5)), path)
    with open(path, "rb") as old:
        before = path.read_bytes()
        save(Batch(a=np.arange(9)), path)
        assert old.read() == before


def test_two_threads_that_save_the_same_file_both_succeed(path, monkeypatch):
    replace, errors = os.replace, []

    def other() -> None:
        try:
            save(Batch(a=np.full(3, 2)), path)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    def while_the_other_saves(*arguments: Any) -> None:
        monkeypatch.setattr(os, "replace", replace)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        replace(*arguments)

    monkeypatch.setattr(os, "replace", while_the_other_saves)
    save(Batch(a=np.full(3, 1)), path)
    assert errors == []
    assert load(path).a.tolist() == [1, 1, 1]
    assert os.listdir(path.parent) == [path.name]


def save_buffer(path: Any) -> None:
    buffer = ReplayBuffer(2)
    buffer.add(Batch(obs=1.0, act=2, rew=1.0, terminated=False, truncated=False))
    buffer.save_hdf5(path)


WRITERS: dict[str, Any] = {"a batch": lambda path: save(Batch(a=2), path), "a buffer": save_buffer}


@pytest.mark.parametrize("what", WRITERS)
def test_a_link_is_replaced_and_what_it_points_to_stays_as_it_is(what, path):
    target = path.parent / "folder" / path.name
    target.parent.mkdir()
    target.write_text("mine")
    target.chmod(0o600)
    path.symlink_to(target)
    WRITERS[what](path)
    assert not path.is_symlink()
    assert (target.read_text(), os.listdir(target.parent)) == ("mine", [path.name])
    assert path.stat().st_mode & 0o777 != 0o600


@pytest.mark.parametrize("what", WRITERS)
def test_a_link_to_nowhere_is_replaced(what, path):
    path.symlink_to(path.parent / "nowhere")
    WRITERS[what](path)
    assert os.listdir(path.parent) == [path.name]
    assert not path.is_symlink()


def test_a_folder_on_the_way_may_be_a_link(path):
    (path.parent / "folder").mkdir()
    (path.parent / "link").symlink_to(path.parent / "folder")
    save(Batch(a=2), path.parent / "link" / path.name)
    assert load(path.parent / "folder" / path.name).a == 2


@pytest.mark.parametrize("what", WRITERS)
def test_a_pipe_is_not_replaced(what, path):
    os.mkfifo(path)
    with pytest.raises(StorageError, match="cannot be written: it is not a regular file"):
        WRITERS[what](path)
    assert path.is_fifo()
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("what", ["link", "file"])
def test_what_is_there_under_the_name_of_the_unfinished_file_is_not_written_to(what, path, monkeypatch):
    mine, place = path.parent / "mine", path.parent / ".guessed.new"
    mine.write_text("mine")
    place.symlink_to(mine) if what == "link" else place.write_text("theirs")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    before = place.read_text()
    with pytest.raises(StorageError, match="cannot be written: .*File exists"):
        save(Batch(a=1), path)
    assert (mine.read_text(), place.read_text(), place.is_symlink()) == ("mine", before, what == "link")
    assert not path.exists()


def test_an_old_file_keeps_its_permissions(path):
    save(Batch(a=1), path)
    path.chmod(0o600)
    save(Batch(a=2), path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_new_file_may_be_read_by_whom_the_process_lets(path):
    before = os.umask(0o027)
    try:
        save(Batch(a=1), path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


PROCESS = """
import os, resource, signal, sys
import numpy as np
import typedbatch.files
from typedbatch import Batch
from typedbatch.errors import StorageError
from typedbatch.files import load, save

path, what = sys.argv[1:]
old = Batch(a=np.arange(1000), b=Batch(c=np.ones(3)))
new = Batch(a=np.arange(2000) * 2, b=Batch(c=np.zeros(3)), d=np.array([None], object))
package = os.path.dirname(typedbatch.files.__file__)
folder = os.path.dirname(path)

def traced(at_line):
    def trace(frame, event, arg):
        if not frame.f_code.co_filename.startswith((package, package.removesuffix("files") + "hdf5")):
            return None
        if event == "line":
            at_line()
        return trace
    sys.settrace(trace)
    save(new, path)
    sys.settrace(None)

def killed_at(moment):
    lines = 0
    def at_line():
        nonlocal lines
        if lines == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        lines += 1
    child = os.fork()
    if not child:
        traced(at_line)
        os._exit(0)
    return os.waitpid(child, 0)[1]

def same_number():
    return 7

if what == "killed":
    outcomes, moment = [], 0
    load_first = save(old, path), load(path)
    while True:
        save(old, path)
        status = killed_at(moment)
        found = load(path)
        outcomes.append("old" if found == old else "new" if found == new else "torn")
        for name in os.listdir(folder):
            if os.path.join(folder, name) != path:
                os.unlink(os.path.join(folder, name))
        if not status:
            break
        moment += 1
    print(moment > 20, outcomes[0], outcomes[-1], "torn" in outcomes, sorted(outcomes, reverse=True) == outcomes)
elif what == "same number":
    os.getpid, real = same_number, os.getpid  # as in containers, where each process has it
    save(old, path)
    child = os.fork()
    if not child:
        os.replace = lambda *arguments: os.kill(real(), signal.SIGKILL)
        save(new, path)
    print(os.waitpid(child, 0)[1] == signal.SIGKILL, load(path) == old)
    save(new, path)
    print(load(path) == new)
elif what == "full":
    save(old, path)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for size in (0, 1, 100, 3000, 10_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            save(Batch(a=np.random.default_rng(0).random(100_000), b=np.arange(10)), path)
        except StorageError as error:
            assert "cannot be written" in str(error) and "File too large" in str(error)
        else:
            print("saved")
        assert load(path) == old
        assert os.listdir(folder) == [os.path.basename(path)], os.listdir(folder)
    print("refused")
elif what == "full hdf5":
    from typedbatch.buffers import ReplayBuffer
    rng = np.random.default_rng(0)
    batch = Batch(a=rng.random((300, 300)), b=Batch({f"f{i}": rng.random(500) for i in range(60)}), t=np.array(["x"] * 999, object))
    buffer = ReplayBuffer(3000)
    for number in range(3000):
        buffer.add(Batch(obs=rng.random(20), act=number, rew=1.0, terminated=False, truncated=False, obs_next=np.zeros(20)))
    writers = [lambda c=c: save(batch, path, compression=c) for c in (None, "gzip", "lzf")]
    writers += [lambda c=c: buffer.save_hdf5(path, c) for c in (None, "gzip", "lzf")]
    save(old, path)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sizes = [0, 1, 50, 100, 500, *range(1000, 20_000, 1500), *range(20_000, 600_000, 60_000)]
    for size in sizes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        for number, write in enumerate(writers):
            try:
                write()
            except StorageError as error:
                assert "cannot be written" in str(error) and "File too large" in str(error), error
            else:
                print("saved", number, size)
                continue
            assert os.listdir(folder) == [os.path.basename(path)], os.listdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for write in writers:
        write()
    print("still here")
"""


def process(path: Any, what: str) -> str:
    command = [sys.executable, "-W", "error", "-c", PROCESS, str(path), what]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
def test_a_process_that_is_killed_anywhere_leaves_the_old_file_or_the_new_one(path):
    assert process(path, "killed").split() == ["True", "old", "new", "False", "True"]


def test_what_a_killed_process_leaves_is_in_nobodys_way(path):
    assert process(path, "same number").split() == ["True"] * 3


@pytest.mark.slow
def test_a_disk_that_is_full_leaves_the_old_file(path):
    assert process(path, "full") == "refused\n"


@pytest.mark.slow
def test_a_disk_that_is_full_while_hdf5_writes_does_not_end_the_process_later(tmp_path):
    said = process(tmp_path / "a.h5", "full hdf5").splitlines()
    assert said[-1] == "still here"
    assert len(said) < 40
