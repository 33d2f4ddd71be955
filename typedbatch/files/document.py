"""A batch as named arrays and a document that says how they belong together, and back."""

from __future__ import annotations

import pickle
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import torch_side
from typedbatch._tree.leaves import (
    ARRAY,
    BATCH,
    KINDS,
    RAGGED,
    SCALAR,
    TENSOR,
    Tree,
    describe,
    new_sequences,
    new_tree,
    object_array,
)
from typedbatch._tree.meta import as_meta, meta_of, set_meta
from typedbatch.batch import Batch
from typedbatch.errors import StorageError, TypedBatchError, under
from typedbatch.files.container import NAMES, Stored, aligned, sizes
from typedbatch.files.jsonable import plain, text
from typedbatch.ragged import Ragged
from typedbatch.sample_batches.multi_agent import MultiAgentBatch
from typedbatch.sample_batches.sample_batch import SampleBatch

CLASSES: Final[dict[str, type[Batch]]] = {cls.__name__: cls for cls in (Batch, SampleBatch, MultiAgentBatch)}
"""The classes that a file may name; anything else comes back as a Batch."""
_TORCH_NAMES: Final = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
_TENSORS_ONLY: Final = {name: dtype for dtype, name in _TORCH_NAMES.items()}


def class_name(batch: Tree) -> str:
    """The name in :data:`CLASSES` of the class that a batch is of.

    Raises:
        StorageError: it is a MultiAgentBatch that could not be made again.
    """
    name = next((cls.__name__ for cls in type(batch).__mro__ if cls in CLASSES.values()), "Batch")
    if CLASSES[name] is MultiAgentBatch:
        of_class(name, batch.__dict__)
    return name


def classes_of(batch: Tree) -> dict[str, Any]:
    """The name of the class of a batch, and those in it that are of a class other than Batch."""
    inner = {}
    for name, value in batch.__dict__.items():
        if KINDS[type(value)] is BATCH:
            with under(name):
                if meta_of(value):
                    raise StorageError("the meta of a nested batch, which HDF5 files do not keep; give it to the batch")
                classes = classes_of(value)
            if classes != {"class": "Batch"}:
                inner[name] = classes
    return {"class": class_name(batch), **({"inner": inner} if inner else {})}


def with_classes(batch: Tree, classes: dict[str, Any]) -> Batch:
    """The batch with the classes of :func:`classes_of`."""
    for name, inner in classes.get("inner", {}).items():
        batch.__dict__[name] = with_classes(batch.__dict__[name], inner)
    return of_class(classes["class"], batch.__dict__)


def of_class(name: str, fields: dict[str, Any]) -> Batch:
    """A batch of one of :data:`CLASSES`, with these fields.

    Raises:
        StorageError: there is no such class, or it has other fields.
    """
    if name not in CLASSES:
        raise StorageError(f"a class that is not known: {name!r}")
    if CLASSES[name] is not MultiAgentBatch:
        batch: Batch = new_tree(CLASSES[name], fields)
        return batch
    if fields.keys() != {"policy_batches", "count"}:
        raise StorageError(f"a MultiAgentBatch has the fields policy_batches and count, got {', '.join(fields)}")
    try:
        return MultiAgentBatch(fields["policy_batches"].__dict__, int(fields["count"]))
    except TypedBatchError as error:
        raise StorageError(f"what it says of a MultiAgentBatch does not fit together: {error}") from error


class Writer:
    """Takes a batch apart.

    Args:
        allow_pickle: pickle what is neither array nor JSON, instead of refusing it.
    """

    def __init__(self, allow_pickle: bool) -> None:
        self.arrays: dict[str, Stored] = {}
        self._allow_pickle = allow_pickle

    def node(self, value: Any, path: str) -> dict[str, Any]:
        """What the document says of a value; its arrays are kept."""
        kind = KINDS[type(value)]
        if kind is BATCH:
            return self._batch(value, path)
        if kind is RAGGED:
            lengths = np.asarray(value.sizes, np.int64)
            return {"ragged": self._batch(value.values, f"{path}.values"), "lengths": self._keep(lengths, path)}
        if kind is TENSOR:
            bits = torch_side().as_bits(value)
            name = str(value.dtype).removeprefix("torch.")
            if name in _TORCH_NAMES:
                node: dict[str, Any] = {"tensor": self._keep(bits, path, _TORCH_NAMES[name])}
            else:
                node = self._array(bits, path, "tensor")
            return {**node, "torch": name, "requires_grad": bool(value.requires_grad)}
        if isinstance(value, np.ma.MaskedArray):
            raise StorageError("a masked array, whose mask would be lost; fill it, and keep the mask as a field")
        if kind in (ARRAY, SCALAR) and value.dtype.kind in "biufcmM" and value.dtype != np.longdouble:
            return self._array(np.asarray(value), path, "array" if kind is ARRAY else "scalar")
        try:
            if kind is not ARRAY:
                return {"json": plain(value)}
            if value.dtype == object:
                return {"objects": [plain(one) for one in value.ravel()], "shape": value.shape}
            raise StorageError(f"{describe(value)} has a dtype that files lack; convert it")
        except StorageError as error:
            if not self._allow_pickle:
                raise StorageError(f"{error.reason}; allow_pickle=True saves it all the same") from None
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
            node["meta"] = {key: self._meta(key, value, path) for key, value in meta.items()}
        return node

    def _meta(self, key: str, value: Any, path: str) -> dict[str, Any]:
        with under(f"meta.{key}"):
            return self.node(value, f"{path}.meta.{text(key)}".removeprefix("."))

    def _array(self, array: NDArray[Any], path: str, kind: str) -> dict[str, Any]:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        order = {} if little.dtype == array.dtype else {"order": array.dtype.str[0]}
        if little.dtype.str in NAMES:
            return {kind: self._keep(little, path), **order}
        # a date is kept as a whole number, complex128 as two floats
        whole = np.ascontiguousarray(little).reshape(*array.shape, 1)
        stored = whole.view(np.float64) if array.dtype.kind == "c" else whole.view(np.int64)
        return {kind: self._keep(stored, path), "dtype": little.dtype.str, "shape": array.shape, **order}

    def _keep(self, array: NDArray[Any], path: str, dtype: str | None = None) -> str:
        key = path.encode(errors="replace").decode() or "field"
        while key in self.arrays or key == "__metadata__":  # "a.b" beside a Batch "a" with a field "b"
            key += "_"
        self.arrays[key] = Stored(np.asarray(array, order="C"), dtype or NAMES[array.dtype.str])
        return key


