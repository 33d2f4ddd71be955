"""Values that a stage computes by networks of its own, rather than finding them in the batch."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from typedbatch.audit.output_gradients import tensors_in

OF_NETWORKS: Final = frozenset({"values", "next_values"})
"""Arguments of formulas that may be outputs of networks: values of ``obs``, and of ``obs_next``."""


@contextmanager
def network_values(fields: Mapping[str, Any], shape: torch.Size) -> Generator[dict[str, Tensor]]:
    """Record what modules return for whole fields of a batch, by the arguments of formulas.

    Args:
        fields: Fields of the batch.
        shape: Shape of one number per row.
    """
    inputs = {name: value for name, value in fields.items() if _is_input(value, shape)}
    found: dict[str, Tensor] = {}

    def take(_: nn.Module, given: tuple[Any, ...], out: Any) -> None:
        values = [value for value in tensors_in(out) if value.numel() == shape.numel() and value.is_floating_point()]
        tensors = [value for value in given if isinstance(value, Tensor)]
        names = [name for name, value in inputs.items() if tensors and _is_same(tensors[0], value)]
        if values and names:  # The outermost module, which returns last, is the one that the stage calls.
            found["next_values" if "next" in names[0] else "values"] = values[-1].detach().reshape(shape)

    handle = register_module_forward_hook(take)
    try:
        yield found
    finally:
        handle.remove()


def _is_input(value: Any, shape: torch.Size) -> bool:
    are_numbers = isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")
    return are_numbers and tuple(value.shape[: len(shape)]) == tuple(shape)


def _is_same(one: Tensor, other: Any) -> bool:
    if math.prod(other.shape) != one.numel():
        return False
    array = other if isinstance(other, Tensor) else np.ascontiguousarray(other, np.float32)
    value = torch.as_tensor(array, device=one.device)
    return torch.equal(one.detach().flatten().float(), value.flatten().float())
