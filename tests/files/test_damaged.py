"""Files that were cut off or changed: what is read is what was written, or the file is refused."""

from __future__ import annotations

import random
import subprocess
import sys
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
from typedbatch.errors import SchemaError, StorageError
from typedbatch.files import load, save


def small() -> Any:
    """A batch with something of every kind, in few bytes."""
    scalar = Batch(date=np.array(["2020"], "M8[D]"), big=np.ones((1, 2), ">i2"))
    scalar.__dict__["s"] = np.float32(1.5)
    tensors = Batch(t=torch.ones(2, dtype=torch.bfloat16), g=torch.ones(1, requires_grad=True))
    return Batch(obs=np.arange(3.0), o=cells(None, [1], "x"), text="é", n=None, r=Batch(), deep=scalar, tensors=tensors)


def outcome(path: Path, **arguments: Any) -> Any:
    """What is loaded, or None if it is refused; any other error passes."""
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


# ---- cut off --------------------------------------------------------------------------------------------------------


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


# ---- changed --------------------------------------------------------------------------------------------------------


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
    with pytest.raises(StorageError, match=r"a.safetensors cannot be read: field 'obs.cam': its data are not what was"):
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


CHANGED = """
import random, sys
from pathlib import Path
from typedbatch import Batch
from typedbatch.errors import SchemaError, StorageError
from typedbatch.files import load

begin, end = int(sys.argv[1]), int(sys.argv[2])
for path in sys.argv[3:]:
    whole = Path(path).read_bytes()
    used = [place for place in range(len(whole)) if whole[place]]
    for seed in range(begin, end):
        print(path, seed, end=" ", flush=True)
        choice, content = random.Random(seed), bytearray(whole)
        for _ in range(choice.randint(1, 3)):
            content[choice.choice(used)] ^= 1 << choice.randrange(8)
        changed = Path(path).with_name("changed.h5")
        changed.write_bytes(bytes(content))
        try:
            batch = load(changed)
        except (StorageError, SchemaError):
            print("refused", flush=True)
            continue
        assert isinstance(batch, Batch)
        repr(batch)
        print("read", flush=True)
"""


def test_bytes_of_an_hdf5_file_that_were_changed_give_a_batch_or_are_refused(tmp_path):
    policies = MultiAgentBatch({"p": SampleBatch(obs=np.arange(300.0)), "q": SampleBatch(obs=torch.ones(2))}, 300)
    save(small(), tmp_path / "small.h5")
    save(small(), tmp_path / "compressed.h5", compression="gzip")
    save(policies, tmp_path / "policies.h5")
    paths = sorted(map(str, tmp_path.iterdir()))
    count = 250 if settings.default is None or settings.default.max_examples < 1000 else 20_000
    # In a process of its own: what goes wrong in the HDF5 library would end this one.
    command = [sys.executable, "-W", "error", "-c", CHANGED, "0", str(count), *paths]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = threading.Timer(60 + count / 20, running.kill)  # it could go on for ever, too
    watch.start()
    said, error = running.communicate()
    watch.cancel()
    assert running.returncode == 0, f"{said.splitlines()[-1:]}: {running.returncode}, {error[-2000:]}"
    assert {line.split()[2] for line in said.splitlines()} == {"read", "refused"}
    assert len(said.splitlines()) == count * len(paths)
