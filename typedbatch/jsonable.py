"""Values that JSON holds and gives back as they were."""

from __future__ import annotations

from typing import Any

import numpy as np

from typedbatch.errors import StorageError
from typedbatch.leaves import KINDS, SCALAR, describe

_PLAIN = (bool, int, float, str, type(None))


def plain(value: Any) -> Any:
    """The value as JSON takes it, if it can come back as the same.

    Raises:
        StorageError: it cannot.
    """
    if type(value) in _PLAIN:
        return value
    if KINDS[type(value)] is SCALAR and value.dtype.kind in "biuf" and value.dtype != np.longdouble:
        return value.item()
    if type(value) is list:
        return [plain(one) for one in value]
    if type(value) is dict and all(type(name) is str for name in value):
        return {name: plain(one) for name, one in value.items()}
    raise StorageError(f"{describe(value)} is nothing that JSON holds; leave the field out, or make it an array")
