"""HDF5: batches and dicts of arrays as groups of a file. Reading never executes anything. Needs the extra ``hdf5``.

An array or tensor becomes a dataset, and a Batch or dict a group. Text, numbers, ``None`` and object arrays of these
are stored as JSON. The attribute ``__data_type__`` of each object names its type. Files of Tianshou are read too,
unless they contain pickles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from typedbatch._core.depth import fields_of, require_depth
from typedbatch._core.kinds import ARRAY, BATCH, KINDS, MAPPING, RAGGED, SCALAR, TENSOR, Tree, describe
from typedbatch._core.meta import as_meta, meta_of, set_meta
from typedbatch._ops.conversion import require_device, torch_side
from typedbatch.batch import Batch
from typedbatch.errors import StorageError, TypedBatchError, under
from typedbatch.files._hdf5 import TYPE, build_value, h5py, read_dataset, read_file, read_group, text_of, written
from typedbatch.files.document import plain, require_version, with_classes

_ROOT, _META = "batch", "meta"


def to_hdf5(x: Mapping[str, Any] | Tree, y: h5py.Group, compression: str | None = None) -> None:
    """Write a Batch or dict into a group, with arrays as datasets and nested batches and dicts as groups.

    If a leaf is refused, the leaves before it have already been written.

    Args:
        x: The Batch or dict to write. Names that are not text are converted to text.
        y: The group to write to, for example an open file. It must not have members with these names yet. Fields keep
            their order if it was created with ``track_order=True``.
        compression: ``"gzip"`` or ``"lzf"``, for arrays and tensors.

    Raises:
        StorageError: HDF5 and JSON cannot store a leaf, such as a function or a distribution; the error names it.
        StructureError: Batches and dicts are nested more than 100 deep. Nothing has been written.
    """
    require_depth(x, lambda value: value if isinstance(value, Mapping) else fields_of(value))
    _write_fields(x, y, compression)


def _write_fields(x: Any, y: h5py.Group, compression: str | None) -> None:
    for name, value in (x.__dict__ if isinstance(x, Tree) else x).items():
        try:
            # Slashes, NUL and names of nothing but dots have a meaning in HDF5.
            text = str(name).replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
            text = text if text.strip(".") else text.replace(".", "%2E")
            _write(y, text or "%", value, compression)
        except TypedBatchError as error:
            raise error.under(str(name)) from error.__cause__
        except (TypeError, ValueError, OSError, RuntimeError, LookupError) as error:
            raise StorageError(f"{describe(value)} cannot be written: {error}", str(name)) from error


def from_hdf5(x: h5py.Group | h5py.Dataset | str | os.PathLike[str], device: Any = None) -> Any:
    """Return what ``to_hdf5`` has written: for a file a dict, with arrays, tensors, dicts and Batches in it.

    Args:
        x: The path of a file, which a separate process reads unless this one has written it; or a group or dataset of
            an open file, which is read in this process. There a damaged or malicious file can make HDF5 hang or crash.
        device: Device of the tensors; None means the CPU.

    Raises:
        StorageError: The file contains something that ``to_hdf5`` does not write: a pickle, a link to another file or
            a cycle; or it is damaged.
        SettingError: The device does not exist.
    """
    require_device(device)
    try:
        if isinstance(x, h5py.Dataset):
            return build_value(read_dataset(x), device)
        return build_value(read_group(x) if isinstance(x, h5py.Group) else read_file(x), device)
    except TypedBatchError:
        raise
    except RecursionError as error:
        raise StorageError("the file is damaged: its groups are nested too deeply") from error
    except Exception as error:  # Invalid content can raise any error in HDF5 and above.
        if isinstance(error, OSError) and not isinstance(x, (h5py.Group, h5py.Dataset)):
            raise StorageError(f"{x} cannot be read: {error}") from error
        raise StorageError(f"the file is damaged: {error}") from error


def _write(group: h5py.Group, name: str, value: Any, compression: str | None) -> None:
    kind = KINDS[type(value)]
    if isinstance(value, np.ma.MaskedArray):
        raise StorageError("a masked array would lose its mask; fill it, and store the mask as a field")
    if kind is RAGGED:
        raise StorageError(f"{describe(value)} cannot be stored in an HDF5 file; use a .safetensors file")
    if kind in (BATCH, MAPPING):
        inner = group.create_group(name, track_order=True)
        inner.attrs[TYPE] = np.bytes_("Batch" if kind is BATCH else "dict")
        _write_fields(value, inner, compression)
    elif kind is TENSOR:
        dataset = _write_array(group, name, torch_side().as_bits(value), "Tensor", compression)
        dataset.attrs["dtype"] = np.bytes_(str(value.dtype))
        dataset.attrs["requires_grad"] = bool(value.requires_grad)
    elif kind in (ARRAY, SCALAR) and not value.dtype.hasobject and value.dtype.kind != "T":
        _write_array(group, name, np.asarray(value), "ndarray" if kind is ARRAY else "scalar", compression)
    elif kind is ARRAY and value.dtype != object:
        raise StorageError(f"{describe(value)} has a dtype that files cannot store; convert it")
    else:
        content = [plain(item) for item in value.ravel()] if kind is ARRAY else plain(value)
        # JSON is stored as bytes, because HDF5 crashes or hangs on strings in a damaged file.
        data = np.frombuffer(json.dumps(content).encode(), np.uint8)
        dataset = _write_array(group, name, data, "json_ndarray" if kind is ARRAY else "json")
        if kind is ARRAY:
            dataset.attrs["shape"] = value.shape


def _write_array(group: h5py.Group, name: str, array: Any, kind: str, compression: str | None = None) -> h5py.Dataset:
    time = array.dtype.kind in "mM"
    stored = array.view(np.int64) if time else array
    dataset = group.create_dataset(name, data=stored, compression=compression if stored.ndim and stored.size else None)
    dataset.attrs[TYPE] = np.bytes_(kind)
    if time:
        dataset.attrs["time"] = np.bytes_(array.dtype.str)
    return dataset


def write_file(file: IO[bytes], tree: Tree, document: dict[str, Any], compression: str | None) -> None:
    """Write a batch and a document, which must be JSON, to an empty raw file."""
    with written(file) as hdf5_file:
        hdf5_file.attrs["typedbatch"] = np.bytes_(json.dumps(document))
        _write(hdf5_file, _ROOT, tree, compression)
        if meta := meta_of(tree):
            with under(_META):
                _write(hdf5_file, _META, meta, compression)


def read_batch_file(path: str | os.PathLike[str], device: Any, *, trusted: bool) -> tuple[Batch, dict[str, Any]]:
    """Return the batch of a file that :func:`write_file` has written, and its document."""
    root = read_file(path, [_ROOT, _META], trusted=trusted)
    if "typedbatch" not in root.attributes:
        text = "typedbatch.files.save() did not write it; typedbatch.files.hdf5.from_hdf5 reads other files"
        raise StorageError(text)
    document: dict[str, Any] = json.loads(text_of(root.attributes["typedbatch"]))
    require_version(document)
    tree = build_value(root.members[_ROOT], device) if _ROOT in root.members else None
    if not isinstance(tree, Tree):
        raise StorageError("it does not contain a batch")
    batch = with_classes(tree, document)
    if _META in root.members:
        set_meta(batch, as_meta(build_value(root.members[_META], device)))
    return batch, document
