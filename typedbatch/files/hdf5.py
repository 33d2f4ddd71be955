"""HDF5: batches and dicts of arrays as groups of a file. Reading never executes anything. Needs the extra ``hdf5``.

An array or tensor is a dataset, a Batch or dict a group; text, numbers, ``None`` and object arrays of these are JSON.
Every object says in the attribute ``__data_type__`` what it was. Files of Tianshou are read as far as they hold no
pickles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from typedbatch._ops.conversion import require_device, torch_side
from typedbatch._tree.depth import fields_of, require_depth
from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, MAPPING, RAGGED, SCALAR, TENSOR, Tree, describe
from typedbatch._tree.meta import as_meta, meta_of, set_meta
from typedbatch.errors import StorageError, TypedBatchError, under
from typedbatch.files._hdf5 import h5py, is_from_hdf5
from typedbatch.files._hdf5.build import built
from typedbatch.files._hdf5.nodes import TYPE, read_dataset, read_group, text_of
from typedbatch.files._hdf5.process import read_file
from typedbatch.files._hdf5.target import written
from typedbatch.files.jsonable import plain


def to_hdf5(x: Mapping[str, Any] | Tree, y: h5py.Group, compression: str | None = None) -> None:
    """Write a Batch or dict into a group: arrays as datasets, nested ones as groups.

    If a leaf is refused, those before it have been written.

    Args:
        x: what to write. Names that are not text become it.
        y: where, for example an open file; it must not have such names yet. Fields keep their order if it was made with
            ``track_order=True``.
        compression: ``"gzip"`` or ``"lzf"``, for arrays and tensors.

    Raises:
        StorageError: a leaf that HDF5 and JSON cannot hold, as a function, or a distribution; the error names it.
        StructureError: Batches and dicts are nested more than 100 deep; nothing has been written.
    """
    require_depth(x, _contents)
    _write_fields(x, y, compression)


def _contents(value: Any) -> Mapping[Any, Any] | None:
    return value if isinstance(value, Mapping) else fields_of(value)


def _write_fields(x: Any, y: h5py.Group, compression: str | None) -> None:
    for name, value in (x.__dict__ if isinstance(x, Tree) else x).items():
        try:
            _write(y, _encoded(name), value, compression)
        except TypedBatchError as error:
            raise error.under(str(name)) from error.__cause__
        except (TypeError, ValueError, OSError, RuntimeError, LookupError) as error:
            if not is_from_hdf5(error):
                raise
            raise StorageError(f"{describe(value)} cannot be written: {error}", str(name)) from error


def from_hdf5(x: h5py.Group | h5py.Dataset | str | os.PathLike[str], device: Any = None) -> Any:
    """Read back what ``to_hdf5`` has written: a dict for a file, arrays, tensors and Batches inside.

    Args:
        x: the path of a file, which is read in a process of its own; or a group or dataset of an open one, which HDF5
            reads in this process, where a file that was made up, or damaged, can hang or crash it.
        device: where tensors go; None for the CPU.

    Raises:
        StorageError: something that ``to_hdf5`` does not write: a pickle, a link to another file, a cycle, damage.
        SettingError: there is no such device.
    """
    require_device(device)
    try:
        if isinstance(x, h5py.Dataset):
            return built(read_dataset(x, _as_it_is), device)
        return built(read_group(x, _as_it_is) if isinstance(x, h5py.Group) else read_file(x), device)
    except TypedBatchError:
        raise
    except RecursionError as error:
        raise StorageError("the file is damaged: groups inside each other, deeper than anybody writes them") from error
    except Exception as error:  # whatever it is, what was read is the reason for it
        if not is_from_hdf5(error):
            raise
        if isinstance(error, OSError) and not isinstance(x, (h5py.Group, h5py.Dataset)):
            raise StorageError(f"{x} cannot be read: {error}") from error
        raise StorageError(f"the file is damaged: {error}") from error


def is_batch_file(path: str | os.PathLike[str]) -> bool:
    """Whether an HDF5 file is one that ``typedbatch.files.save`` has written."""
    return "typedbatch" in read_file(path, []).attributes


def _as_it_is(array: Any, _: bool) -> Any:
    return array


def _write(group: h5py.Group, name: str, value: Any, compression: str | None) -> None:
    kind = KINDS[type(value)]
    if isinstance(value, np.ma.MaskedArray):
        raise StorageError("a masked array, whose mask would be lost; fill it, and keep the mask as a field")
    if kind is RAGGED:
        raise StorageError(f"{describe(value)}, which HDF5 files do not hold; a .safetensors file does")
    if kind in (BATCH, MAPPING):
        inner = group.create_group(name, track_order=True)
        inner.attrs[TYPE] = np.bytes_("Batch" if kind is BATCH else "dict")
        _write_fields(value, inner, compression)
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
    dataset.attrs[TYPE] = np.bytes_(kind)
    return dataset


def _write_array(group: h5py.Group, name: str, array: Any, compression: str | None, kind: str) -> h5py.Dataset:
    time = array.dtype.kind in "mM"
    stored = array.view(np.int64) if time else array
    dataset = group.create_dataset(name, data=stored, compression=compression if stored.ndim and stored.size else None)
    dataset.attrs[TYPE] = np.bytes_(kind)
    if time:
        dataset.attrs["time"] = np.bytes_(array.dtype.str)
    return dataset


def _encoded(name: object) -> str:
    """A name without what HDF5 gives a meaning: slashes, and names of dots alone."""
    text = str(name).replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    return text.replace(".", "%2E") if not text.strip(".") and text else text or "%"


# ---- one batch as a file ------------------------------------------------------------------------------------------

_ROOT, _META = "batch", "meta"


def write_file(file: IO[bytes], tree: Tree, document: dict[str, Any], compression: str | None) -> None:
    """Write a batch, and a document that JSON takes, to an empty raw file.

    Raises:
        StorageError: a leaf that HDF5 and JSON cannot hold.
        OSError: the disk is full.
    """
    with written(file) as found:
        found.attrs["typedbatch"] = np.bytes_(json.dumps(document))
        group = found.create_group(_ROOT, track_order=True)
        group.attrs["__data_type__"] = np.bytes_("Batch")
        _write_fields(tree, group, compression)
        if meta := meta_of(tree):
            group = found.create_group(_META, track_order=True)
            group.attrs[TYPE] = np.bytes_("dict")
            with under(_META):
                _write_fields(meta, group, compression)


def read_batch_file(path: str | os.PathLike[str], device: Any, *, trusted: bool) -> tuple[Tree, dict[str, Any]]:
    """The batch of a file, and its document.

    Raises:
        StorageError: it holds something else.
    """
    root = read_file(path, [_ROOT, _META], trusted=trusted)
    if "typedbatch" not in root.attributes:
        raise StorageError("it is not a file of typedbatch.files; typedbatch.files.hdf5.from_hdf5 reads others")
    document: dict[str, Any] = json.loads(text_of(root.attributes["typedbatch"]))
    tree = built(root.members[_ROOT], device) if _ROOT in root.members else None
    if not isinstance(tree, Tree):
        raise StorageError("it holds no batch")
    if _META in root.members:
        set_meta(tree, as_meta(built(root.members[_META], device)))
    return tree, document
