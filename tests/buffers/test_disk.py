"""A buffer that is kept in a folder: what is in the folder, what it survives, and that nothing in it is executed."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.buffers.model import as_batch, as_rows, leaf, row
from tests.files.helpers import Evil
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from typedbatch.buffers.state import state_of


def no_reward(achieved: Any, desired: Any) -> Any:
    return np.zeros(len(achieved))


MAKE = {
    "ReplayBuffer": lambda path: ReplayBuffer(4, path=path),
    "VectorReplayBuffer": lambda path: VectorReplayBuffer(6, 2, path=path),
    "PrioritizedReplayBuffer": lambda path: PrioritizedReplayBuffer(4, 0.5, 0.5, path=path),
    "PrioritizedVectorReplayBuffer": lambda path: PrioritizedVectorReplayBuffer(6, 2, 0.5, 0.5, path=path),
    "CachedReplayBuffer": lambda path: CachedReplayBuffer(ReplayBuffer(4), 2, 3, path=path),
    "HERReplayBuffer": lambda path: HERReplayBuffer(4, no_reward, 3, path=path),
}


def transition(number: int, **more: Any) -> Batch:
    goal = np.full(2, number, float)
    obs = {"achieved_goal": goal, "desired_goal": goal + 1}
    return Batch(obs=obs, act=number, rew=number / 2, terminated=number % 3 == 2, truncated=False, obs_next=obs, **more)


def filled(name: str, path: Path, count: int = 6) -> Any:
    buffer = MAKE[name](path)
    for number in range(count):
        one = transition(number)
        buffer.add(Batch.stack([one, one]) if state_of(buffer).many else one)
    return buffer


def opened(buffer: Any, path: Path, mode: Any = "r") -> Any:
    more = {"compute_reward_fn": no_reward} if isinstance(buffer, HERReplayBuffer) else {}
    return type(buffer).open(path, mode, **more)


def reopened(buffer: Any, path: Path) -> Any:
    """The folder of a buffer that is not used any more, to go on writing."""
    buffer.close()
    return opened(buffer, path, "r+")


def described(path: Path) -> Any:
    return json.loads((path / "buffer.json").read_text())


def rewrite(path: Path, change: Any) -> None:
    content = described(path)
    change(content)
    (path / "buffer.json").write_text(json.dumps(content))


def state_file(path: Path) -> Path:
    return path / described(path)["state"]


def file_of(path: Path, *field: str) -> Path:
    return path / next(one["file"] for one in described(path)["fields"] if tuple(one["path"]) == field)


def test_the_files_are_read_by_numpy_alone(tmp_path):
    buffer = VectorReplayBuffer(4, 2, path=tmp_path)
    for number in range(3):
        buffer.add(as_rows([row(number), row(10 + number, True)]))
    buffer.flush()
    fields = {".".join(one["path"]): one["file"] for one in described(tmp_path)["fields"]}
    assert set(fields) == {"obs.pos", "obs.inner.id", "act", "rew", "terminated", "truncated", "done"} | {
        "obs_next.pos",
        "obs_next.inner.id",
    }
    for path, file in fields.items():
        column = np.load(tmp_path / file)
        assert column.dtype == leaf(buffer, path).dtype
        np.testing.assert_array_equal(column, leaf(buffer, path))
    assert np.load(tmp_path / fields["act"]).tolist() == [-2, -1, -12, -11]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        [*fields.values(), "buffer.json", "buffer.lock", "random.json", state_file(tmp_path).name]
    )


@pytest.mark.parametrize("name", MAKE)
def test_a_buffer_that_nothing_was_added_to_is_opened_empty(name, tmp_path):
    buffer = MAKE[name](tmp_path)
    again = reopened(buffer, tmp_path)
    assert len(again) == 0
    one = transition(1)
    again.add(Batch.stack([one, one]) if state_of(again).many else one)
    assert (opened(buffer, tmp_path)[:].act == 1).all()


@pytest.mark.parametrize("name", MAKE)
def test_a_folder_that_holds_something_is_not_taken(name, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(errors.StorageError, match="a new buffer needs an empty folder"):
        MAKE[name](tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]
    filled(name, tmp_path / "buffer")
    before = {one.name: one.read_bytes() for one in (tmp_path / "buffer").iterdir()}
    with pytest.raises(errors.StorageError, match=r"open\(\)"):
        MAKE[name](tmp_path / "buffer")
    assert {one.name: one.read_bytes() for one in (tmp_path / "buffer").iterdir()} == before


@pytest.mark.parametrize("path", ["file", "file/below", "nul\0byte"])
def test_what_cannot_be_a_folder_is_refused(path, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StorageError):
        ReplayBuffer(3, path=tmp_path / path)
    with pytest.raises(errors.StorageError):
        ReplayBuffer.open(tmp_path / path)


def test_a_missing_or_empty_folder_is_not_opened_and_not_made(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(errors.StorageError, match="holds no buffer"):
            ReplayBuffer.open(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MAKE)
def test_a_folder_is_opened_by_its_own_class_alone(name, tmp_path):
    filled(name, tmp_path)
    for other in (ReplayBuffer, VectorReplayBuffer, PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer):
        if other.__name__ != name:
            with pytest.raises(errors.StorageError, match=name):
                other.open(tmp_path)


@pytest.mark.parametrize("name", MAKE)
def test_a_buffer_on_disk_is_neither_pickled_nor_copied(name, tmp_path):
    buffer = filled(name, tmp_path)
    for copying in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(errors.StorageError, match=r"open\(\)"):
            copying(buffer)
    assert buffer[:] == opened(buffer, tmp_path)[:]


def test_rows_are_there_for_others_while_the_buffer_is_used(tmp_path):
    buffer = ReplayBuffer(3, path=tmp_path)
    for number in range(5):
        buffer.add(as_batch(row(number)))
        assert ReplayBuffer.open(tmp_path, "r")[:].act.tolist() == [-one for one in range(number + 1)][-3:]


def room_of(file: Path) -> int:
    return file.stat().st_blocks * 512


def too_many(path: Path, row_bytes: int) -> int:
    """Return the number of rows that need a terabyte more than the disk of a folder has free."""
    return (shutil.disk_usage(path).free + 2**40) // row_bytes


def test_the_disk_keeps_the_room_of_every_row_from_the_beginning(tmp_path):
    buffer = PrioritizedReplayBuffer(100_000, 0.5, 0.5, path=tmp_path)
    buffer.add(Batch(transition(0), cam=np.zeros(50, np.uint8)))
    assert file_of(tmp_path, "cam").stat().st_size > 5_000_000
    for file in tmp_path.glob("*.npy"):
        assert room_of(file) >= file.stat().st_size


def test_a_column_that_the_disk_has_no_room_for_is_refused_and_nothing_of_it_is_left(tmp_path):
    path = tmp_path / "b"
    buffer = ReplayBuffer(too_many(tmp_path, 2), path=path)
    before = sorted(os.listdir(path))
    with pytest.raises(errors.StorageError) as caught:
        buffer.add(transition(0))
    text = str(caught.value)
    assert re.fullmatch(
        rf"field '.*': {re.escape(str(path))}/\d+\.npy needs [\d,]+ more bytes, and [\d,]+ are free on its disk; "
        r"free some space there, create a smaller buffer, or pass another path=", text,
    ), text  # fmt: skip
    assert sorted(os.listdir(path)) == before
    assert len(buffer) == 0


def test_a_new_field_that_the_disk_has_no_room_for_leaves_the_rows(tmp_path):
    buffer = filled("ReplayBuffer", tmp_path, 3)
    before = sorted(os.listdir(tmp_path))
    wide = np.broadcast_to(np.zeros(1, np.uint8), too_many(tmp_path, 4))
    with pytest.raises(errors.StorageError, match=r"field 'wide': .* needs [\d,]+ more bytes"):
        buffer.add(transition(3, small=1, wide=wide))
    assert sorted(os.listdir(tmp_path)) == before
    assert buffer[:].act.tolist() == [0, 1, 2]
    buffer.add(transition(3))
    assert reopened(buffer, tmp_path)[:].act.tolist() == [0, 1, 2, 3]


def test_a_copy_without_room_gets_it_when_it_is_opened_to_go_on_writing(tmp_path):
    buffer = ReplayBuffer(100_000, path=tmp_path)
    buffer.add(transition(0, cam=np.arange(50)))
    buffer.close()
    cam = file_of(tmp_path, "cam")
    os.truncate(cam, cam.stat().st_size - 39_000_000)
    os.truncate(cam, cam.stat().st_size + 39_000_000)
    assert room_of(cam) < 2_000_000
    assert opened(buffer, tmp_path)[:].cam.tolist() == [[*range(50)]]
    assert room_of(cam) < 2_000_000
    assert opened(buffer, tmp_path, "r+")[:].cam.tolist() == [[*range(50)]]
    assert room_of(cam) >= cam.stat().st_size


LITTLE = """
import os, resource, sys
from tests.buffers.test_disk import transition
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer
from typedbatch.errors import StorageError

