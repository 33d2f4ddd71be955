"""Columns of a buffer as users get them: live, but only replaced in ways that the buffer notices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy import ndarray

from typedbatch._core.kinds import Tree, describe, is_placeholder, leading_shape, write_obstacle
from typedbatch._core.lengths import leaves
from typedbatch._core.meta import FieldsWithMeta
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.batch import Batch
from typedbatch.buffers import transfer
from typedbatch.buffers.arguments import FLAGS
from typedbatch.buffers.columns import same_structure
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import FieldNameError, LeafError, StorageError, StructureError

Path = tuple[str, ...]


class Column:
    """Descriptor behind ``buffer.obs``: the live column of a field, in slot order. It cannot be assigned to."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, buffer: Any, owner: type) -> Any:
        return self if buffer is None else shown(state_of(buffer), self._name)

    def __set__(self, buffer: object, value: object) -> None:
        name = self._name
        if _is_same(state_of(buffer).columns.__dict__.get(name), value):
            return  # the last step of buffer.rew *= 2
        raise FieldNameError(f"buffer.{name} cannot be assigned to; set_array_at_key() and set_batch() write into it")


class LiveFields(FieldsWithMeta):
    """Fields of a batch that shows the columns at a path. Setting a field replaces the column, or raises an error."""

    __slots__ = ("path", "state")

    def __init__(self, state: State, path: Path, columns: Mapping[str, Any]) -> None:
        super().__init__({name: _handed_out(state, (*path, name), column) for name, column in columns.items()}, {})
        self.state: State = state
        self.path: Path = path

    if not TYPE_CHECKING:

        def __setitem__(self, name: str, value: Any) -> None:
            self.update({name: value})

        def update(self, fields: Any) -> None:
            replace_columns(self.state, self.path, fields)
            for name in fields:
                column = _at(self.state, self.path)[name]
                super().__setitem__(name, _handed_out(self.state, (*self.path, name), column))

        def pop(self, name: str, default: Any = None) -> Any:
            return default if name not in self else self._refuse()

        def _refuse(self, *_: Any) -> NoReturn:
            raise StructureError("columns cannot be removed from a buffer; remove them from a copy, buffer[:]")

        __delitem__ = popitem = clear = _refuse


def view(state: State, path: Path = ()) -> Batch:
    """Return the columns of a buffer, or those of a nested batch in them, as a batch with :class:`LiveFields`."""
    out: Batch = object.__new__(Batch)
    object.__setattr__(out, "__dict__", LiveFields(state, path, _at(state, path)))
    return out


def shown(state: State, name: str) -> Any:
    """Return the value of ``buffer.name``; read-only if it is not stored, as with another goal in hindsight."""
    value = state.shown(name)
    if value is state.columns.__dict__[name]:
        return _handed_out(state, (name,), value)
    for _, leaf in leaves({name: value}):
        if type(leaf) is ndarray:
            leaf.flags.writeable = False
    return value


def _handed_out(state: State, path: Path, column: Any) -> Any:
    """Return a column for users: flags are read-only, as ``done`` and the episodes depend on them."""
    if isinstance(column, Tree):
        return view(state, path)
    if ".".join(path) not in FLAGS:
        return column
    if type(column) is not ndarray:
        return column.clone()  # a tensor is never read-only
    flags = column.view()
    flags.flags.writeable = False
    return flags


def _at(state: State, path: Path) -> dict[str, Any]:
    columns: Any = state.columns
    for name in path:
        columns = columns.__dict__.get(name)
        if not isinstance(columns, Tree):
            raise StructureError(f"the buffer does not store a batch {'.'.join(path)!r} any more; read it again")
    fields: dict[str, Any] = columns.__dict__
    return fields


def _is_same(column: Any, value: Any) -> bool:
    """Return whether two batches hold the same columns, or two leaves are the same column."""
    if not (isinstance(column, Tree) and isinstance(value, Tree)):
        return column is value
    one, two = column.__dict__, value.__dict__
    return one.keys() == two.keys() and all(_is_same(one[name], two[name]) for name in one)


def set_columns(state: State, columns: Any) -> None:
    """Replace and add columns, for code that assigns Tianshou's ``buffer._meta``."""
    if not isinstance(columns, Tree):
        raise LeafError(f"the columns of a buffer are a Batch, got {describe(columns)}")
    if missing := [name for name in state.columns.__dict__ if name not in columns.__dict__]:
        raise StructureError(f"columns cannot be removed from a buffer, and these lack {', '.join(missing)}")
    known = {name: value for name, value in columns.__dict__.items() if name in state.columns.__dict__}
    replace_columns(state, (), known)
    for name, value in list(columns.__dict__.items()):
        if name not in known:
            transfer.set_array_at_key(state, value, name, None, None)


def replace_columns(state: State, path: Path, given: Mapping[str, Any]) -> None:
    """Replace columns in the batch at a path, all or none; those that are the same already are skipped."""
    with state.guard.lock:
        columns, new = _at(state, path), dict[str, Any]()
        for name, value in given.items():
            dotted, column = ".".join((*path, name)), to_leaf(value)
            if name in columns and _is_same(columns[name], column):
                continue
            if not path and name in FLAGS and np.array_equal(leaf_to_numpy(columns[name]), leaf_to_numpy(column)):
                continue
            if not path:
                transfer.require_no_flag(name)
            if state.durable:
                raise StorageError("columns on disk cannot be replaced; set_array_at_key() writes into them")
            state.require_whole(f"replacing column {dotted!r}")
            if name not in columns:
                way = "rows that have it add a column" if path else "set_array_at_key() of the buffer adds a column"
                raise StructureError(f"only existing columns can be replaced, got {dotted!r}; {way}")
            for where, leaf in leaves({dotted: column}):
                if is_placeholder(leaf):
                    continue
                if leading_shape(leaf)[:1] != (state.rings.size,):
                    raise StructureError(f"a column has {state.rings.size} rows, got {describe(leaf)}", where)
                if obstacle := write_obstacle(leaf):
                    raise StructureError(f"rows are written into a column, and {obstacle}; pass a copy", where)
            new[name] = same_structure(column) if isinstance(column, Tree) else column
        if new:
            columns.update(new)
            state.share_columns()
