"""Values that JSON can store without changing them."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from typedbatch._tree.depth import DEEPEST
from typedbatch._tree.kinds import KINDS, SCALAR, describe
from typedbatch.errors import StorageError

_PLAIN = (bool, float, type(None))
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONGEST = 14_000  # bits; Python refuses to parse integers of more than 4300 digits


def text(value: str) -> str:
    """Return the text, after checking that it survives JSON.

    Raises:
        StorageError: It contains a surrogate pair, whose two halves JSON would combine into one character.
    """
    if _PAIR.search(value):
        raise StorageError("text with surrogate pairs cannot be stored, because JSON combines them; decode it first")
    return value


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value that JSON can store and that comes back equal. Numpy numbers become Python numbers.

    Raises:
        StorageError: JSON cannot store the value.
    """
    kind = type(value)
    if kind is str:
        return text(value)
    if kind in _PLAIN or (kind is int and value.bit_length() < _LONGEST):
        return value
    if KINDS[kind] is SCALAR and value.dtype.kind in "biuf" and value.dtype != np.longdouble:
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