folder, how = sys.argv[1:]
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
buffer = ReplayBuffer(500_000, path=folder)
before = sorted(os.listdir(folder))
try:
    buffer.add(transition(0))
except StorageError as error:
    print(error)
print(sorted(os.listdir(folder)) == before, len(buffer))
buffer.close()
try:
    PrioritizedReplayBuffer(600_000, 0.5, 0.5, path=folder + "3")
except StorageError as error:
    print(error)
print(os.listdir(folder + "3"))
ReplayBuffer(3, path=folder + "3").add(transition(0))
small = ReplayBuffer(1000, path=folder + "2")
for number in range(3000):
    small.add(transition(number))
print(small[:].act.sum())
"""


def little(folder: Path, how: str, *before: str) -> list[str]:
    command = [*before, sys.executable, "-W", "error", "-c", LITTLE, str(folder), how]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_limit_on_files_is_an_error_when_the_column_is_made_and_not_when_it_is_written(tmp_path):
    said = little(tmp_path / "b", "limit")
    wanted = r"a column of shape \[500000.*\] and dtype float64 cannot be created: .*File too large"
    assert re.match(f"field '.*': {wanted}", said[0]), said
    assert said[1] == "True 0"
    assert re.match(r"field 'priorities': a column of .* cannot be created: .*File too large", said[2]), said
    assert said[3:] == ["['buffer.lock']", str(sum(range(2000, 3000)))]


MOUNT = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


def test_a_disk_that_is_full_is_an_error_when_the_column_is_made_and_not_when_it_is_written(tmp_path):
    mount = f'mount -t tmpfs -o size=4m none {tmp_path} && exec "$@"'
    if not shutil.which("unshare") or subprocess.run([*MOUNT, mount, "-", "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody but root mount a small disk")
    said = little(tmp_path / "b", "disk", *MOUNT, mount, "-")
    assert re.search(r"\.npy needs [\d,]+ more bytes, and [\d,]+ are free", said[0]), said
    assert said[1] == "True 0"
    assert re.match(r"field 'priorities': .*\.npy needs [\d,]+ more bytes, and [\d,]+ are free", said[2]), said
    assert said[3:] == ["['buffer.lock']", str(sum(range(2000, 3000)))]


def test_tensors_are_kept_in_every_dtype(tmp_path):
    dtypes = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int8, torch.int64, torch.bool]
    dtypes += [torch.complex64, torch.uint8]
    buffer = ReplayBuffer(3, path=tmp_path)
    for number in range(4):
        values = {str(dtype): torch.full((2,), number % 2 + 0.0).to(dtype) for dtype in dtypes}
        buffer.add(Batch(as_batch(row(number)), t=values))
    again = reopened(buffer, tmp_path)
    for dtype in dtypes:
        column = again[:].t[str(dtype)]
        assert column.dtype == again.t[str(dtype)].dtype == dtype
        assert torch.equal(column, torch.tensor([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]).to(dtype))
    again.add(Batch(as_batch(row(9)), t={str(dtype): torch.ones(2).to(dtype) for dtype in dtypes}))
    third = ReplayBuffer.open(tmp_path, "r")
    assert third[:].t["torch.bfloat16"].float().tolist() == [[0, 0], [1, 1], [1, 1]]


def test_dates_texts_of_one_length_and_structures_without_fields_are_kept(tmp_path):
    buffer = ReplayBuffer(2, path=tmp_path)
    buffer.add(Batch(transition(1), at=np.datetime64("2024-01-02"), half=np.float16(0.5), none=Batch()))
    rows = ReplayBuffer.open(tmp_path, "r")[:]
    assert rows.at.tolist() == [np.datetime64("2024-01-02").item()]
    assert rows.half.dtype == np.float16
    assert rows.none == Batch()


@pytest.mark.parametrize("value", [None, "text", np.array([None, 1], object), object], ids=str)
def test_objects_are_refused_by_name_and_nothing_is_added(value, tmp_path):
    buffer = ReplayBuffer(2, path=tmp_path / "buffer")
    for count in range(3):
        with pytest.raises(errors.StorageError, match=r"info\.inner\.what"):
            buffer.add(Batch(transition(count), info={"inner": {"good": 1, "what": value}}))
        assert len(buffer) == max(count - 1, 0)
        if count:
            buffer.add(Batch(transition(count - 1)))
            assert buffer[:].info == Batch()
            assert ReplayBuffer.open(tmp_path / "buffer", "r")[:].act.tolist() == list(range(count))


def test_a_refused_field_leaves_no_file_behind(tmp_path):
    buffer = ReplayBuffer(2, path=tmp_path)
    buffer.add(transition(0))
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    with pytest.raises(errors.StorageError):
        buffer.add(Batch(transition(1), new=np.zeros(1000), what=None))
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_fields_that_come_up_later_are_there_after_opening(tmp_path):
    buffer = ReplayBuffer(4, path=tmp_path)
    buffer.add(transition(0, info=Batch()))
    buffer.add(transition(1, info={"deep": {"er": 1.5}}, new=torch.tensor([1, 2])))
    for _ in range(2):
        buffer = reopened(buffer, tmp_path)
        assert buffer[:].info.deep.er.tolist() == [0, 1.5]
        assert buffer[:].new.tolist() == [[0, 0], [1, 2]]
    buffer.add(transition(2, info={"other": 7}))
    rows = ReplayBuffer.open(tmp_path, "r")[:]
    assert rows.info.deep.er.tolist() == [0, 1.5, 0]
    assert rows.info.other.tolist() == [0, 0, 7]
    assert len({one["file"] for one in described(tmp_path)["fields"]}) == len(described(tmp_path)["fields"])


def test_dropnull_is_kept(tmp_path):
    buffer = VectorReplayBuffer(8, 2, path=tmp_path)
    for number in range(5):
        rows = as_rows([row(number), row(10 + number)])
        rows.rew[0] = np.nan if number % 2 else rows.rew[0]
        buffer.add(rows)
    buffer.dropnull()
    again = VectorReplayBuffer.open(tmp_path, "r")
    assert again[:].act.tolist() == buffer[:].act.tolist() == [-2, -4, -11, -12, -13, -14]
    assert again[:] == buffer[:]
    again = reopened(buffer, tmp_path)
    again.add(as_rows([row(20), row(21)]))
    assert VectorReplayBuffer.open(tmp_path, "r")[:].act.tolist() == [-2, -4, -20, -12, -13, -14, -21]
    left = {one.name for one in tmp_path.iterdir()}
    assert left == {"buffer.json", "buffer.lock", "random.json", state_file(tmp_path).name} | {
        one["file"] for one in described(tmp_path)["fields"]
    }


@pytest.mark.parametrize("name", ["ReplayBuffer", "PrioritizedReplayBuffer"])
def test_set_batch_is_kept_even_with_other_fields_and_rewards(name, tmp_path):
    buffer = filled(name, tmp_path)
    flags = np.zeros(4, bool)
    given = Batch(obs=np.arange(4.0), act=np.arange(4), rew=np.ones((4, 3)), terminated=flags, truncated=flags)
    buffer.set_batch(given)
    again = opened(buffer, tmp_path)
    assert again[:].rew.shape == (4, 3)
    assert again[:] == buffer[:]
    again = reopened(buffer, tmp_path)
    added = again.add(Batch(obs=9.0, act=9, rew=np.full(3, 2.0), terminated=True, truncated=False))
    assert opened(buffer, tmp_path)[:].act.tolist() == [1, 2, 3, 9]
    assert added.ep_return.tolist() == [[6, 6, 6]]  # no episode ended in what was set


def test_a_field_set_by_name_is_kept(tmp_path):
    buffer = filled("ReplayBuffer", tmp_path)
    buffer.set_array_at_key(np.array([1.5, 2.5]), "new", [0, 3], default_value=-1)
    buffer.set_array_at_key(np.arange(4), "act")
    again = ReplayBuffer.open(tmp_path, "r")
    assert again.new.tolist() == [1.5, -1, -1, 2.5]
    assert again.act.tolist() == [0, 1, 2, 3]
    with pytest.raises(errors.TypedBatchError):
        buffer.set_array_at_key(np.array([None, "a", "b", "c"], object), "objects")
    assert ReplayBuffer.open(tmp_path, "r").new.tolist() == [1.5, -1, -1, 2.5]


def test_a_ring_of_a_buffer_on_disk_keeps_what_is_added_to_it(tmp_path):
    buffer = VectorReplayBuffer(6, 2, path=tmp_path)
    buffer.add(as_rows([row(1), row(2)]))
    buffer.buffers[1].add(as_batch(row(3)))
    assert VectorReplayBuffer.open(tmp_path, "r")[:].act.tolist() == [-1, -2, -3]


def usable_or_refused(cls: Any, path: Path, **more: Any) -> bool:
    """Whether it opens; then everything works as it should, else it is refused with a StorageError and nothing else."""
    try:
        buffer = cls.open(path, **more)
    except errors.StorageError:
        return False
    if len(buffer):
        assert len(buffer[:].rew) == len(buffer)
        assert set(buffer.sample(20)[1].tolist()) <= set(buffer.sample_indices(0).tolist())
        buffer.prev(buffer.sample_indices(0))
        buffer.next(buffer.sample_indices(0))
    buffer.unfinished_index()
    buffer.close()
    return True


def pickled_array(marker: Path) -> np.ndarray:
    array = np.empty(4, object)
    array[:] = [Evil(marker)] * 4
    return array


@pytest.mark.parametrize("which", ["a column", "the state", "priorities", "the description"])
@pytest.mark.parametrize("how", ["npy", "raw", "npz"])
def test_no_pickle_is_ever_executed(which, how, tmp_path):
    path, marker = tmp_path / "buffer", tmp_path / "executed"
    filled("PrioritizedReplayBuffer", path)
    target = {
        "a column": file_of(path, "act"),
        "the state": state_file(path),
        "priorities": path / described(path)["extras"]["priorities"],
        "the description": path / "buffer.json",
    }[which]
    with target.open("wb") as file:
        if how == "npy":
            np.save(file, pickled_array(marker), allow_pickle=True)
        elif how == "npz":
            np.savez(file, a=pickled_array(marker))
        else:
            pickle.dump(Evil(marker), file)
    with pytest.raises(errors.StorageError):
        PrioritizedReplayBuffer.open(path)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Evil(marker)))  # which would have made it
    assert marker.exists()


def field(name: str, **change: Any) -> Any:
    def apply(content: Any) -> None:
        next(one for one in content["fields"] if one["path"] == [name]).update(change)

    return apply


def argument(name: str, value: Any) -> Any:
    return lambda content: content["buffer"]["arguments"].update({name: value})


def without(name: str) -> Any:
    return lambda content: content["fields"].remove(next(one for one in content["fields"] if one["path"][0] == name))


HUGE = 10**15  # more than any machine can address
DESCRIPTIONS = {
    "file above": field("act", file="../outside.npy"),
    "file elsewhere": field("act", file="/etc/passwd"),
    "file below": field("act", file="a/1.npy"),
    "file with nul": field("act", file="1\0.npy"),
    "file that is a number": field("act", file=1),
    "file that is a list": field("act", file=["1.npy"]),
    "file that is missing": field("act", file="99.npy"),
    "file that is the state": lambda content: content["fields"][2].update(file=content["state"]),
    "the same file twice": lambda content: content["fields"][2].update(file=content["fields"][3]["file"]),
    "tensor of no dtype": field("act", tensor="Tensor"),
    "tensor of a function": field("act", tensor="load"),
    "tensor of a module": field("act", tensor="os"),
    "tensor of a wider dtype": field("act", tensor="complex128"),
    "tensor of a number": field("act", tensor=5),
    "tensor of a dunder": field("act", tensor="__loader__"),
    "path that is empty": field("act", path=[]),
    "path that is a number": field("act", path=3),
    "path below a column": field("act", path=["rew", "deeper"]),
    "path that comes twice": field("act", path=["rew"]),
    "no fields": lambda content: content.pop("fields"),
    "fields that are text": lambda content: content.update(fields="act"),
    "fields of numbers": lambda content: content.update(fields=[1, 2]),
    "field without file": lambda content: content["fields"][0].pop("file"),
    **{f"no column for {name}": without(name) for name in ("obs", "act", "rew", "terminated", "truncated", "done")},
    "no state": lambda content: content.pop("state"),
    "state elsewhere": lambda content: content.update(state="../outside.npy"),
    "state that is a list": lambda content: content.update(state=["1.npy"]),
    "state that is a column": lambda content: content.update(state=content["fields"][2]["file"]),
    "no extras": lambda content: content.pop("extras"),
    "extras that are text": lambda content: content.update(extras="x"),
    "extras elsewhere": lambda content: content.update(extras={"priorities": "../1.npy"}),
    "extras of a column": lambda content: content.update(extras={"priorities": content["fields"][2]["file"]}),
    "other extras": lambda content: content.update(extras={"other": content["extras"]["priorities"]}),
    "no buffer": lambda content: content.pop("buffer"),
    "buffer that is a list": lambda content: content.update(buffer=[]),
    "no class": lambda content: content["buffer"].pop("class"),
    "class that is a list": lambda content: content["buffer"].update({"class": []}),
    "no arguments": lambda content: content["buffer"].pop("arguments"),
    "arguments that are a list": lambda content: content["buffer"].update(arguments=[4]),
    "argument that does not exist": argument("other", 1),
    "a path among the arguments": argument("path", "made"),
    "size as text": argument("size", "4"),
    "size that is null": argument("size", None),
    "size below zero": argument("size", -1),
    "size that is half": argument("size", 2.5),
    "size that is smaller": argument("size", 3),
    "size that is larger": argument("size", 400),
    "size that is huge": argument("size", HUGE),
    "size that no integer holds": argument("size", 10**30),
    "size that is infinite": argument("size", float("inf")),
    "size that is not a number": argument("size", float("nan")),
    "stack_num as text": argument("stack_num", "2"),
    "stack_num below one": argument("stack_num", 0),
    "random_seed as text": argument("random_seed", "x"),
    "random_seed below zero": argument("random_seed", -1),
    "alpha as text": argument("alpha", "x"),
    "alpha of zero": argument("alpha", 0),
    "beta that is null": argument("beta", None),
    "another format": lambda content: content.update(format="other"),
    "another version": lambda content: content.update(version=2),
    "no format": lambda content: content.pop("format"),
}


@pytest.mark.parametrize("change", DESCRIPTIONS)
def test_a_description_that_was_tampered_with_is_refused(change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "outside.npy", np.arange(4))
    path = tmp_path / "buffer"
    buffer = PrioritizedReplayBuffer(4, 0.5, 0.5, path=path)
    for number in range(3):
        buffer.add(Batch(transition(number), obs=float(number), obs_next=float(number)))
    outside = sorted(one.name for one in tmp_path.iterdir())
    rewrite(path, DESCRIPTIONS[change])
    with pytest.raises(errors.StorageError):
        PrioritizedReplayBuffer.open(path)
    assert sorted(one.name for one in tmp_path.iterdir()) == outside


@pytest.mark.parametrize("value", [HUGE, 10**30, 0, -1, "2", None, 2.5, [2]], ids=str)
@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("VectorReplayBuffer", "buffer_num"),
        ("VectorReplayBuffer", "total_size"),
        ("CachedReplayBuffer", "cached_buffer_num"),
        ("CachedReplayBuffer", "max_episode_length"),
        ("CachedReplayBuffer", "main_buffer"),
    ],
)
def test_hostile_numbers_of_rings_are_refused(name, which, value, tmp_path):
    buffer = filled(name, tmp_path)
    rewrite(tmp_path, argument(which, value))
    with pytest.raises(errors.StorageError):
        opened(buffer, tmp_path)


def test_no_folder_is_made_for_a_main_buffer_that_a_description_asks_for(tmp_path):
    buffer = filled("CachedReplayBuffer", tmp_path / "buffer")
    rewrite(tmp_path / "buffer", argument("main_buffer", {"size": 4, "path": str(tmp_path / "made")}))
    with pytest.raises(errors.StorageError):
        opened(buffer, tmp_path / "buffer")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"null", b"[]", b"3", b'"text"', b"\xff\xfe", b"[" * 100_000, b"{}", b'{"format": NaN}', b"\0" * 50],
    ids=["nothing", "half", "null", "list", "number", "text", "bytes", "nested", "empty", "nan", "nul"],
)
def test_a_description_that_is_none_is_refused(text, tmp_path):
    filled("ReplayBuffer", tmp_path)
    (tmp_path / "buffer.json").write_bytes(text)
    with pytest.raises(errors.StorageError):
        ReplayBuffer.open(tmp_path)


ARRAYS = {
    "of another length": np.zeros(3, int), "of no rows": np.zeros(0, int), "without dimensions": np.array(3),
    "of text": np.array(["a"] * 4), "of bytes": np.array([b"a"] * 4), "of structures": np.zeros(4, "i4,f4"),
    "of dates": np.zeros(4, "M8[s]"), "of complex numbers": np.zeros(4, complex),
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "arrays"),
    [
        (["act", "done", "rew"], ["of another length", "of no rows", "without dimensions"]),
        (["done", "terminated", "rew"], ["of text", "of bytes", "of structures", "of dates", "of complex numbers"]),
    ],
    ids=["length", "kind"],
)
def test_a_column_of_what_it_cannot_be_is_refused(columns, arrays, tmp_path):
    filled("ReplayBuffer", tmp_path)
    for column in columns:
        file = file_of(tmp_path, column)
        before = file.read_bytes()
        for array in arrays:
            np.save(file, ARRAYS[array])
            with pytest.raises(errors.StorageError):
                ReplayBuffer.open(tmp_path)
        file.write_bytes(before)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x93NUMPY", b"PK\x03\x04 no zip", b"PK\x05\x06" + b"\0" * 18, b"text",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': ((((((",
    ],
    ids=["nothing", "magic", "broken zip", "empty zip", "text", "broken header"],
)  # fmt: skip
@pytest.mark.parametrize("which", ["act", "state"])
def test_a_file_that_is_no_array_is_refused(which, content, tmp_path):
    filled("ReplayBuffer", tmp_path)
    (state_file(tmp_path) if which == "state" else file_of(tmp_path, which)).write_bytes(content)
    with pytest.raises(errors.StorageError):
        ReplayBuffer.open(tmp_path)


@pytest.mark.parametrize("which", ["act", "state", "priorities"])
def test_a_file_that_was_cut_off_is_refused_wherever_it_was(which, tmp_path):
    filled("PrioritizedReplayBuffer", tmp_path)
    extra = described(tmp_path)["extras"]["priorities"]
    target = tmp_path / {"state": state_file(tmp_path).name, "priorities": extra}.get(
        which, file_of(tmp_path, "act").name
    )
    whole = target.read_bytes()
    for length in range(0, len(whole), 7):
        target.write_bytes(whole[:length])
        with pytest.raises(errors.StorageError):
            PrioritizedReplayBuffer.open(tmp_path)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0, 4.0, 1e300, -1e300, 0.5, 2.0**63], ids=str)
@pytest.mark.parametrize("place", [1, 2, 4], ids=["insertion", "length", "first of the episode"])
def test_positions_that_cannot_be_are_refused(place, wrong, tmp_path):
    if (place, wrong) == (2, 4.0):
        wrong = 5.0
    filled("ReplayBuffer", tmp_path)
    state = np.load(state_file(tmp_path))
    state[:, place] = wrong
    np.save(state_file(tmp_path), state)
    with pytest.raises(errors.StorageError):
        ReplayBuffer.open(tmp_path)


@pytest.mark.parametrize(
    "state",
    [np.zeros((2, 0)), np.zeros((2, 3)), np.zeros(6), np.array(1.0), np.zeros((1, 6)), np.full((2, 6), "x")],
    ids=["empty", "short", "flat", "number", "one copy", "text"],
)
def test_a_state_of_another_form_is_refused(state, tmp_path):
    filled("ReplayBuffer", tmp_path)
    np.save(state_file(tmp_path), state)
    with pytest.raises(errors.StorageError):
        ReplayBuffer.open(tmp_path)


@pytest.mark.parametrize(
    "priorities",
    [np.zeros(4), np.full(16, np.nan), np.full(16, -1.0), np.full(16, np.inf), np.zeros(16, "M8[s]")],
    ids=["short", "nan", "negative", "infinite", "dates"],
)
def test_priorities_that_cannot_be_are_refused(priorities, tmp_path):
    filled("PrioritizedReplayBuffer", tmp_path)
    np.save(tmp_path / described(tmp_path)["extras"]["priorities"], priorities)
    with pytest.raises(errors.StorageError):
        PrioritizedReplayBuffer.open(tmp_path)


def test_rows_without_priorities_are_sampled_or_refused(tmp_path):
    filled("PrioritizedReplayBuffer", tmp_path)
    np.save(tmp_path / described(tmp_path)["extras"]["priorities"], np.zeros(16))
    usable_or_refused(PrioritizedReplayBuffer, tmp_path)


@pytest.mark.parametrize("which", ["act", "state", "description"])
def test_a_link_out_of_the_folder_is_neither_read_nor_written(which, tmp_path):
    path = tmp_path / "buffer"
    filled("ReplayBuffer", path)
    target = {"state": state_file(path), "description": path / "buffer.json"}.get(which, file_of(path, "act"))
    outside = tmp_path / "outside"
    shutil.move(target, outside)
    target.symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(errors.StorageError):
        ReplayBuffer.open(path)
    assert outside.read_bytes() == before


@pytest.mark.parametrize("name", MAKE)
def test_bytes_that_were_changed_give_a_buffer_or_are_refused(name, tmp_path):
    source, path = tmp_path / "source", tmp_path / "copy"
    buffer = filled(name, source)
    buffer.close()
    more = {"compute_reward_fn": no_reward} if name == "HERReplayBuffer" else {}
    names = ["buffer.json", state_file(source).name, file_of(source, "act").name, file_of(source, "done").name]
    names += described(source)["extras"].values()
    choice = random.Random(name)
    outcomes = set()
    shutil.copytree(source, path)
    for _ in range(3500 if settings.get_current_profile_name() == "fuzz" else 150):
        changed = choice.choice(names)
        content = bytearray((source / changed).read_bytes())
        for _ in range(choice.randint(1, 3)):
            end = len(content) if changed == "buffer.json" else min(len(content), 200)
            content[choice.randrange(end)] = choice.randrange(256)
        (path / changed).write_bytes(bytes(content))
        outcomes.add(usable_or_refused(type(buffer), path, **more))
        for one in source.iterdir():  # going on with an episode that was not moved changes others
            (path / one.name).write_bytes(one.read_bytes())
    assert outcomes == {True, False}


VALUES = [None, -1, 0, 1, 2, 3, 10**5, 10**9, 2**40, 10**30, -(2**63), 1.5, float("nan"), "", "x", [], {}, [1], True]


def places(content: Any, path: tuple[Any, ...] = ()) -> Any:
    """The path of everything in a description."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("name", MAKE)
