"""Rows that are added to a buffer: the ways to add them, and their checks and conversion.

====================================  =================================  =========================================
Rows                                  Call                               Function
====================================  =================================  =========================================
one row                               ``add(row)``                       ``add_one``, with Python numbers
one for each ring, or for some rings  ``add(rows)``, ``add(rows, ids)``  ``add_many``, the same step in each
several, in a buffer of one ring      ``extend(rows)``                   ``add_rows``, in order of time
any number for each ring              ``extend(rows, ids)``              ``add_rows``, sorted by ring
some for each cache                   ``extend`` of a cached buffer      ``add_many`` for rows of different caches
rows of another buffer                ``update(buffer)``                 ``transfer.move``, ring by ring
all rows, in place of the others      ``set_batch(rows)``                ``transfer.set_batch``
====================================  =================================  =========================================
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Tree, describe, leading_shape, mask_obstacle, new_tree, object_array
from typedbatch._core.lengths import require_tree
from typedbatch._core.level import current_level
from typedbatch._ops.conversion import leaf_to_numpy, map_leaves
from typedbatch.buffers.columns import Fields, Lead, Plan, writes_unchanged
from typedbatch.buffers.rings import Added, Slots
from typedbatch.errors import LeafError, MissingFieldError, RowAssignmentError, StructureError

if TYPE_CHECKING:
    from typedbatch.buffers.state import State

REQUIRED = ("obs", "act", "rew", "terminated", "truncated")
_ONLY = slice(0, 1)
_TRUE, _FALSE, _BOOL = np.array(True), np.array(False), np.dtype(bool)


def add_one(state: State, plan: Plan, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
    """Add a row to a buffer of one ring."""
    guard, rollback = state.guard, state.make_rollback(_ONLY)
    try:  # hot path: what ``transaction`` does, inlined
        guard.unfinished.append(rollback)
        if state.durable:
            state.begin_overwrite(_ONLY)
        plan.write(state.rings.insertion.item(0))
        added = state.rings.advance_one(rew, done.item())
        state.on_rows_written(added.slots)
        guard.unfinished.pop()
    except BaseException:
        guard.abandoned = True
        guard.rollback_unfinished()
        raise
    return added


def add_rows(state: State, batch: Any, ids: Any, rows: int) -> Added:
    """Check rows, at least one, and add them to the rings ``ids``; ``slice(None)`` is one row in each ring."""
    plan, rew, done = check_rows(state, batch, (rows,))
    if len(state.rings.capacity) == 1 and 1 < rows <= state.rings.size:
        return state.transaction(state.make_rollback(_ONLY, rows), _write_run, state, plan, rew, done)
    if isinstance(ids, ndarray) and (rows > len(state.rings.capacity) or len(set(ids.tolist())) < rows):
        counts = np.bincount(ids, minlength=len(state.rings.capacity))
        stored = np.minimum(counts, state.rings.capacity)
        rollback = state.make_rollback(slice(None), stored)
        return state.transaction(rollback, _write_block, state, plan, ids, counts, stored, rew, done)
    return add_many(state, plan, ids, rew, done)


def add_many(state: State, plan: Plan, ids: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
    """Add one row to each of the rings ``ids``, which must be different."""
    return state.transaction(state.make_rollback(ids), _write_many, state, plan, ids, rew, done)


def _write_many(state: State, plan: Plan, ids: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
    state.begin_overwrite(ids)
    target = state.rings.target(ids)
    plan.write(target)
    added = state.rings.advance(ids, target, rew, done)
    state.on_rows_written(added.slots)
    return added


def _write_run(state: State, plan: Plan, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
    """Write rows to a buffer of one ring, at most as many as it has slots."""
    state.begin_overwrite(_ONLY, len(rew))
    first = state.rings.insertion.item()
    added = state.rings.advance_run(rew, done)
    stop = first + len(rew)
    plan.write(slice(first, stop) if stop <= state.rings.size else added.slots)
    state.on_rows_written(added.slots)
    return added


def _write_block(
    state: State, plan: Plan, ids: Slots, counts: Slots, stored: Slots, rew: NDArray[Any], done: NDArray[np.bool_]
) -> Added:
    """Write any number of rows to each ring; of more rows than its capacity, the last ones are stored."""
    state.begin_overwrite(slice(None), stored)
    order = ids.argsort(kind="stable")
    ids = ids[order]
    added = state.rings.advance_block(ids, rew[order], done[order])
    last = np.flatnonzero(np.arange(len(ids)) >= (np.cumsum(counts) - stored)[ids])  # rows within the capacity
    slots = added.slots[last]
    plan.part(order[last]).write(slots)
    state.on_rows_written(slots)
    back = order.argsort()
    return Added(*(column[back] for column in added))


def ring_ids(rings: int, buffer_ids: Any) -> tuple[Any, int]:
    """Return an index of the rings that get a row each, all without ``buffer_ids``, and the number of rows."""
    if buffer_ids is None:
        return slice(None), rings
    try:
        ids = np.asarray(buffer_ids)
    except ValueError as error:
        raise StructureError(f"buffer_ids is a list of ring numbers, one for each row, got {buffer_ids!r}") from error
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise StructureError(f"buffer_ids is a list of ring numbers, one for each row, got {buffer_ids!r}")
    rows: NDArray[np.intp] = ids.astype(np.intp, copy=False)
    if rows.size and rows.view(np.uintp).max() >= rings:  # as unsigned, negative numbers are the largest
        raise StructureError(f"there are rings 0 to {rings - 1}, got buffer_ids {ids.tolist()}")
    return rows, len(rows)


def ids_of_rows(rings: int, batch: Any, buffer_ids: Any) -> NDArray[np.intp]:
    """Return the number of the ring of each row of a batch. In a buffer of one ring, ``buffer_ids`` is optional."""
    require_tree(batch, "extend()")
    rew = batch["rew"]
    if not leading_shape(rew):
        raise RowAssignmentError(f"extend() takes rows, got {describe(rew)}; add() takes a single one", "rew")
    rows = leading_shape(rew)[0]
    if buffer_ids is None:
        if rings > 1:
            text = f"a buffer of {rings} rings needs the ring of each of {rows} rows, got none; pass buffer_ids="
            raise StructureError(text)
        return np.zeros(rows, np.intp)
    ids, count = ring_ids(rings, buffer_ids)
    if count != rows:
        raise StructureError(f"buffer_ids needs one ring number for each of {rows} rows, got {count}")
    numbers: NDArray[np.intp] = ids
    return numbers


def check_rows(state: State, batch: Any, lead: Lead) -> tuple[Plan, NDArray[Any], NDArray[np.bool_]]:
    """Check rows, and return the pending writes, the rewards and the ``done`` flags.

    This is a hot path. If the rows have every field, all stored unchanged, nothing is left to normalize or validate.
    """
    is_plain = isinstance(batch, Tree) and state.stores_all and current_level() != "values"
    rows, columns, simple = batch.__dict__ if is_plain else {}, state.columns.__dict__, state.simple_columns(lead)
    is_whole = len(rows) + 1 == len(columns) == len(simple) and "done" not in rows
    if is_whole and (writes := writes_unchanged(simple, rows)):
        done = _done(rows["terminated"], rows["truncated"], lead)
        writes.append((columns["done"], done))
        return Plan(lead, writes), rows["rew"], done
    fields, done, rew = normalize_rows(state, batch, lead)
    return state.plan(batch, fields, lead), rew, done


def _done(terminated: Any, truncated: Any, lead: Lead) -> NDArray[np.bool_]:
    """Return whether an episode ends at each row, of flags that are bools."""
    if not lead:  # in numpy this would take as long as everything else for the row
        return _TRUE if terminated.item() or truncated.item() else _FALSE
    if type(terminated) is type(truncated) is ndarray:
        return terminated | truncated
    return np.asarray(leaf_to_numpy(terminated) | leaf_to_numpy(truncated))


def normalize_rows(state: State, batch: Any, lead: Lead) -> tuple[Fields, NDArray[np.bool_], NDArray[Any]]:
    """Return the fields of a batch that are stored, its ``done`` flags, and its rewards as an array."""
    if not isinstance(batch, Tree):
        raise LeafError(f"add() takes a Batch, got {describe(batch)}")
    fields = batch.__dict__.copy()
    try:
        _, _, rew, terminated, truncated = (
            fields["obs"], fields["act"], fields["rew"], fields["terminated"], fields["truncated"]
        )  # fmt: skip
    except KeyError as error:
        raise MissingFieldError(type(batch).__name__, str(error.args[0]), fields) from None
    if not (type(terminated) is ndarray and terminated.dtype is _BOOL and terminated.shape == lead):
        terminated = fields["terminated"] = flags(terminated, "terminated", lead, single=np.ndim(rew) == 0)
    if not (type(truncated) is ndarray and truncated.dtype is _BOOL and truncated.shape == lead):
        truncated = fields["truncated"] = flags(truncated, "truncated", lead, single=np.ndim(rew) == 0)
    done = _done(terminated, truncated, lead)
    fields["done"] = done
    if not (type(rew) is ndarray and rew.dtype.kind == "f"):
        rew = fields["rew"] = _rewards(rew)
    if state.save_only_last_obs:
        for name in {"obs", "obs_next"} & fields.keys():
            fields[name] = _last_frame(fields[name], name, lead)
    if not state.save_obs_next:
        fields.pop("obs_next", None)
        warn_if_truncated(terminated, truncated)
    return fields, done, rew if type(rew) is ndarray else leaf_to_numpy(rew)


def warn_if_truncated(terminated: Any, truncated: Any) -> None:
    """Warn if a row is truncated, for buffers without ``obs_next``."""
    if (leaf_to_numpy(truncated) > leaf_to_numpy(terminated)).any():
        text = "with ignore_obs_next=True, obs_next of a truncated row is not stored, and obs of the same row is read "
        text += "instead, so values at time limits are wrong; leave the option out to store obs_next"
        warnings.warn(text, UserWarning, stacklevel=4)


def single_row(state: State, batch: Any) -> Any:
    """Add a row dimension to a batch that is a single row without one; return any other batch as it is."""
    if not isinstance(batch, Tree) or np.ndim(batch.__dict__.get("rew", ())) != 0:
        return batch
    fields = state.declaration().wrapped(batch).__dict__
    return new_tree(type(batch), {name: as_row(value) for name, value in fields.items()})


def as_row(value: Any) -> Any:
    """Add a leading row dimension to the value of a single row."""
    kind = KINDS[type(value)]
    if kind is kinds.BATCH:
        return new_tree(type(value), {name: as_row(inner) for name, inner in value.__dict__.items()})
    if kind in (kinds.ARRAY, kinds.TENSOR, kinds.RAGGED, kinds.DISTRIBUTION):
        return value[None]
    return value.reshape(1) if kind is kinds.SCALAR else object_array([value])


def flags(value: Any, name: str, lead: Lead, *, single: bool = False) -> Any:
    """Return the flags of the rows as bools, without trailing dimensions of size 1.

    If ``single`` is set, the other fields are those of a single row, and ``[False]`` is accepted as its flag.
    """
    kind = KINDS[type(value)]
    if kind is kinds.TENSOR:
        value = value.detach()
    elif kind not in (kinds.ARRAY, kinds.SCALAR) or value.dtype.kind not in "biuf":
        raise RowAssignmentError(f"a flag is a bool, got {describe(value)}", name)
    elif obstacle := mask_obstacle(value):
        raise RowAssignmentError(obstacle, name)
    if not ((value == 0) | (value == 1)).all():
        raise RowAssignmentError(f"a flag is a bool, 0 or 1, and some of {describe(value)} are not", name)
    value = value.bool() if kind is kinds.TENSOR else np.asarray(value, bool)
    trailing = tuple(value.shape[len(lead) :])
    if value.shape[: len(lead)] == lead and trailing and set(trailing) == {1} and (lead or single):
        value = value.reshape(lead)
    if value.shape != lead:
        wanted = f"a flag for each of {lead[0]} rows" if lead else "one flag, without dimensions,"
        hint = "" if lead or value.ndim != 1 else f"; pass buffer_ids=[0] * {len(value)} to add {len(value)} rows"
        raise RowAssignmentError(f"{wanted} is expected, got {describe(value)}{hint}", name)
    return value


def _rewards(value: Any) -> Any:
    """Return rewards, which must be real numbers, as a floating array or tensor."""
    kind = KINDS[type(value)]
    if kind is kinds.TENSOR and not value.is_complex():
        return value.detach() if value.is_floating_point() else value.double()
    if kind not in (kinds.ARRAY, kinds.SCALAR) or value.dtype.kind not in "biuf":
        raise RowAssignmentError(f"a reward is a number, got {describe(value)}", "rew")
    if obstacle := mask_obstacle(value):
        raise RowAssignmentError(obstacle, "rew")
    return np.asarray(value) if value.dtype.kind == "f" else np.asarray(value, np.float64)


def _last_frame(obs: Any, name: str, lead: Lead) -> Any:
    """Return the last frame of each observation."""
    axis = len(lead)

    def last(leaf: Any) -> Any:
        if KINDS[type(leaf)] not in (kinds.ARRAY, kinds.TENSOR) or leaf.ndim <= axis:
            raise RowAssignmentError(f"save_only_last_obs takes frames, (frames, *obs), got {describe(leaf)}", name)
        return leaf[:, -1] if axis else leaf[-1]

    return map_leaves(obs, last) if KINDS[type(obs)] is kinds.BATCH else last(obs)
