"""Files beside numpy's own: the same arrays by ``np.savez`` and ``np.load``, 26 MB and 160 KB of them, in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from safetensors.numpy import save_file

from typedbatch import Batch
from typedbatch.files import load, save

from .timing import Row, row

BAR = 1.2
SIZES = {"26 MB": 65_536, "160 KB": 400}
Call = Callable[[], Any]


def measure_files() -> list[Row]:
    """Saving and loading, whole and mapped."""
    rows = []
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # what a disk does is the disk's
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for label, count in SIZES.items():
            rows += _rows(Path(folder), label, _arrays(np.random.default_rng(0), count))
    return rows


def _arrays(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    return {
        "obs": rng.random((rows, 46), np.float32), "obs_next": rng.random((rows, 46), np.float32),
        "act": rng.integers(0, 5, rows), "rew": rng.random(rows), "terminated": rng.random(rows) < 0.1,
        "truncated": rng.random(rows) < 0.1,
    }  # fmt: skip


def _rows(folder: Path, label: str, arrays: dict[str, Any]) -> list[Row]:
    batch = Batch(arrays)
    ours, theirs, hdf5, plain, one = (folder / name for name in ("a.safetensors", "a.npz", "a.h5", "b.h5", "a.npy"))
    plain_st = folder / "b.safetensors"

    def load_npz() -> dict[str, Any]:
        with np.load(theirs) as file:
            return dict(file)

    def write_hdf5() -> None:
        with h5py.File(plain, "w", libver="latest") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)

    def read_hdf5() -> dict[str, Any]:
        with h5py.File(plain, "r") as file:
            return {name: file[name][()] for name in arrays}

    np.save(one, arrays["obs"])
    cases: list[tuple[str, Call, Call, float | None]] = [
        ("save, beside np.savez", lambda: np.savez(theirs, **arrays), lambda: save(batch, ours), BAR),
        ("load, beside np.load", load_npz, lambda: load(ours), BAR),
        ("save, beside safetensors", lambda: save_file(arrays, plain_st), lambda: save(batch, ours), None),
        (
            "load mapped, beside one mapped .npy",
            lambda: np.load(one, mmap_mode="c"),
            lambda: load(ours, mmap=True),
            None,
        ),
        ("save .h5, beside h5py by hand", write_hdf5, lambda: save(batch, hdf5), None),
        ("load .h5, beside h5py by hand", read_hdf5, lambda: load(hdf5), None),
    ]
    rows = [row(f"{label}: {name}", floor, call, bar) for name, floor, call, bar in cases]
    assert load(ours) == batch == load(hdf5) == load(ours, mmap=True)
    return rows
