"""Values that JSON holds and gives back as they were."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from typedbatch._tree.depth import DEEPEST
from typedbatch._tree.leaves import KINDS, SCALAR, describe
from typedbatch.errors import StorageError
from typedbatch.sample_batches.compression import Compressed

_PLAIN = (bool, float, type(None))
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONGEST = 14_000  # bits; Python reads no more than 4300 digits


def text(value: str) -> str:
    """The text itself, if JSON gives it back so.

    Raises:
        StorageError: it does not: two halves of a surrogate pair become one character.
    """
    if _PAIR.search(value):
        raise StorageError("text with surrogate pairs, which JSON makes other characters of; decode it first")
    return value


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON takes it, if it can come back as an equal one. Numbers of numpy become those of Python.

    Raises:
        StorageError: it cannot.
    """
    kind = type(value)
    if kind is str:
        return text(value)
    if kind in _PLAIN or (kind is int and value.bit_length() < _LONGEST):
        return value
    if KINDS[kind] is SCALAR and value.dtype.kind in "biuf" and value.dtype != np.longdouble:
        return value.item()
    if depth > DEEPEST:
        raise StorageError(f"a value nested more than {DEEPEST} deep, or in itself; leave the field out")
    if kind is list:
        return [plain(one, depth + 1) for one in value]
    if kind is dict and all(type(name) is str for name in value):
        return {text(name): plain(one, depth + 1) for name, one in value.items()}
    if kind is Compressed:
        raise StorageError("a compressed column; decompress_if_needed() first")
    raise StorageError(f"{describe(value)} cannot be written as JSON; leave the field out, or make it an array")
