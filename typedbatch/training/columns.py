"""Columns: room for the values of some steps of several environments, which lie as a rollout has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from typedbatch._ops.construct import to_leaf
from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, NONE, TENSOR, Tree, describe, new_tree
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, StructureError, TypedBatchError


class Columns:
    """The values of one field, or of a batch of fields, in each step: ``(environments, steps, ...)``.

    Laid out by the first step; what is written is copied.

    Args:
        envs: how many environments.
        steps: how many steps there is room for.
        late: whether values, or fields of them, may come in later steps only; they are zero before.
    """

    def __init__(self, envs: int, steps: int, *, late: bool = False) -> None:
        self._envs, self._steps, self._late = envs, steps, late
        self._room: Any = None

    def write(self, step: int, value: Any) -> None:
        """Take over the values of one step.

        Raises:
            StructureError: there is not a row for each environment, or they are of another kind than those of before.
            LeafError: there are no columns for such a value.
        """
        if type(value) is ndarray and type(self._room) is ndarray:
            self._room[:, step] = value
            return
        if self._room is None:
            self._room = self._made(value)
        _write(self._room, step, value, self._made if self._late else None)

    @property
    def laid_out(self) -> bool:
        """Whether anything was written."""
        return self._room is not None

    def flat(self, steps: int, rows: Any = None) -> Any:
        """What was written in the first so many steps: ``(environments * steps, ...)``, or the rows of that at some."""
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
            return None
        if kind not in (ARRAY, TENSOR):
            raise LeafError(f"a row for each of {self._envs} environments is expected, got {describe(leaf)}")
        if not leaf.ndim or leaf.shape[0] != self._envs:
            raise StructureError(f"a row for each of {self._envs} environments is expected, got {describe(leaf)}")
        shape = (self._envs, self._steps, *leaf.shape[1:])
        if self._late:
            return zeros_of(leaf, shape)
        return leaf.new_empty(shape) if kind is TENSOR else np.empty(shape, leaf.dtype)


def zeros_of(leaf: Any, shape: tuple[int, ...]) -> Any:
    """Zeros, or ``None``, with the dtype of a leaf, an array or a tensor."""
    if KINDS[type(leaf)] is TENSOR:
        return leaf.new_zeros(shape)
    return np.full(shape, None, object) if leaf.dtype.hasobject else np.zeros(shape, leaf.dtype)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        value = {str(place): part for place, part in enumerate(value)}
    return iter((value.__dict__ if isinstance(value, Tree) else value).items())


def _write(room: Any, step: int, value: Any, made: Callable[[Any], Any] | None) -> None:
    if isinstance(room, Tree):
        for name, part in _parts(value):
            try:
                if made is not None and name not in room.__dict__:
                    room.__dict__[name] = made(part)
                _write(room.__dict__[name], step, part, made)
            except KeyError:
                raise StructureError("it was not there in the first step", name) from None
            except TypedBatchError as error:
                raise error.under(name) from error.__cause__
    elif room is not None:
        try:
            room[:, step] = value
        except (TypeError, ValueError, RuntimeError) as error:
            raise StructureError(f"{describe(value)} does not fit the steps of before: {error}") from error


def _flat(room: Any, steps: int, rows: Any) -> Any:
    kind = KINDS[type(room)]
    if kind is BATCH:
        return new_tree(type(room), {name: _flat(part, steps, rows) for name, part in room.__dict__.items()})
    if room is None:
        return None
    whole = room[:, :steps].reshape(room.shape[0] * steps, *room.shape[2:])
    return whole if rows is None else whole[rows]