class Reader:
    """Puts a batch together.

    Args:
        arrays: what the file holds.
        device: where tensors go; None for the CPU.
        allow_pickle: load pickles, which may execute anything, instead of refusing them.
    """

    def __init__(self, arrays: dict[str, Stored], device: Any, allow_pickle: bool) -> None:
        self._arrays = arrays
        self._device = device
        self._allow_pickle = allow_pickle

    def everything(self) -> Batch:
        """The arrays of a file without a document, under their names."""
        fields = {name: self._leaf(stored) for name, stored in self._arrays.items()}
        batch: Batch = new_tree(Batch, fields)
        return batch

    def value(self, node: dict[str, Any]) -> Any:
        """The value that a document describes."""
        if "batch" in node:
            return self._batch(node)
        if "ragged" in node:
            return self._ragged(node)
        kind = next((kind for kind in ("array", "scalar", "tensor") if kind in node), None)
        if kind is not None:
            array = self._take(node[kind])
            if "dtype" in node:
                array = aligned(array.view(_safe_dtype(node["dtype"]))).reshape(sizes(node["shape"]))
            if "order" in node:
                array = array.astype(array.dtype.newbyteorder(_order(node["order"])))
            if kind == "tensor":
                return self._tensor(array, node["torch"], bool(node["requires_grad"]))
            return array if kind == "array" else array[()]
        if "objects" in node:
            return object_array(_list(node["objects"])).reshape(sizes(node["shape"]))
        if "json" in node:
            return node["json"]
        if not self._allow_pickle:
            raise StorageError("a pickle, which could execute anything; load(..., allow_pickle=True) if you trust it")
        return pickle.loads(self._take(node["pickle"]).data)

    def _take(self, name: str) -> NDArray[Any]:
        """An array, which nothing else in the batch may be: a short file could make many copies of it otherwise."""
        if name not in self._arrays:
            raise StorageError(f"the array {name!r} is not in the file, or in two places")
        return self._arrays.pop(name).array

    def _batch(self, node: dict[str, Any]) -> Batch:
        fields = {}
        for name, inner in node["batch"].items():
            with under(name):
                fields[name] = self.value(inner)
        batch = of_class(node["class"], fields)
        if "meta" in node:
            set_meta(batch, as_meta({key: self.value(inner) for key, inner in node["meta"].items()}))
        return batch

    def _ragged(self, node: dict[str, Any]) -> Any:
        lengths, values = self._take(node["lengths"]), self._batch(node["ragged"])
        try:
            ragged = Ragged(values, lengths.reshape(-1))
            return ragged if lengths.ndim else new_sequences(Ragged, ragged.values, ragged.sizes[0])
        except TypedBatchError as error:
            raise StorageError(f"its sequences do not fit together: {error}") from error

    def _leaf(self, stored: Stored) -> Any:
        if stored.dtype not in _TENSORS_ONLY:
            return stored.array
        return self._tensor(stored.array, _TENSORS_ONLY[stored.dtype], requires_grad=False)

    def _tensor(self, array: NDArray[Any], dtype: str, requires_grad: bool) -> Any:
        side = torch_side()
        known = side.dtype_named(dtype)
        if side.bits(known) != array.dtype:
            raise StorageError(f"a {array.dtype} array that is said to be {dtype}")
        return side.from_bits(array, known).to(self._device).requires_grad_(requires_grad)


def _safe_dtype(text: str) -> np.dtype[Any]:
    dtype = np.dtype(text)
    if dtype.kind not in "mMc":
        raise StorageError(f"a dtype that is not known: {text!r}")
    return dtype


def _order(order: Any) -> Literal[">"]:
    if order != ">":
        raise StorageError(f"an order of bytes that is not known: {order!r}")
    return ">"


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise StorageError("the items of an object array are not a list")
    return value
