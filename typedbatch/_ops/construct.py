"""Construction: conversion of values to leaves, and of the constructor's arguments to fields."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.declaration import object_fields
from typedbatch._core.foreign_batches import bridge_from, full_name
from typedbatch._core.kinds import KINDS, Kind, Tree, describe, is_masked, kind_of, new_tree, object_array
from typedbatch._core.meta import as_meta, meta_of, set_meta
from typedbatch._ops.combine import (
    CALLED_ON_BATCHES,
    DATES,
    join_masked,
    keeps_whole_numbers,
    require_names,
    require_same_dates,
    stack_fields,
)
from typedbatch._ops.copying import shallow
from typedbatch._ops.joined_meta import joined_meta
from typedbatch.errors import FieldNameError, LeafError, StructureError, TypedBatchError

if TYPE_CHECKING:
    from typedbatch.schema.column import Column

T = TypeVar("T")


def to_leaf(value: Any) -> Any:
    """Return the leaf that ``value`` is stored as.

    ========================================== ====================================================
    given                                      stored
    ========================================== ====================================================
    array or tensor, ``Batch``, ``None``       the very same object, nothing is copied
    number, bool, numpy scalar                 0-d array
    ``dict`` (any mapping)                     ``Batch``, recursively
    list or tuple of dicts, Batches            one stacked ``Batch``
    list or tuple of tensors                   ``torch.stack`` of them
    list or tuple with a masked array in it    masked array
    other list, tuple, range                   numeric array; else object array, values untouched
    array of text                              object array
    object array                               the very same object, whatever it holds
    text, set, function, distribution ...      the very same object
    ========================================== ====================================================
    """
    convert = _CONVERT.get(KINDS[type(value)])
    return value if convert is None else convert(value)


def objects(values: Iterable[T]) -> Column[T]:
    """Return a column of Python objects that are never converted: ``Batch(messages=objects(lists_of_messages))``.

    As a field it stays a column, whatever it holds: dicts of different keys, lists of different lengths. Its rows can
    be taken and joined; the objects in them are shared.

    Args:
        values: One object for each row.

    Returns:
        A new 1-d array of dtype ``object`` with these very objects. Type checkers know the type of its items.

    Raises:
        LeafError: ``values`` is not iterable, or is a text or dict, each of which is one object.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise LeafError(f"objects() takes a list of values, one for each row, got {describe(values)}")
    column: Any = object_array(values if isinstance(values, Sequence) else list(values))
    return column  # type: ignore[no-any-return]  # Column is the type of such arrays for type checkers alone


def fill(target: dict[str, Any], fields: Mapping[str, Any], owner: type | None = None) -> None:
    """Convert every value of ``fields`` and store it in ``target``, a new dict; after an error it holds some of them.

    A list or tuple for a field that the class ``owner`` declares as objects becomes a column of objects.
    """
    if not CALLED_ON_BATCHES.isdisjoint(fields):
        require_names(fields)
    name: object = ""
    try:
        for name, value in fields.items():
            cls = type(value)
            if cls is ndarray and value.dtype.num < 17:  # bool to clongdouble, which need no conversion
                target[name] = value
            elif cls is dict:
                target[name] = _from_mapping(value)
            else:
                convert = _CONVERT.get(KINDS[cls])
                if convert is _from_sequence and owner is not None and name in object_fields[owner]:
                    convert = object_array
                target[name] = value if convert is None else convert(value)
    except TypedBatchError as error:
        raise error.under(str(name)) from error.__cause__


def set_fields(target: dict[str, Any], fields: Mapping[str, Any], owner: type) -> None:
    """Convert every value of ``fields`` and store it in ``target``, the fields of a batch of class ``owner``.

    After an error ``target`` is unchanged.
    """
    converted: dict[str, Any] = {}
    fill(converted, fields, owner)
    require_names(converted)
    target.update(converted)


def fields_from(data: object) -> Mapping[str, Any]:
    """Return the fields given by the constructor's first argument."""
    if isinstance(data, Tree):
        return shallow(data).__dict__
    if isinstance(data, Mapping) and kind_of(data) is not kinds.TENSORDICT:
        require_names(data)
        return data
    given: Any = data
    if kind_of(given) is kinds.SEQUENCE or (kind_of(given) is kinds.ARRAY and given.ndim):
        rows = list(given)
        if all(kind_of(row) in (kinds.BATCH, kinds.MAPPING) for row in rows):
            return stacked(rows)
    bridge = bridge_from(data)
    got = full_name(data) if bridge else describe(data)
    hint = f"{bridge}(data) converts it" if bridge else "name the field: Batch(obs=...)"
    raise LeafError(f"Batch() takes a dict, a Batch or a list of these, got {got}; {hint}")


def stacked(rows: Sequence[Any]) -> dict[str, Any]:
    """Stack dicts and Batches, one per row, into fields; where a row lacks a field, it gets zeros (``None``)."""
    return stack_fields(rows, 0, "pad", to_leaf) if rows else {}


def require_flag(copy: object) -> None:
    """Raise an error unless the argument ``copy`` is True."""
    if copy is not True:
        raise LeafError(
            f"copy= must be True or False, got {describe(copy)}; for a field of that name write Batch({{'copy': ...}})"
        )