def test_a_description_in_which_anything_is_something_else_is_refused_or_used_in_little_time(name, tmp_path):
    buffer = filled(name, tmp_path)
    buffer.close()
    more = {"compute_reward_fn": no_reward} if name == "HERReplayBuffer" else {}
    whole = described(tmp_path)
    every = [(place, value) for place in places(whole) for value in VALUES]
    fuzzing = settings.get_current_profile_name() == "fuzz"
    for place, value in every if fuzzing else random.Random(name).sample(every, 150):
        content = copy.deepcopy(whole)
        *outer, last = place
        inner = content
        for key in outer:
            inner = inner[key]
        inner[last] = value
        (tmp_path / "buffer.json").write_text(json.dumps(content))
        usable_or_refused(type(buffer), tmp_path, **more)


def test_frames_that_no_ring_has_are_refused(tmp_path):
    filled("ReplayBuffer", tmp_path).close()
    rewrite(tmp_path, argument("stack_num", 10**5))
    with pytest.raises(errors.StorageError, match="stack_num is at most 1,000, got 100000"):
        ReplayBuffer.open(tmp_path)


def test_nothing_is_imported_for_what_a_description_says(tmp_path):
    filled("ReplayBuffer", tmp_path)
    rewrite(tmp_path, field("act", tensor="antigravity"))
    with pytest.raises(errors.StorageError):
        ReplayBuffer.open(tmp_path)
    assert "antigravity" not in sys.modules


