"""Memory and time to read a file depend on the data that it has, not on the sizes that it claims."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.files.helpers import by_hand, entry, hdf5_by_hand, memory_for, refused, with_document


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "batch.safetensors"


def test_a_shape_of_very_many_numbers_is_refused_at_once(path):
    by_hand(path, {"a": entry("U8", [9] * 1_000_000, 0, 0)})
    code = """
import resource, sys
from typedbatch.errors import StorageError
from typedbatch.files import load
used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
resource.setrlimit(resource.RLIMIT_CPU, (used + 20, used + 21))  # it takes parts of a second, or minutes
try:
    load(sys.argv[1])
except StorageError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "refused\n")


# ---- memory ---------------------------------------------------------------------------------------------------------


def many_times(node: Any, count: int) -> dict[str, Any]:
    return {"version": 1, "crc32": {}, "tree": {"batch": {str(i): node for i in range(count)}, "class": "Batch"}}


@pytest.mark.parametrize(
    "node",
    [{"array": "a", "order": ">"}, {"tensor": "a", "torch": "float32", "requires_grad": False}, {"array": "a"}],
    ids=["order", "tensor", "array"],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_one_array_does_not_become_many(node, mmap, path):
    size = 400_000
    entries = {"o": entry("U8", [1], 0, 1), "a": entry("F32", [size // 4], 1, 1 + size)}
    with_document(path, many_times(node, 100), entries, bytes(1 + size))
    assert memory_for(path, mmap=mmap) < 10 * size


def test_claims_without_data_take_no_memory(path):
    for shape, end in (([10**9], 10**9), ([10**9], 0), ([10**12, 0], 0)):
        by_hand(path, {"a": entry("U8", shape, 0, end)})
        assert memory_for(path) < 100_000
        with_document(path, many_times({"array": "a"}, 3), {"a": entry("U8", shape, 0, end)})
        assert memory_for(path) < 100_000


HUGE: dict[str, Any] = {
    "array": {},
    "scalar": {"__data_type__": b"scalar"},
    "tensor": {"__data_type__": b"Tensor", "dtype": b"torch.uint8"},
    "JSON": {"__data_type__": b"json"},
    "objects": {"__data_type__": b"json_ndarray", "shape": (1,)},
}


@pytest.mark.parametrize("kind", HUGE)
def test_data_that_an_hdf5_file_claims_but_does_not_hold_take_no_memory(kind, tmp_path):
    def fill(group: Any) -> None:
        dataset = group.create_dataset("it", (200_000_000,), "u1", chunks=(1_000_000,))
        for name, value in HUGE[kind].items():
            dataset.attrs[name] = value

    hdf5_by_hand(tmp_path / "a.h5", fill)
    assert memory_for(tmp_path / "a.h5") < 10_000_000
    refused(tmp_path / "a.h5")


def test_one_dataset_in_many_places_does_not_become_many(tmp_path):
    def fill(group: Any) -> None:
        group.create_dataset("it", data=np.zeros(400_000, "u1"))
        for number in range(100):
            group[f"again {number}"] = group["it"]

    hdf5_by_hand(tmp_path / "a.h5", fill)
    assert memory_for(tmp_path / "a.h5") < 4_000_000