def give_meta(tree: Tree, data: object, meta: Any) -> None:
    """Set the meta of a new batch to ``meta``, or for None to the meta of the batch or batches in ``data``."""
    if meta is not None:
        found = as_meta(meta)
    elif isinstance(data, Tree):
        found = dict(meta_of(data))
    else:
        rows: Any = data if kind_of(data) in (kinds.SEQUENCE, kinds.ARRAY) else ()
        found = joined_meta([row.__dict__ if isinstance(row, Tree) else row for row in rows], None)
    if found:
        set_meta(tree, found)


def refuse_on_instances(cls: type, *names: str) -> None:
    """Let methods of a class that make a new object raise a FieldNameError if they are called on an instance.

    This is not a decorator, because type checkers treat only their own class methods and static methods as such.
    """
    for name in names:
        member = cls.__dict__[name]
        setattr(cls, name, _WRAPPERS[type(member)](member.__func__))


class _ClassMethod(classmethod):  # type: ignore[type-arg]  # the arguments are those of any method
    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        return partial(_refuse, self, instance) if instance is not None else super().__get__(None, owner)


class _StaticMethod(staticmethod):  # type: ignore[type-arg]  # the arguments are those of any method
    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        return partial(_refuse, self, instance) if instance is not None else self.__func__


_WRAPPERS: dict[type, Any] = {classmethod: _ClassMethod, staticmethod: _StaticMethod}


def _refuse(method: Any, instance: object, /, *_: Any, **__: Any) -> None:
    name, owner = method.__name__, type(instance).__name__
    raise FieldNameError(
        f"{name}() makes a new {owner}, and would leave this one as it is; call it on the class: {owner}.{name}(...)"
    )


def pairs_to_fields(data: object) -> Mapping[str, Any]:
    """Return the argument of ``update`` as fields: a Batch, a mapping, or an iterable of ``(name, value)`` pairs."""
    if kind_of(data) is kinds.BATCH:
        return data.__dict__
    if isinstance(data, Mapping):
        return data if kind_of(data) is not kinds.TENSORDICT else _from_tensordict(data)
    try:
        return dict(iter(data))  # type: ignore[call-overload]  # Anything that is not iterable raises TypeError.
    except (TypeError, ValueError):
        raise LeafError(f"update() takes a Batch, a dict or (name, value) pairs, got {describe(data)}") from None


def _from_mapping(value: Mapping[str, Any]) -> Tree:
    for name in value:
        if type(name) is not str:
            require_names(value)
    tree = object.__new__(Tree.__plain__)
    fill(tree.__dict__, value)
    return tree


def _from_tensordict(value: Any) -> NoReturn:
    raise LeafError(f"a batch does not store a {full_name(value)}; {bridge_from(value)}(...) converts it to a Batch")


def _from_array(array: NDArray[Any]) -> Any:
    return array.astype(object) if array.dtype.kind in "US" else array


def _from_sequence(values: Sequence[Any]) -> Any:
    found = {KINDS[cls] for cls in set(map(type, values))}  # a kind for each class, as lists have many elements
    if kinds.TENSORDICT in found:
        _from_tensordict(next(value for value in values if kind_of(value) is kinds.TENSORDICT))
    if found and found <= {kinds.MAPPING, kinds.BATCH}:
        return new_tree(Tree.__plain__, stacked(values))
    if found == {kinds.TENSOR}:
        try:
            return sys.modules["torch"].stack(tuple(values))
        except (RuntimeError, TypeError) as error:
            raise LeafError(
                f"a list of tensors is stacked, but {_shapes(values)} do not stack; to store each by itself, "
                f"name them, as in {{'h': h, 'c': c}}; {error}"
            ) from error
    if kinds.ARRAY in found and any(map(is_masked, values)):
        try:
            return join_masked(np.stack, [value if is_masked(value) else np.asarray(value) for value in values], 0)
        except StructureError as error:
            raise LeafError(f"a list of masked arrays is stacked, but {_shapes(values)} do not stack") from error
    if not found.isdisjoint({kinds.MAPPING, kinds.BATCH, kinds.RAGGED}):  # numpy would try to convert their contents.
        return object_array(values)
    return to_array(values)


def to_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return a list without dicts, Batches and tensors as a numeric array, or of objects if a value would change."""
    try:
        array: NDArray[Any] = np.asanyarray(values)
        if array.dtype.num in DATES:
            require_same_dates(values, array)
        if array.dtype.kind not in "US" and keeps_whole_numbers(values, array):
            return array
    except (ValueError, OverflowError):  # The lists differ in length, or dates are too far apart for one unit.
        pass
    except (TypeError, RuntimeError) as error:  # A tensor is on a GPU, has a gradient, or a dtype that numpy lacks.
        raise LeafError(f"a list of {_shapes(values)} cannot become an array: {error}") from error
    try:  # With dtype object, 1 stays a number in (1, "a").
        return np.array(values, dtype=object)
    except ValueError as error:
        raise LeafError(
            f"a list of {_shapes(values)} can become neither a numeric array nor an object array; give all one shape"
        ) from error


def _shapes(values: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(describe(value) for value in values))


_CONVERT: dict[Kind, Callable[[Any], Any]] = {
    kinds.ARRAY: _from_array,
    kinds.NUMBER: np.asanyarray,
    kinds.SCALAR: np.asanyarray,
    kinds.MAPPING: _from_mapping,
    kinds.SEQUENCE: _from_sequence,
    kinds.TENSORDICT: _from_tensordict,
}
