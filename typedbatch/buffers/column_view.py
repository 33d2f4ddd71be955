"""Access to the columns of a buffer: one by one, and as a batch for code that uses Tianshou's ``buffer._meta``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import finalize

from typedbatch._ops.construct import to_leaf
from typedbatch._tree.kinds import Tree, describe, is_placeholder, leading_shape
from typedbatch._tree.lengths import leaves
from typedbatch.batch import Batch
from typedbatch.buffers import transfer
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import FieldNameError, LeafError, StorageError, StructureError

_states: dict[int, State] = {}
"""State of the buffer by the id of its view, as every attribute of a batch is a field."""


class Column:
    """Descriptor behind ``buffer.obs``: the live column of a field, in slot order. It cannot be assigned to."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, buffer: Any, owner: type) -> Any:
        return self if buffer is None else state_of(buffer).shown(self._name)

    def __set__(self, buffer: object, value: object) -> None:
        name = self._name
        raise FieldNameError(f"buffer.{name} cannot be assigned to; set_array_at_key() and set_batch() write into it")


class Columns(Batch):
    """The batch that :attr:`ReplayBuffer.columns` returns; a column that is assigned to it replaces the buffer's."""

    @classmethod
    def of(cls, state: State) -> Columns:
        """Return a view of the columns of a buffer."""
        columns: Columns = object.__new__(cls)
        columns.__dict__ = state.columns.__dict__
        _states[id(columns)] = state
        finalize(columns, _states.pop, id(columns), None)
        return columns

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name == "__dict__" or id(self) not in _states:
                super().__setattr__(name, value)
            else:
                replace_column(_states[id(self)], name, value)

        def __setitem__(self, index: Any, value: Any) -> None:
            if id(self) not in _states:
                super().__setitem__(index, value)
            elif isinstance(index, str):
                replace_column(_states[id(self)], index, value)
            else:
                raise StructureError("rows are written by add(), set_array_at_key() and set_batch()")

        def __reduce__(self) -> Any:
            return Batch, (self.__dict__.copy(),)


def set_columns(state: State, columns: Any) -> None:
    """Replace and add columns, for code that assigns Tianshou's ``buffer._meta``.

    Raises:
        LeafError: ``columns`` is not a Batch.
        StructureError: ``columns`` lacks a column of the buffer.
    """
    if not isinstance(columns, Tree):
        raise LeafError(f"the columns of a buffer are a Batch, got {describe(columns)}")
    if missing := [name for name in state.columns.__dict__ if name not in columns.__dict__]:
        raise StructureError(f"columns cannot be removed from a buffer, and these lack {', '.join(missing)}")
    for name, value in list(columns.__dict__.items()):
        if value is state.columns.__dict__.get(name):
            continue
        if name in state.columns.__dict__:
            replace_column(state, name, value)
        else:
            transfer.set_array_at_key(state, value, name, None, None)


def replace_column(state: State, name: str, value: Any) -> None:
    """Replace a column; see :attr:`ReplayBuffer.columns`.

    Raises:
        StorageError: The buffer is on disk.
        StructureError: The column does not exist, the new one does not have a row for each slot, or the buffer is a
            ring of another buffer.
    """
    with state.guard.lock:
        if state.durable:
            raise StorageError("columns on disk cannot be replaced; set_array_at_key() writes into them")
        state.require_whole(f"replacing column {name!r}")
        if name not in state.columns.__dict__:
            raise StructureError(
                f"only existing columns can be replaced, got {name!r}; set_array_at_key() adds a column"
            )
        column = to_leaf(value)
        for path, leaf in leaves({name: column}):
            if not is_placeholder(leaf) and leading_shape(leaf)[:1] != (state.rings.size,):
                raise StructureError(f"a column has {state.rings.size} rows, got {describe(leaf)}", path)
        state.columns.__dict__[name] = column
        state.share_columns()
