"""Check of sums at indices: ``x[index] += value`` adds once where an index occurs twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from typedbatch.audit.tags import UNKNOWN, Tags
from typedbatch.audit.trace import Check, Operation, Trace


class Accumulation(Check, operations=frozenset({"__getitem__", "__setitem__"})):
    """The positions of an augmented assignment: each occurs once."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._taken = Tags()
        """Values that were taken at an index, which Python gives back to ``__setitem__`` after ``+=``."""

    @override
    def operation(self, operation: Operation) -> None:
        if operation.name == "__getitem__":
            if isinstance(operation.out, Tensor):
                self._taken.put(operation.out, UNKNOWN)
            return
        value = operation.args[2]
        if self._taken.of(value) is not None and self.trace.tag_of(value).made_by.endswith("_"):
            count = _repeated(operation.args[1])
            if count:
                self.trace.found(
                    "TB510 suspect-values",
                    f"x[index] += values adds once where an index occurs again, as {count} do; use index_add_, "
                    "scatter_add_ or index_put_(accumulate=True)",
                )


def _repeated(index: Any) -> int:
    """Return the number of positions of an index that occur before in it."""
    parts = [
        part for part in (index if isinstance(index, tuple) else (index,)) if isinstance(part, (Tensor, np.ndarray))
    ]
    with torch.no_grad():
        tensors = [torch.as_tensor(part) for part in parts]
        if not tensors or any(tensor.is_floating_point() or tensor.dtype == torch.bool for tensor in tensors):
            return 0
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
        positions = torch.stack([tensor.expand(shape).reshape(-1) for tensor in tensors], 1)
        return len(positions) - len(torch.unique(positions, dim=0))
