"""Conversion between a batch and named arrays with a document, which describes how they form the batch."""

from __future__ import annotations

import pickle
import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.depth import DEEPEST
from typedbatch._core.kinds import KINDS, Kind, Tree, describe, new_sequences, new_tree, object_array
from typedbatch._core.meta import as_meta, meta_of, set_meta
from typedbatch._ops.conversion import torch_side
from typedbatch.batch import Batch
from typedbatch.errors import StorageError, TypedBatchError, under
from typedbatch.files.container import NAMES, Stored, aligned, sizes
from typedbatch.ragged import Ragged

_TORCH_NAMES: Final = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
_TENSORS_ONLY: Final = {name: dtype for dtype, name in _TORCH_NAMES.items()}
_PLAIN = (bool, float, type(None))
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONGEST = 14_000  # bits; Python refuses to parse integers of more than 4300 digits
VERSION: Final = 1
"""Version of the file format."""


def text(value: str) -> str:
    """Return the text, after checking that it survives JSON, which would combine the halves of a surrogate pair."""
    if _PAIR.search(value):
        raise StorageError("text with surrogate pairs cannot be stored, because JSON combines them; decode it first")
    return value


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value that JSON can store and that comes back equal. Numpy numbers become Python numbers."""
    kind = type(value)
    if kind is str:
        return text(value)
    if kind in _PLAIN or (kind is int and value.bit_length() < _LONGEST):
        return value
    if KINDS[kind] is Kind.SCALAR and value.dtype.kind in "biuf" and value.dtype != np.longdouble:
        return value.item()
    if depth > DEEPEST:
        raise StorageError(f"the value is nested more than {DEEPEST} deep, or contains itself; leave the field out")
    if kind is list:
        return [plain(item, depth + 1) for item in value]
    if kind is dict and all(type(key) is str for key in value):
        return {text(key): plain(item, depth + 1) for key, item in value.items()}
    from typedbatch.sample_batches.compression import Compressed  # most files have no compressed columns

    if kind is Compressed:
        raise StorageError("a compressed column cannot be stored; call decompress_if_needed() first")
    raise StorageError(f"{describe(value)} cannot be written as JSON; leave the field out, or make it an array")


def require_version(document: dict[str, Any]) -> None:
    """Raise an error unless a document has the version of the file format that can be read."""
    if document["version"] != VERSION:
        reason = f"it has version {document['version']} of the file format, but only version {VERSION} can be read"
        raise StorageError(reason)


def class_name(batch: Tree) -> str:
    """Return Batch, SampleBatch or MultiAgentBatch: the class of a batch, or its nearest base among them."""
    if type(batch) is Batch:
        return "Batch"
    from typedbatch.sample_batches import MultiAgentBatch, SampleBatch

    if isinstance(batch, MultiAgentBatch):
        build_class("MultiAgentBatch", batch.__dict__)
        return "MultiAgentBatch"
    return "SampleBatch" if isinstance(batch, SampleBatch) else "Batch"


def classes_of(batch: Tree) -> dict[str, Any]:
    """Return the name of the class of a batch, and the names for those nested batches that are not a plain Batch."""
    inner = {}
    for name, value in batch.__dict__.items():
        if KINDS[type(value)] is Kind.BATCH:
            with under(name):
                if meta_of(value):
                    raise StorageError(
                        "the meta of a nested batch cannot be stored in an HDF5 file; move it to the outermost batch"
                    )
                classes = classes_of(value)
            if classes != {"class": "Batch"}:
                inner[name] = classes
    return {"class": class_name(batch), **({"inner": inner} if inner else {})}


def with_classes(batch: Tree, classes: dict[str, Any]) -> Batch:
    """Return the batch with the classes that :func:`classes_of` returned for it."""
    for name, inner in classes.get("inner", {}).items():
        batch.__dict__[name] = with_classes(batch.__dict__[name], inner)
    return build_class(classes["class"], batch.__dict__)


def build_class(name: str, fields: dict[str, Any]) -> Batch:
    """Return a batch of a class that :func:`class_name` can return, with these fields."""
    if name == "Batch":
        return new_tree(Batch, fields)
    from typedbatch.sample_batches import MultiAgentBatch, SampleBatch

    if name == "SampleBatch":
        return new_tree(SampleBatch, fields)
    if name != "MultiAgentBatch":
        raise StorageError(f"expected one of the classes Batch, SampleBatch, MultiAgentBatch, got {name!r}")
    if fields.keys() != {"policy_batches", "count"}:
        raise StorageError(f"a MultiAgentBatch has the fields policy_batches and count, got {', '.join(fields)}")
    try:
        return MultiAgentBatch(fields["policy_batches"].__dict__, int(fields["count"]))
    except TypedBatchError as error:
        raise StorageError(f"its MultiAgentBatch is inconsistent: {error}") from error


class DocumentWriter:
    """A converter from a batch to a document, which collects the arrays by the names that the document uses.

    With ``allow_pickle`` values that are neither arrays nor JSON are pickled instead of refused.
    """

    def __init__(self, allow_pickle: bool) -> None:
        self.arrays: dict[str, Stored] = {}
        self._allow_pickle = allow_pickle

    def node(self, value: Any, path: str) -> dict[str, Any]:
        """Return the node of the document for a value, and add the value's arrays to :attr:`arrays`."""
        kind = KINDS[type(value)]
        if kind is Kind.BATCH:
            return self._batch(value, path)
        if kind is Kind.RAGGED:
            lengths = np.asarray(value.sizes, np.int64)
            return {"ragged": self._batch(value.values, f"{path}.values"), "lengths": self._keep(lengths, path)}
        if kind is Kind.TENSOR:
            bits = torch_side().as_bits(value)
            name = str(value.dtype).removeprefix("torch.")
            if name in _TORCH_NAMES:
                node: dict[str, Any] = {"tensor": self._keep(bits, path, _TORCH_NAMES[name])}
            else:
                node = self._array(bits, path, "tensor")
            return {**node, "torch": name, "requires_grad": bool(value.requires_grad)}
        if isinstance(value, np.ma.MaskedArray):
            raise StorageError("a masked array would lose its mask; fill it, and store the mask as a field")
        if kind in (Kind.ARRAY, Kind.SCALAR) and value.dtype.kind in "biufcmM" and value.dtype != np.longdouble:
            return self._array(np.asarray(value), path, "array" if kind is Kind.ARRAY else "scalar")
        try:
            if kind is not Kind.ARRAY:
                return {"json": plain(value)}
            if value.dtype == object:
                return {"objects": [plain(item) for item in value.ravel()], "shape": value.shape}
            raise StorageError(f"{describe(value)} has a dtype that files cannot store; convert it")
        except StorageError as error:
            if not self._allow_pickle:
                raise StorageError(f"{error.reason}; or pickle it with allow_pickle=True") from None
        data = np.frombuffer(pickle.dumps(value, protocol=5), np.uint8)
        return {"pickle": self._keep(data, path)}

    def _batch(self, batch: Tree, path: str) -> dict[str, Any]:
        fields = {}
        for name, value in batch.__dict__.items():
            try:
                fields[text(name)] = self.node(value, f"{path}.{name}" if path else name)
            except TypedBatchError as error:
                raise error.under(name) from error.__cause__
            except (TypeError, ValueError, RuntimeError, pickle.PicklingError, AttributeError) as error:
                raise StorageError(f"{describe(value)} cannot be written: {error}", name) from error
        node: dict[str, Any] = {"batch": fields, "class": class_name(batch)}
        if meta := meta_of(batch):
            node["meta"] = {}
            for key, value in meta.items():
                with under(f"meta.{key}"):
                    node["meta"][key] = self.node(value, f"{path}.meta.{text(key)}".removeprefix("."))
        return node

    def _array(self, array: NDArray[Any], path: str, kind: str) -> dict[str, Any]:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        order = {} if little.dtype == array.dtype else {"order": array.dtype.str[0]}
        if little.dtype.str in NAMES:
            return {kind: self._keep(little, path), **order}
        # The format lacks dates and complex128: a date is stored as an int64, a complex number as two float64.
        contiguous = np.ascontiguousarray(little).reshape(*array.shape, 1)
        stored = contiguous.view(np.float64 if array.dtype.kind == "c" else np.int64)
        return {kind: self._keep(stored, path), "dtype": little.dtype.str, "shape": array.shape, **order}

    def _keep(self, array: NDArray[Any], path: str, dtype: str | None = None) -> str:
        key = path.encode(errors="replace").decode() or "field"
        while key in self.arrays or key == "__metadata__":
            key += "_"  # A field "a.b" and the field "b" of a Batch "a" have the same path.
        self.arrays[key] = Stored(np.asarray(array, order="C"), dtype or NAMES[array.dtype.str])
        return key


