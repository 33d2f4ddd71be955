"""Conversion of TensorDicts and tensorclasses. Needs the extra ``tensordict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import torch
from tensordict import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    is_tensor_collection,
    is_tensorclass,
)
from tensordict.utils import LinkedList

from typedbatch._core.depth import require_depth
from typedbatch._core.kinds import KINDS, Kind, Tree, describe, is_objects, leading_shape, new_tree, object_array
from typedbatch._core.lengths import equal_rows, leaves, require_at_least, require_bounded
from typedbatch._core.meta import meta_of, set_meta
from typedbatch._ops.conversion import torch_side
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, SizeError, StructureError, TypedBatchError, under
from typedbatch.ragged import Ragged

T = TypeVar("T")
_META: Final = "meta"


def to_tensordict(batch: Any, batch_size: Sequence[int] | None = None) -> TensorDict:
    """Convert a batch to a TensorDict. Arrays become tensors on the same memory.

    A ``Ragged`` becomes a TensorDict of jagged tensors, and :func:`from_tensordict` makes one of it again. Object
    arrays become a ``NonTensorStack`` of their elements, so that they are indexed with the rest. Text, ``None`` and
    other objects become a ``NonTensorData``. The meta does too, under the name ``meta``.

    Args:
        batch: Any batch.
        batch_size: The dimensions that all fields share, or None for the rows, ``[len(batch)]``.

    Raises:
        LeafError: a field is a distribution or an array of dates, which TensorDicts cannot hold; the error names it.
        StructureError: fields have different lengths or lack dimensions of ``batch_size``, or batches are nested more
            than 100 deep.
        NoLengthError: a field is a scalar, and ``batch_size`` was not passed.
        SizeError: ``batch_size`` is not a list of whole numbers.
    """
    tree = require_bounded(batch, "to_tensordict()")
    if batch_size is None:
        return _tensordict(tree, torch.Size([equal_rows(_with_rows(tree))]))
    if not isinstance(batch_size, Sequence):
        raise SizeError(f"batch_size must be a list of whole numbers, got {batch_size!r}")
    return _tensordict(tree, torch.Size([require_at_least(0, size, "batch_size") for size in batch_size]))


def from_tensordict(data: Any) -> Batch:
    """Convert a TensorDict or tensorclass to a batch with the same tensors, which are not copied.

    A ``NonTensorStack`` becomes an object array, and a ``NonTensorData`` the object itself. One with the name ``meta``
    that holds a dict becomes the meta. A nested TensorDict of jagged tensors, all with the same lengths,
    becomes a ``Ragged``. Jagged tensors beside others stay as they are; ``Ragged.from_nested`` takes them.

    Raises:
        LeafError: ``data`` is not a TensorDict or tensorclass, or its tensors have shapes that differ between rows.
        StructureError: a part of a lazy stack lacks a field, or TensorDicts are nested more than 100 deep.
    """
    if isinstance(data, (type, NonTensorData, NonTensorStack)) or not is_tensor_collection(data):
        raise LeafError(f"from_tensordict() takes a TensorDict or a tensorclass, got {describe(data)}")
    require_depth(data, _nested)
    return _with_ragged(_batch(data))


def _nested(data: Any) -> Mapping[str, Any] | None:
    """Return the entries of a TensorDict, or None for anything else."""
    if isinstance(data, (type, NonTensorData, NonTensorStack)) or not is_tensor_collection(data):
        return None
    if isinstance(data, LazyStackedTensorDict):  # all parts are alike, or _batch() raises an error later
        return _nested(data.tensordicts[0]) if data.tensordicts else {}
    return {name: data.get(name) for name in data.keys()}  # noqa: SIM118  # iteration goes over rows


def _batch(data: Any) -> Batch:
    if isinstance(data, LazyStackedTensorDict):
        names = [set(part.keys()) for part in data.tensordicts]
        incomplete = sorted(set().union(*names).difference(*(set.intersection(*names),) if names else ()))
        if incomplete:
            listed = ", ".join(incomplete)
            raise StructureError(f"only some parts of the lazy stack have {listed}; fill them in, or remove them")
    fields: dict[str, Any] = {}
    name: Any
    for name in data.keys():  # noqa: SIM118  # iteration goes over rows
        try:
            value = data.get(name)
            if isinstance(value, NonTensorStack):
                value = object_array(value.tolist())
            elif isinstance(value, LinkedList):  # the form in which a tensorclass returns a NonTensorStack
                value = object_array(value)
            elif isinstance(value, NonTensorData):
                value = value.data
            elif is_tensor_collection(value):
                value = _batch(value)
            fields[name] = value
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except RuntimeError as error:  # a lazy stack of tensors that do not stack
            raise LeafError(f"its tensors cannot be stacked: {error}", name) from error
    # The meta is a dict with strings as keys, stored once for all rows.
    meta = fields.get(_META)
    is_meta = type(meta) is dict and all(isinstance(key, str) for key in meta)
    if is_meta:
        del fields[_META]
    batch: Batch = new_tree(Batch, fields)
    if is_meta and meta:
        set_meta(batch, dict(meta))
    return batch


def _with_ragged(batch: Batch) -> Batch:
    """Put a ``Ragged`` in the place of each nested batch of jagged tensors alone, which have the same lengths."""
    fields = batch.__dict__
    for name, value in fields.items():
        if isinstance(value, Batch):
            direct = any(_is_nested(leaf) for leaf in value.__dict__.values())
            if direct and all(_is_nested(leaf) for _, leaf in leaves(value.__dict__)):
                with suppress(TypedBatchError):  # they have other lengths, or gaps
                    fields[name] = Ragged.from_nested(value)
            else:
                _with_ragged(value)
    return batch


def _is_nested(leaf: Any) -> bool:
    return KINDS[type(leaf)] is Kind.TENSOR and bool(leaf.is_nested)


def to_tensorclass(batch: Any, cls: type[T]) -> T:
    """Convert a batch to a tensorclass. Arrays become tensors on the same memory.

    Args:
        batch: A batch with the fields of the class.
        cls: The tensorclass.

    Raises:
        LeafError: ``cls`` is not a tensorclass or has different fields, apart from those with a default, or the batch
            has a value that a TensorDict cannot hold.
        StructureError: fields have different lengths, or batches are nested more than 100 deep.
    """
    given: Any = cls
    if not isinstance(given, type) or not is_tensorclass(given):
        raise LeafError(f"to_tensorclass() takes a tensorclass, got {cls!r}")
    tree = require_bounded(batch, "to_tensorclass()")
    size = torch.Size([equal_rows(_with_rows(tree))])
    try:
        converted: T = cls(**_entries(tree, size), batch_size=size)  # type: ignore[call-arg]  # true of tensorclasses
    except TypedBatchError:
        raise
    except Exception as error:  # tensorclasses raise errors of many types
        raise LeafError(f"{describe(batch)} is not a {cls.__name__}: {str(error).partition(chr(10))[0]}") from error
    return converted


def _with_rows(tree: Tree) -> dict[str, Any]:
    """Return the fields that have rows. Text and other objects are stored once for all rows."""
    with_rows = {}
    for name, value in tree.__dict__.items():
        kind = KINDS[type(value)]
        if kind is Kind.BATCH:
            with_rows[name] = new_tree(Batch, _with_rows(value))
        elif kind in (Kind.ARRAY, Kind.TENSOR, Kind.SCALAR, Kind.DISTRIBUTION, Kind.RAGGED):
            with_rows[name] = value
    return with_rows


def _tensordict(tree: Tree, size: torch.Size) -> TensorDict:
    entries = _entries(tree, size)
    if meta := meta_of(tree):
        if _META in entries:
            raise StructureError("a TensorDict stores the meta under this name; rename the field", _META)
        entries[_META] = NonTensorData(dict(meta), batch_size=size)
    return TensorDict(entries, batch_size=size)


def _entries(tree: Tree, size: torch.Size) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        kind = KINDS[type(value)]
        with under(name):
            if kind is Kind.BATCH:
                fields[name] = _tensordict(value, size)
            elif kind is Kind.RAGGED:
                fields[name] = _tensordict(Ragged(Batch.to_torch(value.values), value.sizes).to_nested(), size)
            elif kind is Kind.DISTRIBUTION:
                shown = describe(value)
                raise LeafError(f"a TensorDict would not index {shown} with its rows; store its parameters instead")
            elif kind not in (Kind.ARRAY, Kind.TENSOR, Kind.SCALAR):
                fields[name] = NonTensorData(value, batch_size=size)
            elif not is_objects(value):
                if leading_shape(value)[: len(size)] != size:
                    dims = f"the dimensions {list(size)} of the batch size"
                    raise StructureError(f"{describe(value)} does not begin with {dims}")
                fields[name] = value if kind is Kind.TENSOR else torch_side().to_tensor(value)
            elif value.ndim != 1 or len(size) != 1:
                raise LeafError(f"{describe(value)}: a TensorDict stacks objects only along the rows")
            elif not len(value):
                fields[name] = NonTensorStack(batch_size=size, stack_dim=0)
            else:
                fields[name] = NonTensorStack(*[NonTensorData(element) for element in value])
    return fields
