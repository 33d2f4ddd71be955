"""Named arrays in one file, in the safetensors format: 8 bytes of length, a header in JSON, then the bytes.

https://github.com/huggingface/safetensors describes it. The header's metadata hold a text of our own, with a checksum
for each array and one for the header. Files without it are read as well, unchecked.
"""

from __future__ import annotations

import json
import os
import zlib
from math import prod
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typedbatch.errors import StorageError, under
from typedbatch.files.regular import open_regular

DTYPES: Final[dict[str, str]] = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "C64": "<c8",
    "BF16": "<i2",
    "F8_E4M3": "|u1",
    "F8_E5M2": "|u1",  # as bits: numpy has no such numbers
}
"""The dtypes of the format, as those of arrays."""
NAMES: Final = {dtype: name for name, dtype in reversed(DTYPES.items()) if name[:2] not in ("BF", "F8")}
OURS: Final = "typedbatch"
_SUM: Final = "typedbatch_crc32"
_LONGEST_HEADER: Final = 100_000_000  # of the format


class Stored(NamedTuple):
    """An array of a file, and the name that the format has for its dtype."""

    array: NDArray[Any]
    dtype: str


def write(file: IO[bytes], arrays: dict[str, Stored], document: dict[str, Any]) -> None:
    """Write arrays, in C order and the byte order of the format, and a document that JSON takes."""
    # First what fills places of 16 bytes, complex128 among it, then the largest dtype: so each array begins at a
    # multiple of its item size and can be mapped.
    arrays = dict(sorted(arrays.items(), key=lambda item: _place(item[1].array)))
    header: dict[str, Any] = {"__metadata__": {}}
    sums, end = {}, 0
    for name, (array, dtype) in arrays.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        sums[name] = zlib.crc32(array.data)
        end += array.nbytes
    header["__metadata__"][OURS] = json.dumps({**document, "crc32": sums}, separators=(",", ":"))
    header["__metadata__"][_SUM] = _sum_of(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 16)
    if len(text) > _LONGEST_HEADER:
        raise StorageError(f"{len(text)} bytes of names and objects, where the format ends at {_LONGEST_HEADER}")
    _write_all(file, len(text).to_bytes(8, "little") + text)
    for array, _ in arrays.values():
        _write_all(file, array)


def _place(array: NDArray[Any]) -> int:
    return -16 if array.nbytes % 16 == 0 else -array.itemsize


def _write_all(file: IO[bytes], data: Any) -> None:
    view = _bytes_of(data) if isinstance(data, np.ndarray) else memoryview(data)
    while view:
        view = view[file.write(view) :]


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _sum_of(header: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(header, sort_keys=True).encode()):08x}"


def read(path: str | os.PathLike[str], mmap: bool) -> tuple[dict[str, Stored], dict[str, Any] | None]:
    """The arrays of a file, and its document; None if another program wrote it.

    Args:
        path: the file.
        mmap: leave the data in the file until somebody looks at it; it is not checked then.

    Raises:
        StorageError: it is no such file, or damaged.
    """
    with open_regular(path, buffering=0) as file:
        header, start, size = _header(file)
        document = _document(header)
        sums = {} if document is None else document.pop("crc32")
        arrays: dict[str, Stored] = {}
        end = 0
        mapped = np.asarray(np.memmap(file, np.uint8, "c")) if mmap else None
        for name, (dtype, shape, begin, after) in sorted(_entries(header, size).items(), key=lambda item: item[1][2:]):
            if begin != end:
                raise StorageError("its data are not where the header says", name)
            end = after
            if mapped is not None:
                flat = aligned(mapped[start + begin : start + after].view(DTYPES[dtype]))
            else:
                flat = np.empty(prod(shape), DTYPES[dtype])
                _read_into(file, flat)
                if sums and zlib.crc32(flat.data) != sums[name]:
                    raise StorageError("its data are not what was written", name)
            arrays[name] = Stored(flat.reshape(shape), dtype)
        if end != size or (sums and sums.keys() != arrays.keys()):
            raise StorageError(f"{size} bytes of data, where {end} are expected")
    return arrays, document


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy if it does not begin at a multiple of its item size: torch crashes over complex ones."""
    return array if array.ctypes.data % array.itemsize == 0 else array.copy()


def _header(file: IO[bytes]) -> tuple[dict[str, Any], int, int]:
    """The header, where the data begin, and how many bytes of them there are."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _LONGEST_HEADER):
        raise StorageError("it is cut off, or not a safetensors file")
    header = json.loads(file.read(length).decode())
    if not isinstance(header, dict):
        raise StorageError("its header is not a JSON object")
    return header, 8 + length, size - 8 - length


def _entries(header: dict[str, Any], size: int) -> dict[str, tuple[str, list[int], int, int]]:
    """For each array its dtype, its shape, and the first byte and the one after the last."""
    entries = {}
    for name, entry in header.items():
        dtype, shape, (begin, after) = (entry[key] for key in ("dtype", "shape", "data_offsets"))
        if dtype not in DTYPES:
            raise StorageError(f"a dtype that is not known: {dtype!r}", name)
        with under(name):
            begin, after = sizes([begin, after])
            count = prod(sizes(shape))
        if after - begin != count * np.dtype(DTYPES[dtype]).itemsize or after > size:
            raise StorageError("its data are not where the header says", name)
        entries[name] = dtype, shape, begin, after
    return entries


def sizes(shape: Any) -> tuple[int, ...]:
    """The shape of an array in a file, or other numbers of that sort.

    Raises:
        StorageError: it is none.
    """
    if not isinstance(shape, list) or len(shape) > 64 or not all(type(size) is int and size >= 0 for size in shape):
        raise StorageError("its shape is not a list of sizes")
    return tuple(shape)


def _document(header: dict[str, Any]) -> dict[str, Any] | None:
    metadata = header.pop("__metadata__", None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise StorageError("its metadata are not texts by name")
    if OURS not in metadata and _SUM not in metadata:
        return None
    expected = metadata.pop(_SUM, None)
    if expected != _sum_of({"__metadata__": metadata, **header}):
        raise StorageError("its header is not what was written")
    document: dict[str, Any] = json.loads(metadata[OURS])
    if not isinstance(document, dict):
        raise StorageError("what it says of its fields is not a JSON object")
    return document


def _read_into(file: IO[bytes], array: NDArray[Any]) -> None:
    view = _bytes_of(array)
    while view:
        count = file.readinto(view)  # type: ignore[attr-defined]  # a raw file has it
        if not count:
            raise StorageError("it is cut off")
        view = view[count:]
