"""Every operation that is followed, by its name."""

from __future__ import annotations

from typing import Final

from typedbatch._program.arrays import (
    arranging,
    elementwise,
    joining,
    layers,
    losses,
    making,
    picking,
    products,
    reducing,
    windows,
)
from typedbatch._program.arrays.values import Operation

_ROOMS = (
    *(elementwise, making, joining, reducing, arranging, picking, losses, products),
    *(windows, layers),
)

FUNCTIONS: Final[dict[str, Operation]] = {name: call for room in _ROOMS for name, call in room.FUNCTIONS.items()}
"""Functions of numpy, torch and torch.nn.functional."""
METHODS: Final[dict[str, Operation]] = {name: call for room in _ROOMS for name, call in room.METHODS.items()}
"""Methods of arrays and tensors."""
ATTRIBUTES: Final[dict[str, Operation]] = arranging.ATTRIBUTES
"""``x.T``, ``x.mT``."""
RESHAPED_IN_PLACE: Final = frozenset(
    {"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "resize_", "resize", "resize_as_", "set_"}
)
"""What gives an array another shape without making another array."""
