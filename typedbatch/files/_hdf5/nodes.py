"""What is in an HDF5 file, as plain data. This is all that HDF5 itself is asked for; nothing is made of it here."""

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
"""Attributes that say more about a dataset."""
JSON_KINDS = ("json", "json_ndarray")
DENSEST = 1100
"""No compression of HDF5 makes more of a byte."""
_COMPRESSION = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF}
_FILTERS = {*_COMPRESSION, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}

Keep = Callable[[NDArray[Any], bool], Any]
"""Takes an array, and whether it is JSON, and gives what stands for it in a node."""


class Data(NamedTuple):
    """A dataset."""

    kind: str
    array: Any
    details: dict[str, Any]
    """Those of :data:`DETAILS` that it has."""


class Group(NamedTuple):
    """A group; its kind is ``Batch``, ``dict``, or none."""

    kind: str
    attributes: dict[str, Any]
    members: dict[str, Any]


def read_group(group: h5py.Group, keep: Keep, names: Sequence[str] | None = None) -> Group:
    """A group with all that is in it, or with some of its members.

    Raises:
        StorageError: something that nobody writes.
    """
    return _group(group, keep, set(), names)


def read_dataset(dataset: h5py.Dataset, keep: Keep) -> Data:
    """A dataset.

    Raises:
        StorageError: something that nobody writes.
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
    """A short file could be a batch without end otherwise."""
    address = h5py.h5o.get_info(found.id).addr
    if address in met:
        raise StorageError("the file is damaged: one part of it is in two places")
    met.add(address)


def member(group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
    """What a group holds under a name.

    Raises:
        StorageError: it is not in the file.
    """
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise StorageError("a link to elsewhere, which is not followed")
    return group[name]


def attribute(owner: Any, name: str, default: Any = None) -> Any:
    """An attribute of a group or dataset.

    Raises:
        StorageError: it is an array of texts, each of which may be as long as the file.
    """
    if name not in owner.attrs:
        return default
    stored = owner.attrs.get_id(name)
    if stored.dtype.hasobject and stored.shape != ():
        raise StorageError(f"an attribute {name!r} that nobody writes")
    return owner.attrs[name]


def text_of(attribute: object) -> str:
    """Text that was written as bytes here, as text in Tianshou."""
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def _dataset(dataset: Any, keep: Keep, met: set[int]) -> Data:
    if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
        raise StorageError("data that is not in this file, which is not read")
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
        raise StorageError("more data is announced than there can be in the file")
    if kind in JSON_KINDS:
        if dataset.dtype != np.uint8 and dataset.shape != ():
            raise StorageError(f"JSON as {dataset.dtype}")
        if filters:  # a few bytes could become gigabytes of objects
            raise StorageError("compressed text, which nobody writes")
        return
    if kind == "ndarray" and dataset.dtype.hasobject:
        raise StorageError("text, or data of different lengths, which is not read")
    if kind not in ("ndarray", "Tensor", "scalar") or dataset.dtype.hasobject:
        raise StorageError(f"a {kind} is not read: it may be a pickle, which could execute anything")


def _filters(dataset: Any) -> list[int]:
    """HDF5 looks for the code of a filter that it does not know, and bounds no filter by the next."""
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if not _FILTERS.issuperset(filters) or len(filters) != len(set(filters)) or _COMPRESSION.issubset(filters):
        raise StorageError(f"unsupported filters: {filters}")
    return filters


def decoded(name: str) -> str:
    """The name of a field, from the one that HDF5 has for it."""
    if name == "%":
        return ""
    for code, character in (("%2E", "."), ("%00", "\0"), ("%2F", "/"), ("%25", "%")):
        name = name.replace(code, character)
    return name
