"""TensorDicts and tensorclasses. Needs the extra ``tensordict``."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase, is_tensor_collection

from typedbatch.batch import Batch
from typedbatch.conversion import torch_side
from typedbatch.errors import LeafError, StructureError, TypedBatchError
from typedbatch.leaves import ARRAY, BATCH, DISTRIBUTION, KINDS, SCALAR, TENSOR, Tree, describe, new_tree, object_array
from typedbatch.rows import equal_rows, require_tree

T = TypeVar("T")


def to_tensordict(batch: Any, batch_size: list[int] | None = None) -> TensorDict:
    """A batch as a TensorDict; arrays become tensors on the same memory.

    Object arrays become a ``NonTensorStack`` of their elements, so that they are indexed with the rest; text, ``None``
    and other objects a ``NonTensorData``.

    Args:
        batch: any batch.
        batch_size: the dimensions that all fields share; None for the rows, ``[len(batch)]``.

    Raises:
        LeafError: a distribution, or an array of dates, which TensorDicts cannot hold; the error names it.
        StructureError: fields of different lengths.
        NoLengthError: a field is a scalar, and there is no ``batch_size``.
    """
    tree = require_tree(batch, "to_tensordict()")
    shape = [equal_rows(_with_rows(tree))] if batch_size is None else list(batch_size)
    return _tensordict(tree, torch.Size(shape))


def from_tensordict(data: Any) -> Batch:
    """A TensorDict, or a tensorclass, as a batch of the very same tensors.

    A ``NonTensorStack`` becomes an object array, a ``NonTensorData`` the object itself.

    Raises:
        LeafError: ``data`` is something else, or tensors in it have shapes that differ between rows.
    """
    if not is_tensor_collection(data):
        raise LeafError(f"from_tensordict() takes a TensorDict or a tensorclass, got {describe(data)}")
    fields: dict[str, Any] = {}
    for name, value in data.items():
        try:
            fields[name] = _leaf(value)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except RuntimeError as error:  # a lazy stack of tensors that do not stack
            raise LeafError(f"a stack that is no tensor: {error}", name) from error
    batch: Batch = new_tree(Batch, fields)
    return batch


def to_tensorclass(batch: Any, cls: type[T]) -> T:
    """A batch as a tensorclass; arrays become tensors on the same memory.

    Args:
        batch: a batch with the fields of the class.
        cls: the tensorclass.

    Raises:
        LeafError: the class has other fields, or the batch holds what a TensorDict cannot.
    """
    make = getattr(cls, "from_tensordict", None)
    if make is None or not is_tensor_collection(cls):
        raise LeafError(f"to_tensorclass() takes a tensorclass, got {cls!r}")
    data = to_tensordict(batch)
    try:
        made: T = make(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LeafError(f"{describe(batch)} is no {cls.__name__}: {error}") from error
    return made


def _with_rows(tree: Tree) -> dict[str, Any]:
    """The fields that have rows; text and other objects are kept once for all of them."""
    with_rows = {}
    for name, value in tree.__dict__.items():
        kind = KINDS[type(value)]
        if kind is BATCH:
            with_rows[name] = new_tree(Batch, _with_rows(value))
        elif kind in (ARRAY, TENSOR, SCALAR, DISTRIBUTION):
            with_rows[name] = value
    return with_rows


def _tensordict(tree: Tree, size: torch.Size) -> TensorDict:
    fields: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        try:
            fields[name] = _entry(value, size)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
    try:
        return TensorDict(fields, batch_size=size)
    except RuntimeError as error:
        raise StructureError(f"the fields do not share the dimensions {list(size)}: {error}") from error


def _entry(value: Any, size: torch.Size) -> Any:
    kind = KINDS[type(value)]
    if kind is BATCH:
        return _tensordict(value, size)
    if kind is TENSOR:
        return value
    if kind is DISTRIBUTION:
        raise LeafError(f"a TensorDict keeps {describe(value)} whole when it is indexed; keep its parameters instead")
    if kind is ARRAY and value.dtype == object:
        if value.ndim != 1 or len(size) != 1:
            raise LeafError(f"{describe(value)}: objects are stacked along the rows alone")
        if not len(value):
            return NonTensorStack(batch_size=size, stack_dim=0)
        return NonTensorStack(*[NonTensorData(one) for one in value])
    return torch_side().to_tensor(value) if kind in (ARRAY, SCALAR) else NonTensorData(value, batch_size=size)


def _leaf(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, NonTensorStack):
        return object_array(value.tolist())
    if isinstance(value, NonTensorData):
        return value.data
    if isinstance(value, TensorDictBase) or is_tensor_collection(value):
        return from_tensordict(value)
    return value
