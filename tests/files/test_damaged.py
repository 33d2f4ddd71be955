"""Files that were cut off or changed: what is read is what was written, or the file is refused."""

from __future__ import annotations

import os
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.helpers import ENDINGS, Steps, assert_same, cells
from typedbatch import Batch, MultiAgentBatch, SampleBatch
from typedbatch.errors import SchemaError, SettingError, StorageError
from typedbatch.files import _hdf5, load, save
from typedbatch.files._hdf5 import is_own


def small() -> Any:
    """A batch with something of every kind, in few bytes."""
    scalar = Batch(date=np.array(["2020"], "M8[D]"), big=np.ones((1, 2), ">i2"))
    scalar.__dict__["s"] = np.float32(1.5)
    tensors = Batch(t=torch.ones(2, dtype=torch.bfloat16), g=torch.ones(1, requires_grad=True))
    return Batch(obs=np.arange(3.0), o=cells(None, [1], "x"), text="é", n=None, r=Batch(), deep=scalar, tensors=tensors)


def foreign(batch: Any, path: Path) -> Path:
    """A file of a batch that this process has not written itself, so that another process reads it."""
    save(batch, path.with_name("own.h5"))
    shutil.copy(path.with_name("own.h5"), path)
    return path


def outcome(path: Path, **arguments: Any) -> Any:
    """Return the loaded batch, or None if the file is refused; any other error is raised."""
    try:
        return load(path, **arguments)
    except (StorageError, SchemaError):
        return None


@pytest.fixture(scope="module")
def whole(tmp_path_factory: Any) -> Any:
    """The bytes of a file in each format."""
    found = {}
    for ending in ENDINGS:
        path = tmp_path_factory.mktemp("whole") / f"a{ending}"
        save(small(), path, Steps)
        found[ending] = path.read_bytes()
    return found


@pytest.mark.parametrize("mmap", [False, True])
def test_a_safetensors_file_that_is_cut_off_anywhere_is_refused(mmap, whole, tmp_path):
    path = tmp_path / "a.safetensors"
    for length in range(len(whole[".safetensors"])):
        path.write_bytes(whole[".safetensors"][:length])
        with pytest.raises(StorageError, match=r"a\.safetensors (cannot be read|is damaged): "):
            load(path, mmap=mmap)


def test_an_hdf5_file_that_is_cut_off_anywhere_is_refused(whole, tmp_path):
    path = tmp_path / "a.h5"
    lengths = [*range(600), *range(600, len(whole[".h5"]), 7), len(whole[".h5"]) - 1]
    for length in lengths:
        path.write_bytes(whole[".h5"][:length])
        with pytest.raises(StorageError, match=r"a\.h5 (cannot be read|is damaged): "):
            load(path)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("more", [b"\0", b"x" * 8, b"{}" * 1000])
def test_a_file_with_something_behind_it_is_refused(more, mmap, whole, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(whole[".safetensors"] + more)
    with pytest.raises(StorageError):
        load(tmp_path / "a.safetensors", mmap=mmap)


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\0" * 8, b"\0" * 5000, b"text", b"\xff" * 5000, b"PK\3\4", b"\x80\x04N."]
)
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_no_such_file_is_refused(content, ending, tmp_path):
    (tmp_path / f"a{ending}").write_bytes(content)
    with pytest.raises(StorageError):
        load(tmp_path / f"a{ending}")
    if ending == ".safetensors":
        with pytest.raises(StorageError):
            load(tmp_path / f"a{ending}", mmap=True)


def test_a_file_of_the_other_format_is_refused(whole, tmp_path):
    for ending, other in (ENDINGS, ENDINGS[::-1]):
        (tmp_path / f"a{ending}").write_bytes(whole[other])
        with pytest.raises(StorageError):
            load(tmp_path / f"a{ending}")


def test_parts_of_two_files_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    contents = []
    for number in (1, 2):
        save(Batch(a=np.full(100, number)), path)
        contents.append(path.read_bytes())
    one, two = contents
    assert len(one) == len(two)
    for place in range(8, len(one), 8):
        mixed = one[:place] + two[place:]
        path.write_bytes(mixed)
        if mixed not in contents:
            with pytest.raises(StorageError):
                load(path)


def test_every_changed_bit_of_a_safetensors_file_is_found(whole, tmp_path):
    path, content = tmp_path / "a.safetensors", whole[".safetensors"]
    begin = 8 + int.from_bytes(content[:8], "little")
    padding = range(len(content[:begin].rstrip(b" ")), begin)
    choice = random.Random(0)
    for place in range(len(content)):
        for bit in range(8) if place < 16 or place >= begin - 8 else choice.sample(range(8), 2):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            path.write_bytes(bytes(changed))
            found = outcome(path)
            assert found is None or place in padding, (place, bit)
            if found is not None:
                assert_same(found, small())


def test_a_changed_bit_never_makes_a_mapped_file_fail_in_another_way(whole, tmp_path):
    path, content = tmp_path / "a.safetensors", whole[".safetensors"]
    begin = 8 + int.from_bytes(content[:8], "little")
    padding = range(len(content[:begin].rstrip(b" ")), begin)
    choice = random.Random(1)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << choice.randrange(8)
        path.write_bytes(bytes(changed))
        found = outcome(path, mmap=True, schema=Steps)
        assert found is None or place in padding or place >= begin, place


def test_data_that_were_changed_are_named(tmp_path):
    path = tmp_path / "a.safetensors"
    save(Batch(fine=np.ones(2), obs=Batch(cam=np.zeros(4, "u1"))), path)
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(bytes(changed))
    with pytest.raises(
        StorageError, match=r"a.safetensors cannot be read: field 'obs.cam': its data do not match their checksum"
    ):
        load(path)


