"""Batches, dicts, arrays and tensors, built from the plain data of an HDF5 file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from typedbatch._ops.conversion import torch_side
from typedbatch._tree.kinds import ARRAY, KINDS, SCALAR, Tree, describe, new_tree, object_array
from typedbatch.errors import StorageError, under
from typedbatch.files._hdf5.nodes import JSON_KINDS, Data, Group, decoded, text_of


def build_value(node: Group | Data, device: Any, *, batch: bool = False) -> Any:
    """Return the value that a node of an HDF5 file stands for.

    Args:
        node: A group or dataset as plain data.
        device: Device of the tensors; None means the CPU.
        batch: Whether the node is inside a Batch. A group there is a Batch too, although Tianshou does not mark it.

    Raises:
        StorageError: The value cannot be built; the error names the field.
    """
    if isinstance(node, Data):
        return _leaf(node, device)
    batch |= node.kind == "Batch"
    fields: dict[str, Any] = {decoded(name): _number(value) for name, value in node.attributes.items()}
    for name, inner in node.members.items():
        with under(decoded(name)):
            fields[decoded(name)] = build_value(inner, device, batch=batch)
    return new_tree(Tree.__plain__, fields) if batch else fields


def _number(value: Any) -> Any:
    """Return a value that Tianshou stored as an attribute of a group: a number, text or array."""
    if KINDS[type(value)] is SCALAR:
        return value.item()
    if isinstance(value, str) or (KINDS[type(value)] is ARRAY and not value.dtype.hasobject):
        return value
    raise StorageError(f"expected a number, text or array in an attribute of the file, got {describe(value)}")


def _leaf(data: Data, device: Any) -> Any:
    kind, array, details = data
    try:
        if kind in JSON_KINDS:
            return _from_json(data)
        if "time" in details:
            array = array.view(np.dtype(text_of(details["time"])))
        if kind == "Tensor":
            return _to_tensor(array, details, device)
        return array[()] if kind == "scalar" else array
    except StorageError:
        raise
    except (ValueError, TypeError, RuntimeError, LookupError, AttributeError, MemoryError) as error:
        raise StorageError(f"the file is damaged: {error}") from error


def _from_json(data: Data) -> Any:
    value = json.loads(data.array.tobytes())
    if data.kind == "json":
        return value
    if not isinstance(value, list):
        raise ValueError("the items of an object array are not a list")
    return object_array(value).reshape(tuple(data.details["shape"]))


def _to_tensor(array: Any, details: dict[str, Any], device: Any) -> Any:
    side = torch_side()
    name = text_of(details.get("dtype", "")).removeprefix("torch.")
    dtype = side.dtype_named(name) if name else side.torch.from_numpy(array).dtype
    tensor = side.from_bits(array, dtype)
    return tensor.to(device).requires_grad_(bool(details.get("requires_grad", False)))
