"""Columns: room for the values of some steps of several environments, which lie as a rollout has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy import ndarray

from typedbatch._ops.construct import to_leaf
from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, NONE, TENSOR, Tree, describe, mask_obstacle, new_tree
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, StructureError, TypedBatchError
from typedbatch.training.widening import common_dtype, require_same_shape


class _Nothing:
    """Stands where ``None`` came in every step."""


_NOTHING: Final = _Nothing()


class Columns:
    """The values of one field, or of a batch of fields, in each step: ``(environments, steps, ...)``.

    Laid out by the first step; what is written is copied. A column gets a wider dtype where a later step needs one.

    Args:
        envs: how many environments.
        steps: how many steps there is room for.
        late: whether values, or fields of them, may come in later steps only; they are zero before.
    """

    def __init__(self, envs: int, steps: int, *, late: bool = False) -> None:
        self._envs, self._steps, self._late = envs, steps, late
        self._room: Any = None
        self._shape: tuple[int, ...] = ()
        """That of the values of a step, where the room is a single array."""

    def write(self, step: int, value: Any) -> None:
        """Take over the values of one step.

        Raises:
            StructureError: there is not a row for each environment, or other shapes or fields than in the steps before.
            LeafError: there are no columns for such a value, or no dtype holds it and the values of before unchanged.
        """
        room = self._room
        if (
            type(value) is ndarray
            and type(room) is ndarray
            and value.dtype is room.dtype
            and value.shape == self._shape
        ):
            room[:, step] = value
            return
        if room is None or (room is _NOTHING and self._late):
            room = self._made(value)
        self._room = room = self._written(room, step, value)
        if type(room) is ndarray:
            self._shape = (self._envs, *room.shape[2:])

    @property
    def laid_out(self) -> bool:
        """Whether anything was written."""
        return self._room is not None and self._room is not _NOTHING

    def flat(self, steps: int, rows: Any = None) -> Any:
        """Return what was written in the first so many steps, all rows of it, or some.

        Args:
            steps: how many steps.
            rows: which rows of ``(environments * steps, ...)``; None for all.
        """
        room = self._room
        if type(room) is ndarray and rows is None and steps == self._steps:
            return room.reshape(-1, *room.shape[2:])
        return _flat(room, steps, rows)

    def _made(self, value: Any) -> Any:
        if isinstance(value, (tuple, Mapping, Tree)):
            made: dict[str, Any] = {}
            for name, part in _parts(value):
                try:
                    made[name] = self._made(part)
                except TypedBatchError as error:
                    raise error.under(name) from error.__cause__
            return new_tree(type(value) if isinstance(value, Tree) else Batch, made)
        leaf = to_leaf(value)
        kind = KINDS[type(leaf)]
        if kind is NONE:
            return _NOTHING
        if kind not in (ARRAY, TENSOR):
            raise LeafError(f"a row for each of {self._envs} environments is expected, got {describe(leaf)}")
        if not leaf.ndim or leaf.shape[0] != self._envs:
            raise StructureError(f"a row for each of {self._envs} environments is expected, got {describe(leaf)}")
        if obstacle := mask_obstacle(leaf):
            raise LeafError(obstacle)
        shape = (self._envs, self._steps, *leaf.shape[1:])
        if self._late:
            return zeros_of(leaf, shape)
        return leaf.new_empty(shape) if kind is TENSOR else np.empty(shape, leaf.dtype)

    def _written(self, room: Any, step: int, value: Any) -> Any:
        """Return the room with the values of a step in it; another one, if it has to be wider."""
        if isinstance(room, Tree):
            self._write_parts(room, step, value)
            return room
        if type(value) is ndarray and type(room) is ndarray and value.dtype is room.dtype:
            require_same_shape((self._envs, *room.shape[2:]), value)
            room[:, step] = value
            return room
        leaf = None if value is None or isinstance(value, (tuple, Mapping, Tree)) else to_leaf(value)
        if room is _NOTHING and value is None:
            return room
        if room is _NOTHING or KINDS[type(leaf)] is not KINDS[type(room)]:
            before = "None" if room is _NOTHING else describe(room[:, 0])
            raise StructureError(f"{before} was here in the steps before, got {describe(value)}")
        require_same_shape((self._envs, *room.shape[2:]), leaf)
        dtype = common_dtype(room[:, :step], leaf)
        if dtype != room.dtype:
            room = _widened(room, step, dtype)
        room[:, step] = leaf
        return room

    def _write_parts(self, room: Tree, step: int, value: Any) -> None:
        if not isinstance(value, (tuple, Mapping, Tree)):
            raise StructureError(
                f"a batch of {', '.join(room.__dict__)} was here in the steps before, got {describe(value)}"
            )
        parts = dict(_parts(value))
        for name in room.__dict__:
            if name not in parts:
                raise StructureError("it was there in the steps before, and is not in this one", name)
        for name, part in parts.items():
            if name not in room.__dict__ and not self._late:
                raise StructureError("it was not there in the steps before", name)
            try:
                if name not in room.__dict__:
                    room.__dict__[name] = self._made(part)
                room.__dict__[name] = self._written(room.__dict__[name], step, part)
            except TypedBatchError as error:
                raise error.under(name) from error.__cause__


def zeros_of(leaf: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros, or ``None``, with the dtype of a leaf, an array or a tensor."""
    if KINDS[type(leaf)] is TENSOR:
        return leaf.new_zeros(shape)
    return np.full(shape, None, object) if leaf.dtype.hasobject else np.zeros(shape, leaf.dtype)


def _widened(room: Any, steps: int, dtype: Any) -> Any:
    """Return the same room of another dtype; what is behind the steps so far is zero."""
    if KINDS[type(room)] is TENSOR:
        wide = room.new_zeros(room.shape, dtype=dtype)
    else:
        wide = np.zeros(room.shape, dtype)
    wide[:, :steps] = room[:, :steps]
    return wide


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        value = {str(place): part for place, part in enumerate(value)}
    return iter((value.__dict__ if isinstance(value, Tree) else value).items())


def _flat(room: Any, steps: int, rows: Any) -> Any:
    kind = KINDS[type(room)]
    if kind is BATCH:
        return new_tree(type(room), {name: _flat(part, steps, rows) for name, part in room.__dict__.items()})
    if room is None or room is _NOTHING:
        return None
    whole = room[:, :steps].reshape(room.shape[0] * steps, *room.shape[2:])
    return whole if rows is None else whole[rows]