def draws(buffer: Any) -> list[list[int]]:
    return [buffer.sample(16)[1].tolist() for _ in range(4)]


@pytest.mark.parametrize("end", ["flush", "close", "kill"])
@pytest.mark.parametrize("name", MAKE)
def test_random_numbers_continue_where_they_were_stored(name, end, tmp_path):
    straight, buffer = filled(name, tmp_path / "straight"), filled(name, tmp_path / "buffer")
    assert draws(straight) == draws(buffer)
    if end == "kill":
        buffer.flush()
        state_of(buffer).storage.close()  # as the end of the process does
    else:
        getattr(buffer, end)()
    again = opened(buffer, tmp_path / "buffer", "r" if end == "flush" else "r+")
    assert draws(again) == draws(straight)
    again.close()
    buffer.close()  # once more, or after another buffer: it does not store anything then
    if end != "flush":
        assert draws(opened(buffer, tmp_path / "buffer", "r+")) == draws(straight)


def test_random_numbers_whose_state_is_damaged_or_missing_start_from_the_seed(tmp_path):
    buffer = filled("ReplayBuffer", tmp_path)
    first = draws(buffer)
    buffer.close()
    for damage in (
        "",
        "{}",
        "null",
        "{",
        "[1]",
        '{"bit_generator": "PCG64", "state": {"state": -1, "inc": 0}}',
        "\xff",
    ):
        (tmp_path / "random.json").write_text(damage, "latin-1")
        with pytest.warns(
            UserWarning, match=r"random.json in .* is damaged .*; random numbers start again from the seed"
        ):
            assert draws(opened(buffer, tmp_path)) == first
    (tmp_path / "random.json").unlink()
    assert draws(opened(buffer, tmp_path)) == first
