"""Named arrays in a safetensors file: the length of the header in 8 bytes, the header as JSON, then the data.

https://github.com/huggingface/safetensors describes the format. The metadata in the header contain the document of
typedbatch, with a checksum for each array and one for the header. Files of other programs have no document; they are
read too, without checksums.
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
    "BOOL": "|b1", "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
    "I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
    # They are stored as integers with the same bits, because numpy lacks these dtypes.
    "BF16": "<i2", "F8_E4M3": "|u1", "F8_E5M2": "|u1",
}  # fmt: skip
"""The numpy dtype for each dtype of the format."""
NAMES: Final = {dtype: name for name, dtype in reversed(DTYPES.items()) if name[:2] not in ("BF", "F8")}
OURS: Final = "typedbatch"
_SUM: Final = "typedbatch_crc32"
_LARGEST_SUM: Final = 2**32 - 1
_PART: Final = 1 << 20
"""Number of bytes that are written at once."""
_LONGEST_HEADER: Final = 100_000_000  # the limit of the reference implementation


class Stored(NamedTuple):
    """An array of a file, and the name of its dtype in the format."""

    array: NDArray[Any]
    dtype: str


def write(file: IO[bytes], arrays: dict[str, Stored], document: dict[str, Any]) -> None:
    """Write C-contiguous, little-endian arrays and a document, which must be JSON, to an empty raw file."""
    # Arrays whose sizes are multiples of 16 bytes come first, complex128 among them, then the largest item sizes.
    # So each array begins at a multiple of its item size and can be mapped.
    alignments = {name: array.itemsize if array.nbytes % 16 else 16 for name, (array, _) in arrays.items()}
    ordered = [(name, arrays[name]) for name in sorted(arrays, key=alignments.__getitem__, reverse=True)]
    entries: dict[str, Any] = {}
    end = 0
    for name, (array, dtype) in ordered:
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    # The header comes first, with checksums that are known last: its length is that for the longest checksums.
    document_json = _as_json(document)
    header = _header(entries, document_json, dict.fromkeys(entries, _LARGEST_SUM))
    header["__metadata__"][_SUM] = "0" * 8
    length = len(_as_json(header))
    length += -(length + 8) % 16
    if length > _LONGEST_HEADER:
        text = f"the format allows {_LONGEST_HEADER} bytes for names and objects, got {length}; leave some fields out"
        raise StorageError(text)
    file.seek(8 + length)
    sums = {name: _write_array(file, array) for name, (array, _) in ordered}
    file.seek(0)
    header = _header(entries, document_json, sums)
    header["__metadata__"][_SUM] = _sum_of(header)
    _write_all(file, memoryview(length.to_bytes(8, "little") + _as_json(header).ljust(length)))


def _header(entries: dict[str, Any], document: bytes, sums: dict[str, int]) -> dict[str, Any]:
    """Return the header of a file, without its own checksum; those of the arrays are added to the document."""
    text = b'%s,"crc32":%s}' % (document[:-1], _as_json(sums))
    return {"__metadata__": {OURS: text.decode()}, **entries}


def _as_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _write_array(file: IO[bytes], array: NDArray[Any]) -> int:
    """Write an array, and return its checksum. Each part is written while it is still in the cache of the processor."""
    data, found = array.reshape(-1).view(np.uint8).data, 0
    for start in range(0, len(data), _PART):
        part = data[start : start + _PART]
        found = zlib.crc32(part, found)
        _write_all(file, part)
    return found


def _write_all(file: IO[bytes], view: memoryview) -> None:
    while view:
        view = view[file.write(view) :]


def _sum_of(header: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(header, sort_keys=True).encode()):08x}"


def read(path: str | os.PathLike[str], mmap: bool) -> tuple[dict[str, Stored], dict[str, Any] | None]:
    """Return the arrays of a file and its document, or None as the document if another program wrote the file.

    With ``mmap``, the data stays in the file until it is used, and its checksums are not verified.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            raise StorageError("it is cut off, or not a safetensors file")
        header = json.loads(file.read(length).decode())
        if not isinstance(header, dict):
            raise StorageError("its header is not a JSON object")
        start, size = 8 + length, size - 8 - length  # of the data
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
                count = file.readinto(flat.view(np.uint8).data)  # type: ignore[attr-defined]  # IO lacks readinto
                if count < flat.nbytes:
                    raise StorageError("it is cut off")
                if sums and zlib.crc32(flat.data) != sums[name]:
                    raise StorageError("its data do not match their checksum", name)
            arrays[name] = Stored(flat.reshape(shape), dtype)
        if end != size:
            raise StorageError(f"expected {end} bytes of data, got {size}")
        if sums and sums.keys() != arrays.keys():
            raise StorageError("its checksums are for other arrays than it contains")
    return arrays, document


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself, or a copy if its memory does not begin at a multiple of its item size.

    Memory of a file may begin anywhere, and torch may crash when it reads numbers that are not aligned.
    """
    return array if array.ctypes.data % array.itemsize == 0 else array.copy()


def _entries(header: dict[str, Any], size: int) -> dict[str, tuple[str, list[int], int, int]]:
    """Return, for each array, its dtype, its shape, and its first byte and last byte + 1 within the data."""
    entries = {}
    for name, entry in header.items():
        dtype, shape, (begin, after) = (entry[key] for key in ("dtype", "shape", "data_offsets"))
        if dtype not in DTYPES:
            raise StorageError(f"unknown dtype {dtype!r}", name)
        with under(name):
            begin, after = sizes([begin, after])
            count = prod(sizes(shape))
        if after - begin != count * np.dtype(DTYPES[dtype]).itemsize or after > size:
            raise StorageError("its data are not where the header says", name)
        entries[name] = dtype, shape, begin, after
    return entries


def sizes(shape: Any) -> tuple[int, ...]:
    """Return a shape, or a list from a file of at most 64 integers, none of them negative, as a tuple."""
    if not isinstance(shape, list) or len(shape) > 64 or not all(type(size) is int and size >= 0 for size in shape):
        raise StorageError("its shape is not a list of non-negative integers")
    return tuple(shape)


def _document(header: dict[str, Any]) -> dict[str, Any] | None:
    metadata = header.pop("__metadata__", None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise StorageError("its metadata are not a JSON object of strings")
    if OURS not in metadata and _SUM not in metadata:
        return None
    expected = metadata.pop(_SUM, None)
    if expected != _sum_of({"__metadata__": metadata, **header}):
        raise StorageError("its header does not match its checksum")
    document: dict[str, Any] = json.loads(metadata[OURS])
    if not isinstance(document, dict):
        raise StorageError("its description of the fields is not a JSON object")
    return document
