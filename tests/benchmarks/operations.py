"""Every operation that is timed, beside the floor and the peers, with the bar that its ratio must not exceed."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from typedbatch import Batch, validate

from . import floors, peers
from .data import DataSet, numbers_of
from .floors import Fields

Call = Callable[[], Any]


@dataclass(frozen=True)
class Operation:
    """Calls without arguments, so that calling costs all of them the same; None where a peer has no such operation."""

    name: str
    bar: float | None
    floor: Call
    typedbatch: Call
    tianshou: Call | None = None
    tensordict: Call | None = None
    optree: Call | None = None


def operations(data: DataSet, modules: dict[str, Any]) -> list[Operation]:
    """The table for one data set. ``modules`` are the peers that are installed; the others' calls are never made."""
    d, rows, pieces = data.fields, data.rows, data.pieces
    d2, dt = floors.deepcopy(d), floors.to_torch(d)
    b, b2, bt, batches = _batch(d), _batch(d2), _batch(dt), [_batch(piece) for piece in pieces]

    # The peers' classes, and the same data in them; all None where a peer is absent.
    TSBatch: Any = getattr(modules.get("tianshou"), "Batch", None)
    TensorDict: Any = getattr(modules.get("tensordict"), "TensorDict", None)
    tree_map: Any = getattr(modules.get("optree"), "tree_map", None)
    ts, ts2, ts_torch, ts_pieces = peers.prepare(TSBatch and (lambda fields: TSBatch(**fields)), data)
    td, td2, _, td_pieces = peers.prepare(TensorDict and (lambda fields: peers.tensordict(TensorDict, fields)), data)
    td_rows = peers.tensor_rows(rows)

    n, size, s = len(d["rew"]), 64, slice(64, 192)
    idx, mask = np.random.default_rng(0).integers(0, n, size), d["rew"] > 0
    t_idx, t_mask = torch.from_numpy(idx), torch.from_numpy(mask)
    shuffled = np.random.permutation
    dump, dump_out_of_band = floors.pickled, floors.pickled_out_of_band

    # What is written into: each contender's own.
    w, more = numbers_of(d), numbers_of(d2)
    bw, tsw, bm, tsm = (
        _batch(numbers_of(d)), TSBatch and TSBatch(**numbers_of(d)), _batch(more), TSBatch and TSBatch(**more),
    )  # fmt: skip
    new_row, new_rows, new_at = floors.select(more, 7), floors.select(more, s), floors.select(more, idx)
    own_row, own_rows, own_at = bm[7], bm[s], bm[idx]
    ts_row, ts_rows, ts_at = (tsm and tsm[index] for index in (7, s, idx))
    nothing, rew = floors.zeros(more), more["rew"][:size].copy()
    ts_nothing = TSBatch and TSBatch(**nothing)
    own_nothing = _batch(nothing)

    # fmt: off
    return [
        # name, bar,
        #     floor, typedbatch,
        #     tianshou, tensordict, optree
        Operation("construct", 2.0,
            lambda: floors.construct(d), lambda: Batch(**d),
            lambda: TSBatch(**d), lambda: TensorDict(dt, batch_size=[n]), lambda: tree_map(np.asarray, d)),
        Operation("from 64 dicts", 1.4,
            lambda: floors.from_rows(rows), lambda: Batch(rows),
            lambda: TSBatch(rows), lambda: torch.stack([TensorDict(row) for row in td_rows]),
            lambda: tree_map(lambda *column: floors.join_column(column), *rows)),
        Operation("attribute", 1.3,
            lambda: d["obs"], lambda: b.obs,
            lambda: ts.obs, lambda: td["obs"]),
        Operation("nested attribute", 1.3,
            lambda: d["info"]["t"], lambda: b.info.t,
            lambda: ts.info.t, lambda: td["info", "t"]),
        Operation("integer index", 1.5,
            lambda: floors.select(d, 7), lambda: b[7],
            lambda: ts[7], lambda: td[7], lambda: tree_map(lambda v: v[7], d)),
        Operation("slice", 1.5,
            lambda: floors.select(d, s), lambda: b[s],
            lambda: ts[s], lambda: td[s], lambda: tree_map(lambda v: v[s], d)),
        Operation("index array", 1.25,
            lambda: floors.select(d, idx), lambda: b[idx],
            lambda: ts[idx], lambda: td[t_idx], lambda: tree_map(lambda v: v[idx], d)),
        Operation("mask", None,
            lambda: floors.select(d, mask), lambda: b[mask],
            lambda: ts[mask], lambda: td[t_mask], lambda: tree_map(lambda v: v[mask], d)),
        Operation("iterate over rows", None,
            lambda: list(floors.each_row(d)), lambda: list(iter(b)),
            lambda: list(iter(ts)), lambda: list(iter(td)),
            lambda: [tree_map(lambda v: v[i], d) for i in range(n)]),
        Operation("stack 16", 1.2,
            lambda: floors.stack(pieces), lambda: Batch.stack(batches),
            lambda: TSBatch.stack(ts_pieces), lambda: torch.stack(td_pieces),
            lambda: tree_map(lambda *column: np.stack(column), *pieces)),
        Operation("cat 16", 1.25,
            lambda: floors.cat(pieces), lambda: Batch.cat(batches),
            lambda: TSBatch.cat(ts_pieces), lambda: torch.cat(td_pieces),
            lambda: tree_map(lambda *column: np.concatenate(column), *pieces)),
        Operation("split, shuffled", 1.35,
            lambda: list(floors.split_shuffled(d, size)), lambda: list(b.split(size)),
            lambda: list(ts.split(size)), lambda: [td[i] for i in torch.split(torch.from_numpy(shuffled(n)), size)],
            lambda: [tree_map(lambda v: v[i], d) for i in shuffled(n).reshape(-1, size)]),
        Operation("split, in order", None,
            lambda: list(floors.split(d, size)), lambda: list(b.split(size, shuffle=False)),
            lambda: list(ts.split(size, shuffle=False)), lambda: list(td.split(size)),
            lambda: [tree_map(lambda v: v[i : i + size], d) for i in range(0, n, size)]),
        Operation("to_torch", 1.3,
            lambda: floors.to_torch(d), lambda: b.to_torch(),
            lambda: ts.to_torch(), None, lambda: tree_map(torch.from_numpy, d)),
        Operation("to_numpy", 1.3,
            lambda: floors.to_numpy(dt), lambda: bt.to_numpy(),
            lambda: ts_torch.to_numpy(), lambda: td.numpy(),
            lambda: tree_map(lambda v: v.detach().cpu().numpy(), dt)),
        Operation("copy", 1.5,
            lambda: floors.copy(d), lambda: b.copy(),
            lambda: copy.copy(ts), lambda: td.copy(), lambda: tree_map(lambda v: v, d)),
        Operation("deepcopy", None,
            lambda: floors.deepcopy(d), lambda: copy.deepcopy(b),
            lambda: copy.deepcopy(ts), lambda: td.clone(), lambda: tree_map(lambda v: v.copy(), d)),
        Operation("equality", 1.4,
            lambda: floors.equal(d, d2), lambda: b == b2,
            lambda: ts == ts2, lambda: (td == td2).all()),
        Operation("pickle", 1.15,
            lambda: dump(d), lambda: dump(b),
            lambda: dump(ts)),
        Operation("pickle, out of band", 1.15,
            lambda: dump_out_of_band(d), lambda: dump_out_of_band(b),
            lambda: dump_out_of_band(ts)),
        Operation("pickle of tensors", None,  # beside the floor for arrays: that is what tensors could cost
            lambda: dump(d), lambda: dump(bt),
            lambda: dump(ts_torch), lambda: dump(td)),
        Operation("write a row", 3.0,
            lambda: floors.set_rows(w, 3, new_row), lambda: peers.set_rows(bw, 3, own_row),
            lambda: peers.set_rows(tsw, 3, ts_row)),
        Operation("write a row, a dict", None,
            lambda: floors.set_rows(w, 3, new_row), lambda: peers.set_rows(bw, 3, new_row),
            lambda: peers.set_rows(tsw, 3, new_row)),
        Operation("write a slice", 3.0,
            lambda: floors.set_rows(w, s, new_rows), lambda: peers.set_rows(bw, s, own_rows),
            lambda: peers.set_rows(tsw, s, ts_rows)),
        Operation("write at an array", 3.0,
            lambda: floors.set_rows(w, idx, new_at), lambda: peers.set_rows(bw, idx, own_at),
            lambda: peers.set_rows(tsw, idx, ts_at)),
        Operation("empty_(3)", 3.0,
            lambda: floors.set_zeros(w, 3), lambda: bw.empty_(3),
            lambda: tsw.empty_(3)),
        Operation("set_array_at_key", None,
            lambda: floors.set_column(w, "rew", idx, rew), lambda: peers.set_column(bw, "rew", idx, rew),
            lambda: peers.set_column(tsw, "rew", idx, rew)),
        *(
            Operation(f"{symbol} {name}", None,
                lambda work=work, other=other: floors.in_place(work, w, other),
                lambda work=work, own=own: work(bw, own),
                lambda work=work, theirs=theirs: work(tsw, theirs))
            for symbol, name, work, other, own, theirs in (
                ("+=", "a number", operator.iadd, 0, 0, 0),
                ("*=", "a number", operator.imul, 1, 1, 1),
                ("+=", "a batch", operator.iadd, nothing, own_nothing, ts_nothing),
            )
        ),
        Operation("validate", None,
            lambda: floors.check_rollout(d, data.obs_names), lambda: validate(b, data.schema)),
    ]
    # fmt: on


def _batch(fields: Fields) -> Any:  # Any, so that its fields can be read as attributes
    return Batch(**fields)
