"""Groups and datasets of an HDF5 file, read as plain data. The module ``build`` turns them into values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from typedbatch.errors import StorageError, under
from typedbatch.files._hdf5 import is_from_hdf5

TYPE = "__data_type__"
DETAILS = ("time", "dtype", "requires_grad", "shape")
"""Attributes of a dataset that are needed to rebuild its value."""
JSON_KINDS = ("json", "json_ndarray")
DENSEST = 1100
"""Upper bound of the bytes that one compressed byte can expand to, for every compression filter of HDF5."""
_COMPRESSION = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF}
_FILTERS = {*_COMPRESSION, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}

Keep = Callable[[NDArray[Any], bool], Any]
"""A function of an array, and of whether it is JSON. It returns what stands for the array in a node."""


class Data(NamedTuple):
    """A dataset."""

    kind: str
    array: Any
    details: dict[str, Any]
    """The attributes of the dataset that are in :data:`DETAILS`."""


class Group(NamedTuple):
    """A group. Its kind is ``"Batch"``, ``"dict"`` or empty."""

    kind: str
    attributes: dict[str, Any]
    members: dict[str, Any]


def read_group(group: h5py.Group, keep: Keep, names: Sequence[str] | None = None) -> Group:
    """Return a group with everything in it, or with only the members in ``names``.

    Raises:
        StorageError: It contains something that typedbatch and Tianshou never write.
    """
    return _group(group, keep, set(), names)


def read_dataset(dataset: h5py.Dataset, keep: Keep) -> Data:
    """Return a dataset as plain data.

    Raises:
        StorageError: It contains something that typedbatch and Tianshou never write.
    """
    return _dataset(dataset, keep, set())


def _group(group: h5py.Group, keep: Keep, met: set[int], names: Sequence[str] | None = None) -> Group:
    _require_new(group, met)
    attributes = {name: attribute(group, name) for name in group.attrs if name != TYPE}
    members: dict[str, Any] = {}
    for name in group if names is None else [name for name in names if name in group]:
        with under(decoded(name)):
            found = member(group, name)
            members[name] = _group(found, keep, met) if isinstance(found, h5py.Group) else _dataset(found, keep, met)
    return Group(text_of(attribute(group, TYPE, "")), attributes, members)


def _require_new(found: Any, met: set[int]) -> None:
    """Raise an error for an object that was read before.

    Otherwise a group that contains itself would be read forever.
    """
    address = h5py.h5o.get_info(found.id).addr
    if address in met:
        raise StorageError("the file is damaged: it has the same group or dataset in two places")
    met.add(address)


def member(group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
    """Return the member of a group with this name.

    Raises:
        StorageError: It is a soft or external link.
    """
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise StorageError("expected a group or dataset, got a soft or external link, which is not followed")
    return group[name]


def attribute(owner: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of a group or dataset.

    Raises:
        StorageError: It is an array of strings, each of which may be as long as the file.
    """
    if name not in owner.attrs:
        return default
    stored = owner.attrs.get_id(name)
    if stored.dtype.hasobject and stored.shape != ():
        raise StorageError(f"expected an attribute {name!r} with a single value, got an array of strings or objects")
    return owner.attrs[name]


def text_of(attribute: object) -> str:
    """Return the text of an attribute. typedbatch writes text as bytes, and Tianshou writes it as strings."""
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def _dataset(dataset: Any, keep: Keep, met: set[int]) -> Data:
    if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
        raise StorageError("expected a dataset with its data in this file; data in other files is not read")
    _require_new(dataset, met)
    kind = text_of(attribute(dataset, TYPE, "ndarray"))
    try:
        _require_known(dataset, kind)
        details = {name: attribute(dataset, name) for name in DETAILS if name in dataset.attrs}
        if kind in JSON_KINDS and dataset.dtype.hasobject:
            return Data(kind, keep(np.frombuffer(dataset[()], np.uint8), True), details)
        array = np.empty(dataset.shape, dataset.dtype)
        if array.size:
            dataset.read_direct(array)
        return Data(kind, keep(array, kind in JSON_KINDS), details)
    except StorageError:
        raise
    except (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError, MemoryError) as error:
        if not is_from_hdf5(error):
            raise
        raise StorageError(f"the file is damaged: {error}") from error


def _require_known(dataset: Any, kind: str) -> None:
    filters = _filters(dataset)
    if dataset.nbytes > DENSEST * dataset.id.get_storage_size() + 4096:
        raise StorageError("the file is damaged: it declares more data than it can contain")
    if kind in JSON_KINDS:
        if dataset.dtype != np.uint8 and dataset.shape != ():
            raise StorageError(f"expected JSON as uint8 or as one string, got an array of {dataset.dtype}")
        if filters:  # A few compressed bytes could become gigabytes of Python objects.
            raise StorageError(f"expected JSON without compression, got the filters {filters}")
        return
    if kind == "ndarray" and dataset.dtype.hasobject:
        raise StorageError("text and data of variable length are not read")
    if kind not in ("ndarray", "Tensor", "scalar") or dataset.dtype.hasobject:
        raise StorageError(f"data of the type {kind!r} is not read: it may be a pickle, which could execute anything")


def _filters(dataset: Any) -> list[int]:
    """Return the filters of a dataset, after checking that they are safe to run.

    For a filter that it does not know, HDF5 loads a plugin from disk. Two compression filters in a row could expand
    data far beyond :data:`DENSEST`.
    """
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if not _FILTERS.issuperset(filters) or len(filters) != len(set(filters)) or _COMPRESSION.issubset(filters):
        raise StorageError(f"unsupported filters: {filters}")
    return filters


def decoded(name: str) -> str:
    """Return the name of a field for an escaped name of the file."""
    if name == "%":
        return ""
    for code, character in (("%2E", "."), ("%00", "\0"), ("%2F", "/"), ("%25", "%")):
        name = name.replace(code, character)
    return name
