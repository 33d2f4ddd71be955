"""The floor: each operation as a good engineer writes it by hand for a nested dict of arrays. No checks, no extras.

Loops, not comprehensions: before Python 3.12 those cost a fifth more, which would make a floor too easy to reach.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

Fields = dict[str, Any]


def construct(d: Fields) -> Fields:
    out = {}
    for k, v in d.items():
        out[k] = construct(v) if isinstance(v, dict) else v if isinstance(v, np.ndarray) else np.asarray(v)
    return out


def from_rows(rows: list[Fields]) -> Fields:
    out = {}
    for k, first in rows[0].items():
        column = [row[k] for row in rows]
        out[k] = from_rows(column) if isinstance(first, dict) else join_column(column)
    return out


def join_column(column: Any) -> Any:
    return np.stack(column) if isinstance(column[0], np.ndarray) else np.array(column)


def select(d: Fields, index: Any) -> Fields:
    out = {}
    for k, v in d.items():
        out[k] = select(v, index) if isinstance(v, dict) else v[index]
    return out


def set_rows(d: Fields, index: Any, rows: Fields) -> Fields:
    for k, v in d.items():
        if isinstance(v, dict):
            set_rows(v, index, rows[k])
        else:
            v[index] = rows[k]
    return d


def set_zeros(d: Fields, index: Any) -> Fields:
    for v in d.values():
        if isinstance(v, dict):
            set_zeros(v, index)
        else:
            v[index] = 0
    return d


def set_column(d: Fields, name: str, index: Any, values: Any) -> Fields:
    d[name][index] = values
    return d


def in_place(work: Any, d: Fields, other: Any) -> Fields:
    for k, v in d.items():
        value = other[k] if isinstance(other, dict) else other
        if isinstance(v, dict):
            in_place(work, v, value)
        else:
            work(v, value)
    return d


def zeros(d: Fields) -> Fields:
    return {k: zeros(v) if isinstance(v, dict) else np.zeros_like(v) for k, v in d.items()}


def each_row(d: Fields) -> Iterator[Fields]:
    for i in range(len(d["rew"])):
        yield select(d, i)


def stack(batches: list[Fields]) -> Fields:
    out = {}
    for k, first in batches[0].items():
        column = [b[k] for b in batches]
        out[k] = stack(column) if isinstance(first, dict) else np.stack(column)
    return out


def cat(batches: list[Fields]) -> Fields:
    out = {}
    for k, first in batches[0].items():
        column = [b[k] for b in batches]
        out[k] = cat(column) if isinstance(first, dict) else np.concatenate(column)
    return out


def split(d: Fields, size: int) -> Iterator[Fields]:
    for start in range(0, len(d["rew"]), size):
        yield select(d, slice(start, start + size))


def split_shuffled(d: Fields, size: int) -> Iterator[Fields]:
    order = np.random.permutation(len(d["rew"]))
    for start in range(0, len(order), size):
        yield select(d, order[start : start + size])


def to_torch(d: Fields) -> Fields:
    out = {}
    for k, v in d.items():
        out[k] = to_torch(v) if isinstance(v, dict) else torch.from_numpy(v)
    return out


def to_numpy(d: Fields) -> Fields:
    out = {}
    for k, v in d.items():
        out[k] = to_numpy(v) if isinstance(v, dict) else v.detach().cpu().numpy()
    return out


def copy(d: Fields) -> Fields:
    out = {}
    for k, v in d.items():
        out[k] = copy(v) if isinstance(v, dict) else v
    return out


def deepcopy(d: Fields) -> Fields:
    out = {}
    for k, v in d.items():
        out[k] = deepcopy(v) if isinstance(v, dict) else v.copy()
    return out


def equal(a: Fields, b: Fields) -> bool:
    if a.keys() != b.keys():
        return False
    for k, x in a.items():
        y = b[k]
        if isinstance(x, dict):
            if not equal(x, y):
                return False
        elif x.dtype != y.dtype or x.shape != y.shape or not (x == y).all():
            return False
    return True


def pickled(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x, protocol=5))


def pickled_out_of_band(x: Any) -> Any:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers)


def check_fields(d: Fields, names: tuple[str, ...], rows: int) -> None:
    for name in names:
        if name not in d:
            raise ValueError(f"{name} is missing")
        if not isinstance(d[name], np.ndarray) or d[name].shape[:1] != (rows,):
            raise ValueError(f"{name} is not an array of {rows} rows")


def check_rollout(d: Fields, obs_names: tuple[str, ...]) -> Fields:
    """Check as ``validate`` does that every field exists and has its kind, and that all have equally many rows."""
    rows = len(d["rew"])
    check_fields(d, ("act", "rew", "terminated", "truncated"), rows)
    if obs_names:
        check_fields(d["obs"], obs_names, rows)
        check_fields(d["obs_next"], obs_names, rows)
    else:
        check_fields(d, ("obs", "obs_next"), rows)
    check_fields(d["info"], tuple(d["info"]), rows)
    return d