class DocumentReader:
    """A converter from a document and its arrays to a batch.

    With ``allow_pickle`` it loads pickles, which may execute anything.
    """

    def __init__(self, arrays: dict[str, Stored], device: Any, allow_pickle: bool) -> None:
        self._arrays = arrays
        self._device = device
        self._allow_pickle = allow_pickle

    def everything(self) -> Batch:
        """Return a batch of all arrays under their names, for a file without a document."""
        fields: dict[str, Any] = {}
        for name, (array, dtype) in self._arrays.items():
            is_tensor = dtype in _TENSORS_ONLY
            fields[name] = self._tensor(array, _TENSORS_ONLY[dtype], requires_grad=False) if is_tensor else array
        return new_tree(Batch, fields)

    def value(self, node: dict[str, Any]) -> Any:
        """Return the value that a node of a document describes."""
        if "batch" in node:
            return self._batch(node)
        if "ragged" in node:
            lengths, values = self._take(node["lengths"]), self._batch(node["ragged"])
            try:
                ragged = Ragged(values, lengths.reshape(-1))
                return ragged if lengths.ndim else new_sequences(Ragged, ragged.values, ragged.sizes[0])
            except TypedBatchError as error:
                raise StorageError(f"its sequences do not match its values: {error}") from error
        kind = next((kind for kind in ("array", "scalar", "tensor") if kind in node), None)
        if kind is not None:
            array = self._take(node[kind])
            if "dtype" in node:
                dtype = np.dtype(node["dtype"])
                if dtype.kind not in "mMc":
                    raise StorageError(f"unknown dtype {node['dtype']!r}")
                array = aligned(array.view(dtype)).reshape(sizes(node["shape"]))
            if "order" in node:
                if node["order"] != ">":
                    raise StorageError(f"unknown byte order {node['order']!r}")
                array = array.astype(array.dtype.newbyteorder(">"))
            if kind == "tensor":
                return self._tensor(array, node["torch"], bool(node["requires_grad"]))
            return array if kind == "array" else array[()]
        if "objects" in node:
            if not isinstance(node["objects"], list):
                raise StorageError("the items of an object array are not a list")
            return object_array(node["objects"]).reshape(sizes(node["shape"]))
        if "json" in node:
            return node["json"]
        if not self._allow_pickle:
            raise StorageError(
                "it is a pickle, which could execute anything; use load(..., allow_pickle=True) if you trust the file"
            )
        return pickle.loads(self._take(node["pickle"]).data)

    def _take(self, name: str) -> NDArray[Any]:
        """Remove and return an array. If arrays could be used twice, a small file could load as many copies of one."""
        if name not in self._arrays:
            raise StorageError(f"the array {name!r} is missing from the file, or is used twice")
        return self._arrays.pop(name).array

    def _batch(self, node: dict[str, Any]) -> Batch:
        fields = {}
        for name, inner in node["batch"].items():
            with under(name):
                fields[name] = self.value(inner)
        batch = build_class(node["class"], fields)
        if "meta" in node:
            set_meta(batch, as_meta({key: self.value(inner) for key, inner in node["meta"].items()}))
        return batch

    def _tensor(self, array: NDArray[Any], dtype: str, requires_grad: bool) -> Any:
        side = torch_side()
        torch_dtype = side.dtype_named(dtype)
        if side.bits(torch_dtype) != array.dtype:
            raise StorageError(f"expected {side.bits(torch_dtype)} data for a tensor of {dtype}, got {array.dtype}")
        return side.from_bits(array, torch_dtype).to(self._device).requires_grad_(requires_grad)
