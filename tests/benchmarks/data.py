"""The two data sets: a flat rollout, and one whose observations are nested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import BatchProtocol, RolloutBatchProtocol
from typedbatch._typing import K_co

from . import floors
from .floors import Fields

ROWS = 256


class CameraObs(BatchProtocol, Protocol[K_co]):
    @property
    def camera(self) -> K_co: ...

    @property
    def lidar(self) -> K_co: ...


@dataclass(frozen=True)
class DataSet:
    name: str
    fields: Fields
    """A rollout as a dict of arrays, with dicts of arrays in it."""
    rows: list[Fields]
    """64 transitions as an environment gives them: arrays and Python numbers."""
    pieces: list[Fields]
    """16 rollouts of 32 rows each."""
    obs_names: tuple[str, ...]
    schema: Any
    torch_schema: Any


def data_sets() -> list[DataSet]:
    rng = np.random.default_rng(0)
    flat = _rollout(rng, lambda: rng.normal(size=(ROWS, 4)).astype(np.float32))
    nested = _rollout(rng, lambda: _camera_obs(rng))
    cameras: Any = RolloutBatchProtocol[NDArray[Any], CameraObs[NDArray[Any]], NDArray[Any]]
    torch_cameras: Any = RolloutBatchProtocol[Tensor, CameraObs[Tensor], Tensor]
    return [
        DataSet("flat", flat, *_parts(flat, rng), (), RolloutBatchProtocol, RolloutBatchProtocol[Tensor]),
        DataSet("nested", nested, *_parts(nested, rng), ("camera", "lidar"), cameras, torch_cameras),
    ]


def numbers_of(fields: Fields) -> Fields:
    """A copy with flags as numbers, so that everything can be computed with."""
    return {
        k: numbers_of(v) if isinstance(v, dict) else v.astype(np.float32) if v.dtype == bool else v.copy()
        for k, v in fields.items()
    }


def _rollout(rng: np.random.Generator, observe: Callable[[], Any]) -> Fields:
    return {
        "obs": observe(), "act": rng.integers(0, 5, ROWS), "rew": rng.normal(size=ROWS), "obs_next": observe(),
        "terminated": rng.random(ROWS) < 0.1, "truncated": rng.random(ROWS) < 0.1,
        "info": {"env_id": np.arange(ROWS) % 8, "t": rng.random(ROWS)},
    }  # fmt: skip


def _camera_obs(rng: np.random.Generator) -> Fields:
    camera = rng.integers(0, 256, (ROWS, 3, 16, 16), dtype=np.uint8)
    return {"camera": camera, "lidar": rng.random((ROWS, 32), dtype=np.float32)}


def _parts(fields: Fields, rng: np.random.Generator) -> tuple[list[Fields], list[Fields]]:
    rows = [_row(fields, i) for i in range(64)]
    pieces = [floors.select(fields, rng.integers(0, ROWS, 32)) for _ in range(16)]
    return rows, pieces


def _row(fields: Fields, i: int) -> Fields:
    def value(v: Any) -> Any:
        return _row(v, i) if isinstance(v, dict) else v[i].copy() if v.ndim > 1 else v[i].item()

    return {name: value(v) for name, v in fields.items()}
