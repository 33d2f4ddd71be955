"""Plain data of an HDF5 file, and the batches, dicts, arrays and tensors that are built from it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from typedbatch._ops.conversion import torch_side
from typedbatch._tree.kinds import ARRAY, KINDS, SCALAR, Tree, describe, new_tree, object_array
from typedbatch.errors import StorageError, under
from typedbatch.files._hdf5 import decoded, text_of

TYPE = "__data_type__"
JSON_KINDS = ("json", "json_ndarray")
DETAILS = ("time", "dtype", "requires_grad", "shape")
"""Attributes of a dataset that are needed to rebuild its value."""


class Data(NamedTuple):
    """A dataset. Its content is an array, or JSON as bytes if the kind is one of :data:`JSON_KINDS`."""

    kind: str
    content: Any
    details: dict[str, Any]
    """The attributes of the dataset that are in :data:`DETAILS`."""


class Group(NamedTuple):
    """A group. Its kind is ``"Batch"``, ``"dict"`` or empty."""

    kind: str
    attributes: dict[str, Any]
    members: dict[str, Any]


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
    fields: dict[str, Any] = {}
    for name, value in node.attributes.items():  # Tianshou stores numbers as attributes.
        kind = KINDS[type(value)]
        is_text_or_float = isinstance(value, (bytes, float, str))
        is_array = kind is ARRAY and (value.dtype == object or not value.dtype.hasobject)
        if kind is not SCALAR and not is_text_or_float and not is_array:
            raise StorageError(f"expected a number, text or array in an attribute of the file, got {describe(value)}")
        if isinstance(value, bytes):
            fields[decoded(name)] = text_of(value)
        else:
            fields[decoded(name)] = value.item() if kind is SCALAR else value
    for name, inner in node.members.items():
        with under(decoded(name)):
            fields[decoded(name)] = build_value(inner, device, batch=batch)
    return new_tree(Tree.__plain__, fields) if batch else fields


def _leaf(data: Data, device: Any) -> Any:
    kind, content, details = data
    try:
        if kind in JSON_KINDS:
            value = json.loads(content)
            if kind == "json":
                return value
            if not isinstance(value, list):
                raise ValueError("the items of an object array are not a list")
            return object_array(value).reshape(tuple(details["shape"]))
        if "time" in details:
            content = content.view(np.dtype(text_of(details["time"])))
        if kind == "Tensor":
            side = torch_side()
            name = text_of(details.get("dtype", "")).removeprefix("torch.")
            dtype = side.dtype_named(name) if name else side.torch.from_numpy(content).dtype
            tensor = side.from_bits(content, dtype).to(device)
            return tensor.requires_grad_(bool(details.get("requires_grad", False)))
        return content[()] if kind == "scalar" else content
    except StorageError:
        raise
    except (ValueError, TypeError, RuntimeError, LookupError, AttributeError, MemoryError) as error:
        raise StorageError(f"the file is damaged: {error}") from error