@settings(max_examples=settings.default.max_examples * 3 if settings.default else 180)
@given(st.data())
def test_bytes_that_are_changed_at_random_are_found(tmp_path_factory, whole, data):
    path, content = tmp_path_factory.mktemp("changed") / "a.safetensors", bytearray(whole[".safetensors"])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content)))
        many = data.draw(st.integers(0, 4))
        content[place : place + many] = data.draw(st.binary(max_size=4))
    path.write_bytes(bytes(content))
    found, mapped = outcome(path), outcome(path, mmap=True)
    if found is not None:
        assert_same(found, small())
    assert mapped is None or isinstance(mapped, Batch)


FUZZING = settings.get_current_profile_name() == "fuzz"


def changed(whole: bytes, seed: int) -> bytes:
    """The bytes of a file, of which up to three bits are others."""
    used = [place for place in range(len(whole)) if whole[place]]
    choice, content = random.Random(seed), bytearray(whole)
    for _ in range(choice.randint(1, 3)):
        content[choice.choice(used)] ^= 1 << choice.randrange(8)
    return bytes(content)


@pytest.mark.parametrize("name", ["small", "compressed", "policies"])
def test_bytes_of_an_hdf5_file_that_were_changed_give_a_batch_or_are_refused(name, tmp_path, monkeypatch):
    """In this process: whatever goes wrong in the HDF5 library, it neither ends it nor keeps it waiting."""
    monkeypatch.setattr(_hdf5, "SECONDS", 1.0)
    policies = MultiAgentBatch({"p": SampleBatch(obs=np.arange(300.0)), "q": SampleBatch(obs=torch.ones(2))}, 300)
    path = tmp_path / "whole.h5"
    save(policies if name == "policies" else small(), path, compression="gzip" if name == "compressed" else None)
    whole, refused = path.read_bytes(), 0
    assert outcome(path) is not None
    for seed in range(33_400 if FUZZING else 150):
        (tmp_path / "changed.h5").write_bytes(changed(whole, seed))
        found = outcome(tmp_path / "changed.h5")
        refused += found is None
        repr(found)
    assert refused > 50


def test_what_ends_the_process_that_reads_or_keeps_it_busy_is_an_error_and_the_next_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_hdf5, "SECONDS", 1.0)
    path = foreign(small(), tmp_path / "a.h5")
    for serve, reason in (
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "HDF5 crashed while reading it.*ended with -11"),
        ("import sys; sys.stdin.readline(); sys.exit(0)", "HDF5 crashed while reading it.*ended with 0"),
        (
            "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 2))\nwhile True: pass",
            "HDF5 did not finish reading it: it is damaged, or was made to keep HDF5 busy",
        ),
        (
            """print('["array", "<f8", [1000000000000]]', flush=True); input()""",
            "sent more data than a file of this size can contain",
        ),
        ("import sys; sys.stdout.write('x' * 2**25); sys.stdout.flush()", "sent more data than a file of this size"),
        ("""print('["array", "|O", [1]]', flush=True); input()""", "sent something that is not an array"),
        ("""print('["tree", ["", {"a": ["AAAAAAAAAAA=", "|O", [1]]}, {}]]', flush=True); input()""", "damaged"),
        ("""print('["tree", ["", {}, {"a": ["", null, {}]}]]', flush=True); input()""", "damaged"),
        ("print('{', flush=True); input()", "damaged"),
    ):
        _hdf5.end_idle()
        with monkeypatch.context() as patch:
            patch.setattr(_hdf5, "_SERVE", serve)
            with pytest.raises(StorageError, match=reason):
                load(path)
        assert_same(load(path), small())


def test_a_process_that_has_gone_meanwhile_is_replaced(tmp_path):
    path = foreign(small(), tmp_path / "a.h5")
    load(path)
    assert _hdf5._idle
    for process in _hdf5._idle:
        process.kill()
        process.wait()
    assert_same(load(path), small())


def test_several_threads_read_at_once(tmp_path):
    for number in range(4):
        foreign(Batch(a=np.full(1000, number)), tmp_path / f"{number}.h5")
    failures = []

    def read(number: int) -> None:
        for _ in range(10):
            if load(tmp_path / f"{number}.h5").a.tolist() != [number] * 1000:
                failures.append(number)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_trusted_file_is_read_in_this_process(tmp_path):
    path = foreign(small(), tmp_path / "a.h5")
    _hdf5.end_idle()
    assert_same(load(path, trusted=True), small())
    assert _hdf5._idle == []
    with pytest.raises(SettingError, match=r"trusted= is for HDF5 files"):
        load(tmp_path / "a.safetensors", trusted=True)


def test_a_file_that_this_process_has_written_is_read_in_this_process_until_somebody_changes_it(tmp_path):
    path = tmp_path / "a.h5"
    _hdf5.end_idle()
    for _ in range(20):  # The clock of the file system may not tick between the two changes.
        save(small(), path)
        assert is_own(path.stat())
        path.write_bytes(path.read_bytes())
        assert not is_own(path.stat())
    save(small(), path)
    assert_same(load(path), small())
    assert _hdf5._idle == []
    path.write_bytes(path.read_bytes())
    assert_same(load(path), small())
    assert len(_hdf5._idle) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_reads_with_a_process_of_its_own(tmp_path):
    path = foreign(small(), tmp_path / "a.h5")
    load(path)
    waiting = list(_hdf5._idle)
    if not (child := os.fork()):
        try:
            os._exit(0 if _hdf5._idle == [] and load(path).text == "é" else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert_same(load(path), small())
    assert _hdf5._idle == waiting
