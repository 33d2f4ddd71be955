"""An array or tensor of many elements on one line: kind, dtype, shape and the first values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from typedbatch._report import cut
from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR

_MOST: Final = 40
"""With more elements than that an array is shown on one line."""
_FIRST: Final = 4
_WIDEST: Final = 24


def is_long(leaf: Any) -> bool:
    """True for an array or tensor of so many elements that they would fill the screen."""
    kind = KINDS[type(leaf)]
    if kind is ARRAY:
        return bool(leaf.size > _MOST)
    return kind is TENSOR and not leaf.is_nested and leaf.numel() > _MOST


def preview(leaf: Any, show: Callable[[Any], str] = repr) -> str:
    """``"array float32 (256, 4) [0.1, -0.2, 0.5, 0, ...]"``.

    Args:
        leaf: an array or tensor.
        show: the text of an element that is a Python object.
    """
    kind = "tensor" if KINDS[type(leaf)] is TENSOR else "array"
    device = f" on {leaf.device}" if kind == "tensor" and leaf.device.type != "cpu" else ""
    dtype = str(leaf.dtype).removeprefix("torch.")
    return " ".join(filter(None, (kind, dtype, str(tuple(leaf.shape)) + device, first_values(leaf, show))))


def first_values(leaf: Any, show: Callable[[Any], str] = repr) -> str:
    """The first few elements of an array or tensor, ``"[1, 2, 3, 4, ...]"``; empty if they cannot be read."""
    try:
        count = leaf.numel() if KINDS[type(leaf)] is TENSOR else leaf.size
        places = zip(*np.unravel_index(range(min(count, _FIRST)), tuple(leaf.shape)), strict=True)
        elements = [leaf[tuple(map(int, place))] for place in places]
        values = [_short(one.item() if KINDS[type(one)] is TENSOR else one, show) for one in elements]
    except Exception:  # noqa: BLE001  # a tensor without data, or on the way through torch.func; a foreign class
        return ""
    return f"[{', '.join([*values, *(['...'] if count > _FIRST else [])])}]"


def _short(value: Any, show: Callable[[Any], str]) -> str:
    if isinstance(value, (float, complex, np.inexact)):
        return f"{value:.4g}"
    text = " ".join((str(value) if isinstance(value, (np.generic, np.ndarray)) else show(value)).split())
    return cut(text, _WIDEST)
