"""The other libraries, as far as they are installed, and how their results compare with the floor's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from . import floors
from .data import DataSet
from .floors import Fields

MODULES = {"tianshou": "tianshou.data", "tensordict": "tensordict", "optree": "optree"}


def installed() -> dict[str, Any]:
    """The peers that can be imported."""
    found = {}
    for name, module in MODULES.items():
        try:
            found[name] = importlib.import_module(module)
        except ImportError:
            continue
    return found


class Prepared(NamedTuple):
    """A data set in a peer's container."""

    whole: Any = None
    same: Any = None
    """Equal to ``whole``, in memory of its own."""
    tensors: Any = None
    pieces: Any = None


def prepare(make: Callable[[Fields], Any] | None, data: DataSet) -> Prepared:
    """The data in the container that ``make`` makes of a dict; nothing when the peer is absent."""
    if make is None:
        return Prepared()
    tensors = make(floors.to_torch(data.fields))
    return Prepared(make(data.fields), make(floors.deepcopy(data.fields)), tensors, list(map(make, data.pieces)))


def tensordict(cls: Any, fields: Fields) -> Any:
    tensors = fields if isinstance(fields["rew"], torch.Tensor) else floors.to_torch(fields)
    return cls(tensors, batch_size=[len(fields["rew"])])


def tensor_rows(rows: list[Fields]) -> list[Fields]:
    """Rows as tensors of the right dtype; left to itself, TensorDict makes float32 of Python's floats."""
    return [
        {k: tensor_rows([v])[0] if isinstance(v, dict) else torch.from_numpy(np.array(v)) for k, v in row.items()}
        for row in rows
    ]


def set_rows(batch: Any, index: Any, rows: Any) -> Any:
    batch[index] = rows
    return batch


def set_column(batch: Any, name: str, index: Any, values: Any) -> Any:
    batch.set_array_at_key(values, name, index)
    return batch


def difference(result: Any, expected: Any) -> str:
    """Return how a contender's result differs from the floor's in names, shapes, dtypes and values, or ""."""
    got, wanted = plain(result), plain(expected)
    if _same(got, wanted):
        return ""
    return f"got {_outline(got)}, not {_outline(wanted)}"


def plain(value: Any) -> Any:
    """Any contender's result as nested dicts and lists of arrays."""
    if hasattr(value, "keys") and hasattr(value, "items"):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and floors.equal({"": a}, {"": b})


def _outline(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} of {_outline(value[0])}" if value else "nothing"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_outline(v)}" for k, v in value.items()) + "}"
    return f"{value.dtype}{list(value.shape)}"
