"""Batches of post-training beside a loop over a dict of tensors, TensorDict, and verl's DataProto.

Ten columns of tensors ``(N, T)``, four of int64 and six of float32, and five of objects. The floor of pickling is the
dict, pickled with all data in the stream: torch's own way to pickle, which knows no other.

verl is measured where it can be imported. Its wheel brings a package called ``tests``, which has to be deleted first.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from typedbatch import Batch, BatchProtocol, objects
from typedbatch.rows import chunk, project, repeat, union

from .peers import difference
from .timing import Row, row

SIZES = ((32, 512), (1024, 4096))
PARTS = 8
ROUNDS = 9  # a quarter of a gigabyte is moved in each call
_IDS = ("prompt_ids", "response_ids", "position_ids", "response_mask")
_FLOATS = ("rollout_logp", "old_logp", "ref_logp", "advantages", "token_rewards", "returns")
_OBJECTS = ("uid", "source", "messages", "answer", "tools")
Columns = dict[str, Any]
Call = Callable[[], Any]


class PolicyInputs(BatchProtocol, Protocol):
    """The fields that a loss reads."""

    @property
    def response_ids(self) -> Tensor: ...
    @property
    def old_logp(self) -> Tensor: ...
    @property
    def advantages(self) -> Tensor: ...


class Case(NamedTuple):
    """An operation as a loop over a dict, and the same with each container."""

    name: str
    floor: Call
    calls: dict[str, Call]
    bar: float | None
    large_only: bool = False
    """Is the bar for the large size alone."""


def measure_posttraining() -> Iterator[tuple[str, list[Row]]]:
    """The table of each size."""
    for rows, tokens in SIZES:
        measured = []
        for case in _cases(_columns(rows, tokens)):
            if wrong := difference(case.calls["typedbatch"](), case.floor()) if _comparable(case.name) else "":
                raise AssertionError(f"{case.name}: {wrong}")
            bar = None if case.large_only and (rows, tokens) != SIZES[-1] else case.bar
            measured.append(row(case.name, case.floor, case.calls, bar, ROUNDS))
        yield f"{rows} x {tokens}", measured


def _comparable(name: str) -> bool:
    return not name.startswith(("pickle", "to meta"))


def _columns(rows: int, tokens: int) -> Columns:
    numbers = np.random.default_rng(0)
    made: Columns = {name: torch.from_numpy(numbers.integers(0, 150_000, (rows, tokens))) for name in _IDS}
    made |= {name: torch.from_numpy(numbers.random((rows, tokens), np.float32)) for name in _FLOATS}
    for name in _OBJECTS:
        made[name] = np.array([f"{name} {row}" for row in range(rows)], object)
    return made


def _cases(columns: Columns) -> Iterator[Case]:
    """One after the other, as the results of each are large."""
    rows = len(columns["uid"])
    batch, td, proto = Batch(columns), _tensordict(columns), _dataproto(columns)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    half = {name: value for place, (name, value) in enumerate(columns.items()) if place % 2}
    rest = {name: value for name, value in columns.items() if name not in half}
    wanted = ("response_ids", "old_logp", "advantages")

    def case(
        name: str, floor: Call, own: Call, theirs: Call | None, verl: Callable[[Any], Any] | None,
        bar: float | None = None, *, large_only: bool = False,
    ) -> Case:  # fmt: skip
        calls = {"typedbatch": own, "tensordict": theirs}
        if proto is not None and verl is not None:
            calls["DataProto"] = lambda: verl(proto)
        return Case(name, floor, {who: call for who, call in calls.items() if call is not None}, bar, large_only)

    yield case("construct", lambda: _constructed(columns), lambda: Batch(columns),
               lambda: _tensordict(columns), lambda _: _dataproto(columns), 5)  # fmt: skip
    yield case("select 3 fields", lambda: {name: columns[name] for name in wanted},
               lambda: Batch({name: batch[name] for name in wanted}),
               lambda: td.select(*wanted), lambda p: p.select(list(wanted), []))  # fmt: skip
    yield case("select and validate: project", lambda: {name: columns[name] for name in wanted},
               lambda: project(batch, PolicyInputs), None, None)  # fmt: skip
    mine, other, td_mine, td_other = Batch(half), Batch(rest), _tensordict(half), _tensordict(rest)
    proto_mine, proto_other = _dataproto(half), _dataproto(rest)
    yield case("union", lambda: _joined_fields(half, rest), lambda: union(mine, other),
               lambda: td_mine.copy().update(td_other),
               lambda _: _copied(proto_mine).union(proto_other), 5)  # fmt: skip
    middle = slice(rows // 4, rows // 2)
    yield case("slice", lambda: _each(columns, lambda v: v[middle]), lambda: batch[middle],
               lambda: td[middle], lambda p: p[middle])  # fmt: skip
    yield case("chunk(8)", lambda: _cut(columns), lambda: chunk(batch, PARTS),
               lambda: td.chunk(PARTS), lambda p: p.chunk(PARTS))  # fmt: skip
    parts, batches, tds = _cut(columns), chunk(batch, PARTS), td.chunk(PARTS)
    protos = None if proto is None else proto.chunk(PARTS)
    yield case("concat of 8", lambda: _concatenated(parts), lambda: Batch.cat(batches),
               lambda: type(td).cat(tds), lambda p: p.concat(protos), 1.1, large_only=True)  # fmt: skip
    yield case("repeat(8) of an eighth", lambda: _each(parts[0], _repeated), lambda: repeat(batches[0], PARTS),
               lambda: tds[0].repeat_interleave(PARTS, dim=0),
               lambda _: protos and protos[0].repeat(PARTS), 1.1, large_only=True)  # fmt: skip
    yield case("reorder", lambda: _each(columns, lambda v: v[_rows(v, order)]), lambda: batch[order],
               lambda: td[order], lambda p: p.select_idxs(order), 1.1, large_only=True)  # fmt: skip
    yield case("8 minibatches, shuffled", lambda: _minibatches(columns, order),
               lambda: [batch[own] for own in order.chunk(PARTS)],
               lambda: [td[own] for own in order.chunk(PARTS)],
               lambda p: [p.select_idxs(own) for own in order.chunk(PARTS)], 1.1, large_only=True)  # fmt: skip
    yield case("to meta", lambda: _each(columns, _to_meta), lambda: batch.to("meta"),
               lambda: td.to("meta"), lambda p: _copied(p).to("meta"))  # fmt: skip
    yield case("pickle", lambda: pickle.dumps(columns, 5), lambda: pickle.dumps(batch, 5),
               lambda: pickle.dumps(td, 5), lambda p: pickle.dumps(p, 5))  # fmt: skip
    yield case("pickle out of band", lambda: pickle.dumps(columns, 5), lambda: _out_of_band(batch),
               lambda: _out_of_band(td), lambda p: _out_of_band(p), 0.05, large_only=True)  # fmt: skip
    dicts = [{"answer": row} for row in range(rows)]
    yield case("a column of dicts", lambda: {"extra": _column(dicts)}, lambda: Batch(extra=objects(dicts)),
               lambda: _tensordict({"extra": _column(dicts)}),
               lambda _: _dataproto({"extra": _column(dicts)}), 10)  # fmt: skip


def _constructed(columns: Columns) -> Columns:
    """As a loop makes sure that it holds arrays and tensors."""
    return {n: v if isinstance(v, (np.ndarray, Tensor)) else np.asarray(v) for n, v in columns.items()}


def _joined_fields(mine: Columns, other: Columns) -> Columns:
    """With what has to be checked: that no field is lost, and that the rows are as many."""
    out, rows = dict(mine), len(next(iter(mine.values())))
    for name, value in other.items():
        if name in out or len(value) != rows:
            raise ValueError(name)
        out[name] = value
    return out


def _each(columns: Columns, change: Callable[[Any], Any]) -> Columns:
    return {name: change(value) for name, value in columns.items()}


def _cut(columns: Columns) -> list[Columns]:
    size = len(columns["uid"]) // PARTS
    return [_each(columns, lambda v, start=start: v[start : start + size]) for start in range(0, PARTS * size, size)]


def _concatenated(parts: list[Columns]) -> Columns:
    return {
        name: (torch.cat if isinstance(value, Tensor) else np.concatenate)([part[name] for part in parts])
        for name, value in parts[0].items()
    }


def _repeated(value: Any) -> Any:
    return value.repeat_interleave(PARTS, 0) if isinstance(value, Tensor) else value.repeat(PARTS)


def _rows(value: Any, order: Tensor) -> Any:
    return order if isinstance(value, Tensor) else order.numpy()


def _minibatches(columns: Columns, order: Tensor) -> list[Columns]:
    return [_each(columns, lambda v, own=own: v[_rows(v, own)]) for own in order.chunk(PARTS)]


def _to_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value


def _column(values: list[Any]) -> Any:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _out_of_band(container: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []
    return pickle.dumps(container, 5, buffer_callback=buffers.append), buffers


def _tensordict(columns: Columns) -> Any:
    from tensordict import NonTensorStack, TensorDict

    fields = {name: v if isinstance(v, Tensor) else NonTensorStack(*v) for name, v in columns.items()}
    return TensorDict(fields, batch_size=[len(next(iter(columns.values())))])


def _dataproto(columns: Columns) -> Any:
    """None where verl is not installed."""
    try:
        from verl import DataProto
    except ImportError:
        return None
    tensors = {name: value for name, value in columns.items() if isinstance(value, Tensor)}
    return DataProto.from_dict(tensors or None, {name: v for name, v in columns.items() if name not in tensors})


def _copied(proto: Any) -> Any:
    """The same data in a new DataProto: some methods of it change it."""
    return type(proto)(proto.batch.copy(), dict(proto.non_tensor_batch), dict(proto.meta_info))
