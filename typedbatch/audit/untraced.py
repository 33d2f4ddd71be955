"""Computations of the audit itself, which are not a part of what it traces."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch._C import DisableTorchFunction


@contextmanager
def untraced() -> Generator[None]:
    """Compute without a trace and without gradients in a block."""
    with DisableTorchFunction(), torch.no_grad():
        yield
