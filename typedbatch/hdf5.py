"""HDF5: batches and dicts of arrays as groups of a file. Reading never executes anything. Needs the extra ``hdf5``.

An array or tensor is a dataset, a Batch or dict a group; text, numbers, ``None`` and object arrays of these are JSON.
Every object says in the attribute ``__data_type__`` what it was. Files of Tianshou are read as far as they hold no
pickles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from typedbatch.conversion import require_device, torch_side
from typedbatch.errors import MissingDependencyError, StorageError, TypedBatchError
from typedbatch.jsonable import plain
from typedbatch.leaves import ARRAY, BATCH, KINDS, MAPPING, SCALAR, TENSOR, Tree, describe, new_tree, object_array

try:
    import h5py
except ModuleNotFoundError as _error:
    raise MissingDependencyError("HDF5 files need h5py; pip install 'typedbatch[hdf5]'") from _error

_TYPE = "__data_type__"
_COMPRESSION = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF}
_FILTERS = {*_COMPRESSION, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
_DENSEST = 2000  # no compression of HDF5 makes more of a byte


def to_hdf5(x: Mapping[str, Any] | Tree, y: h5py.Group, compression: str | None = None) -> None:
    """Write a Batch or dict into a group: arrays as datasets, nested ones as groups.

    If a leaf is refused, those before it have been written.

    Args:
        x: what to write. Names that are no text become it.
        y: where, an open file for one; it must not have such names yet. Fields keep their order if it was made with
            ``track_order=True``.
        compression: ``"gzip"`` or ``"lzf"``, for arrays and tensors.

    Raises:
        StorageError: a leaf that HDF5 and JSON cannot hold, as a function, or a distribution; the error names it.
    """
    for name, value in (x.__dict__ if isinstance(x, Tree) else x).items():
        try:
            _write(y, _encoded(name), value, compression)
        except TypedBatchError as error:
            raise error.under(str(name)) from error.__cause__
        except (TypeError, ValueError, OSError, RuntimeError, LookupError) as error:
            raise StorageError(f"{describe(value)} cannot be written: {error}", str(name)) from error


def from_hdf5(x: h5py.Group | h5py.Dataset, device: Any = None) -> Any:
    """Read back what ``to_hdf5`` has written: a dict for a file, arrays, tensors and Batches inside.

    Args:
        x: group or dataset.
        device: where tensors go; None for the CPU.

    Raises:
        StorageError: something that ``to_hdf5`` does not write: a pickle, a link to another file, a cycle, damage.
        SettingError: there is no such device.
    """
    require_device(device)
    try:
        if isinstance(x, h5py.Dataset):
            return _read_dataset(x, device, set())
        return _read_group(x, device, set(), batch=False)
    except TypedBatchError:
        raise
    except RecursionError as error:
        raise StorageError("the file is damaged: groups inside each other, deeper than anybody writes them") from error
    except Exception as error:  # whatever it is, what was read is the reason for it
        raise StorageError(f"the file is damaged: {error}") from error


def _write(group: h5py.Group, name: str, value: Any, compression: str | None) -> None:
    kind = KINDS[type(value)]
    if isinstance(value, np.ma.MaskedArray):
        raise StorageError("a masked array, whose mask would be lost; fill it, and keep the mask as a field")
    if kind in (BATCH, MAPPING):
        inner = group.create_group(name, track_order=True)
        inner.attrs[_TYPE] = np.bytes_("Batch" if kind is BATCH else "dict")
        to_hdf5(value, inner, compression)
    elif kind is TENSOR:
        dataset = _write_array(group, name, torch_side().as_bits(value), compression, "Tensor")
        dataset.attrs["dtype"] = np.bytes_(str(value.dtype))
        dataset.attrs["requires_grad"] = bool(value.requires_grad)
    elif kind in (ARRAY, SCALAR) and not value.dtype.hasobject and value.dtype.kind != "T":
        _write_array(group, name, np.asarray(value), compression, "ndarray" if kind is ARRAY else "scalar")
    elif kind is ARRAY and value.dtype == object:
        _write_json(group, name, [plain(one) for one in value.ravel()], "json_ndarray").attrs["shape"] = value.shape
    elif kind is ARRAY:
        raise StorageError(f"{describe(value)} has a dtype that files lack; convert it")
    else:
        _write_json(group, name, plain(value), "json")


def _write_json(group: h5py.Group, name: str, value: Any, kind: str) -> h5py.Dataset:
    # As bytes, because HDF5 itself crashes, or never ends, over text in a file that is damaged.
    dataset = group.create_dataset(name, data=np.frombuffer(json.dumps(value).encode(), np.uint8))
    dataset.attrs[_TYPE] = np.bytes_(kind)
    return dataset


def _write_array(group: h5py.Group, name: str, array: Any, compression: str | None, kind: str) -> h5py.Dataset:
    time = array.dtype.kind in "mM"
    stored = array.view(np.int64) if time else array
    dataset = group.create_dataset(name, data=stored, compression=compression if stored.ndim and stored.size else None)
    dataset.attrs[_TYPE] = np.bytes_(kind)
    if time:
        dataset.attrs["time"] = np.bytes_(array.dtype.str)
    return dataset


def _read_group(group: h5py.Group, device: Any, met: set[int], *, batch: bool) -> Any:
    # what a Batch holds is one too, though Tianshou does not say so
    batch |= text_of(attribute(group, _TYPE)) == "Batch"
    _require_new(group, met)
    attributes = {name: attribute(group, name) for name in group.attrs if name != _TYPE}
    fields: dict[str, Any] = {_decoded(name): _number(value) for name, value in attributes.items()}
    for name in group:
        try:
            value = member(group, name)
            if isinstance(value, h5py.Group):
                fields[_decoded(name)] = _read_group(value, device, met, batch=batch)
            else:
                fields[_decoded(name)] = _read_dataset(value, device, met)
        except TypedBatchError as error:
            raise error.under(_decoded(name)) from error.__cause__
    return new_tree(Tree.plain, fields) if batch else fields


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


def _number(value: Any) -> Any:
    """A number that Tianshou has written as an attribute."""
    if KINDS[type(value)] is SCALAR:
        return value.item()
    if isinstance(value, str) or (KINDS[type(value)] is ARRAY and not value.dtype.hasobject):
        return value
    raise StorageError(f"an attribute of the file that is no number: {describe(value)}")


def _read_dataset(dataset: Any, device: Any, met: set[int]) -> Any:
    if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
        raise StorageError("data that is not in this file, which is not read")
    _require_new(dataset, met)
    kind = text_of(attribute(dataset, _TYPE, "ndarray"))
    try:
        _require_known_filters(dataset)
        if dataset.nbytes > _DENSEST * dataset.id.get_storage_size() + 4096:
            raise StorageError("more data is announced than there can be in the file")
        if kind in ("json", "json_ndarray"):
            return _from_json(dataset, kind)
        if kind == "ndarray" and dataset.dtype.hasobject:
            raise StorageError("text, or data of different lengths, which is not read")
        if kind not in ("ndarray", "Tensor", "scalar") or dataset.dtype.hasobject:
            raise StorageError(f"a {kind} is not read: it may be a pickle, which could execute anything")
        array = np.empty(dataset.shape, dataset.dtype)
        if array.size:
            dataset.read_direct(array)
        if "time" in dataset.attrs:
            array = array.view(np.dtype(text_of(attribute(dataset, "time"))))
        if kind == "Tensor":
            return _to_tensor(array, dataset, device)
        return array[()] if kind == "scalar" else array
    except StorageError:
        raise
    except (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError, MemoryError) as error:
        raise StorageError(f"the file is damaged: {error}") from error


def _require_known_filters(dataset: Any) -> None:
    """HDF5 looks for the code of a filter that it does not know, and bounds no filter by the next."""
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if not _FILTERS.issuperset(filters) or len(filters) != len(set(filters)) or _COMPRESSION.issubset(filters):
        raise StorageError(f"filters that nobody writes: {filters}")


def _from_json(dataset: h5py.Dataset, kind: str) -> Any:
    if dataset.dtype != np.uint8 and dataset.shape != ():
        raise StorageError(f"JSON as {dataset.dtype}")
    written = dataset[()]
    value = json.loads(written if isinstance(written, bytes) else written.tobytes())
    if kind == "json":
        return value
    if not isinstance(value, list):
        raise ValueError("an object array that is none")
    return object_array(value).reshape(tuple(attribute(dataset, "shape")))


def _to_tensor(array: Any, dataset: Any, device: Any) -> Any:
    side = torch_side()
    name = text_of(attribute(dataset, "dtype", "")).removeprefix("torch.")
    dtype = side.dtype_named(name) if name else side.torch.from_numpy(array).dtype
    tensor = side.from_bits(array, dtype)
    return tensor.to(device).requires_grad_(bool(attribute(dataset, "requires_grad", False)))


def _encoded(name: object) -> str:
    """A name without what HDF5 gives a meaning: slashes, and names of dots alone."""
    text = str(name).replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    return text.replace(".", "%2E") if not text.strip(".") and text else text or "%"


def _decoded(name: str) -> str:
    if name == "%":
        return ""
    for code, character in (("%2E", "."), ("%00", "\0"), ("%2F", "/"), ("%25", "%")):
        name = name.replace(code, character)
    return name
