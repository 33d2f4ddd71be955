"""Long arrays and tensors on one line: kind, dtype, shape and the first values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from typedbatch._report import cut
from typedbatch._tree.kinds import ARRAY, KINDS, TENSOR

_MOST: Final = 40
"""Largest number of elements that an array is shown with in full."""
_FIRST: Final = 4
"""Number of elements in a preview."""
_WIDEST: Final = 24
"""Largest number of characters of an element."""


def is_long(leaf: Any) -> bool:
    """Return True for an array or tensor whose elements would fill the screen."""
    kind = KINDS[type(leaf)]
    if kind is ARRAY:
        return bool(leaf.size > _MOST)
    return kind is TENSOR and not leaf.is_nested and leaf.numel() > _MOST


def preview(leaf: Any, show: Callable[[Any], str] = repr) -> str:
    """Return a line such as ``"array float32 (256, 4) [0.1, -0.2, 0.5, 0, ...]"``.

    Args:
        leaf: Array or tensor.
        show: Function that returns the text of an element that is a Python object.
    """
    kind = "tensor" if KINDS[type(leaf)] is TENSOR else "array"
    device = f" on {leaf.device}" if kind == "tensor" and leaf.device.type != "cpu" else ""
    dtype = str(leaf.dtype).removeprefix("torch.")
    return " ".join(filter(None, (kind, dtype, str(tuple(leaf.shape)) + device, first_values(leaf, show))))


def first_values(leaf: Any, show: Callable[[Any], str] = repr) -> str:
    """Return the first elements of an array or tensor, ``"[1, 2, 3, 4, ...]"``, or ``""`` if they cannot be read."""
    try:
        count = leaf.numel() if KINDS[type(leaf)] is TENSOR else leaf.size
        positions = zip(*np.unravel_index(range(min(count, _FIRST)), tuple(leaf.shape)), strict=True)
        elements = [leaf[tuple(map(int, position))] for position in positions]
        values = []
        for element in elements:
            value = element.item() if KINDS[type(element)] is TENSOR else element
            if isinstance(value, (float, complex, np.inexact)):
                values.append(f"{value:.4g}")
            else:
                text = str(value) if isinstance(value, (np.generic, np.ndarray)) else show(value)
                values.append(cut(" ".join(text.split()), _WIDEST))
    except Exception:  # noqa: BLE001  # Meta tensors, tensors inside torch.func and foreign classes may raise anything.
        return ""
    return f"[{', '.join([*values, *(['...'] if count > _FIRST else [])])}]"
