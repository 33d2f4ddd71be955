"""Checks of gradients and losses: finite, and not those of the step before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from typedbatch.audit.objects import parameters_of
from typedbatch.audit.places import here
from typedbatch.audit.trace import Check, Trace


class Gradients(Check):
    """The gradients that an optimizer uses: finite, and of the losses since its last step alone."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._left: dict[int, tuple[Any, Any, int]] = {}
        self._kept: set[int] = set()
        self._waiting: list[str] = []
        self._used: set[str] = set()

    @override
    def backward(self, loss: Tensor) -> None:
        if not bool(loss.detach().isfinite().all()):
            self.trace.found("TB510 suspect-values", f"the loss is {loss.detach().flatten()[0].item()}")
        self._waiting.append(here())
        for key, (parameter, gradient, version) in self._left.items():
            now = parameter.grad
            if now is None or (key in self._kept and not bool(now.any())):
                self._kept.discard(key)
            elif now is gradient and now._version == version and bool(now.any()):  # noqa: SLF001  # no other way
                self._kept.add(key)

    @override
    def step(self, optimizer: torch.optim.Optimizer) -> None:
        parameters = parameters_of(optimizer)
        kept = [parameter for parameter in parameters if id(parameter) in self._kept and parameter.grad is not None]
        if kept and len(kept) == len([parameter for parameter in parameters if parameter.grad is not None]):
            names = self.trace.objects.summary(kept)
            self.trace.found(
                "TB509 stale-gradient",
                f"the gradients of {', '.join(sorted(names))} include those of the step before; zero_grad() is missing",
            )

    @override
    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        self._used.update(self._waiting)
        self._waiting = []
        for parameter in parameters_of(optimizer):
            self._kept.discard(id(parameter))
            if parameter.grad is not None:
                self._left[id(parameter)] = (parameter, parameter.grad, parameter.grad._version)  # noqa: SLF001

    @override
    def end(self) -> None:
        if self.trace.steps and self._waiting:
            count = len(self._waiting)
            self.trace.found(
                "TB509 stale-gradient",
                f"no step uses the gradients of the last {'loss' if count == 1 else f'{count} losses'} of the update; "
                "they are lost, or get into the next one",
                place=self._waiting[0],
                is_certain=self._waiting[0] in self._used,  # Others may be summed over several updates.
            )
