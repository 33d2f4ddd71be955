"""Computations of the audit itself, which are not a part of what it traces."""

from __future__ import annotations

import torch
from torch._C import DisableTorchFunction


class untraced:  # noqa: N801  # a context manager, as torch.no_grad is
    """A block that computes without a trace and without gradients.

    It is no generator, since it is entered at most reads, and a generator would cost more than what it encloses.
    """

    def __enter__(self) -> None:
        self._guard = DisableTorchFunction()
        self._guard.__enter__()
        self._had_gradients = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # noqa: SLF001  # what torch.no_grad calls

    def __exit__(self, *_: object) -> None:
        torch._C._set_grad_enabled(self._had_gradients)  # noqa: SLF001
        self._guard.__exit__(None, None, None)
