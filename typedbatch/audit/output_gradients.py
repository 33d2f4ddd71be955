"""Gradients that outputs of networks get in an update, in a child process, whose steps change nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from typedbatch.audit.child import in_child, tensors_of_child

_MOST_OUTPUTS = 64
_MOST_NUMBERS = 4_000_000
_TOLERANCE = 1e-5
_SMALL = 0.05
"""Share of the largest gradient below which it is that of a bonus alone, as of entropy where a ratio is clipped."""


class OutputGradient(NamedTuple):
    """An output of a network, and the gradient of the losses by it; the last dimension is that of a position."""

    output: Tensor
    gradient: Tensor

    def positions(self) -> tuple[Tensor, Tensor]:
        """Return both with one row per position."""
        return self.output.flatten(0, -2), self.gradient.flatten(0, -2)


class Change(NamedTuple):
    """A change of the gradient at a position.

    Attributes:
        size: Largest change of a number.
        label: Index of the one number that changes, or that changes against all others as the logit of a choice does;
            of two numbers the first; -1 if there is none.
        sign: Sign of its change.
    """

    size: float
    label: int
    sign: int


@dataclass(frozen=True)
class Effect:
    """The positions at which outputs of networks, and gradients by them, differ from those of the update itself."""

    outputs: list[set[int]]
    gradients: list[dict[int, Change]]


class OutputGradients:
    """Replays of an update, each in a copy of this process, that say at which positions a change has an effect.

    Steps of optimizers change nothing in them, so that all minibatches are seen by the same weights.

    Args:
        update: The update.
        args: Its arguments.
        steps: Shape of one number per step of the batch, if it has several axes.
    """

    def __init__(self, update: Callable[..., Any], args: Sequence[Any], steps: tuple[int, ...] = ()) -> None:
        self._update, self._args, self._steps = update, args, steps
        self._base: list[OutputGradient] = []

    def begin(self) -> bool:
        """Record the update itself, and return whether it has a network whose outputs have gradients."""
        pairs = tensors_of_child(lambda: [tuple(output) for output in self._learn({})]).value
        self._base = [OutputGradient(*pair) for pair in pairs or ()]
        return bool(self._base) and self.effect({}) == Effect([set()] * len(self._base), [{}] * len(self._base))

    def used(self, number: int) -> set[int]:
        """Return the positions of an output at which the update has a gradient that is not small beside others."""
        sizes = self._base[number].positions()[1].abs().amax(-1)
        return set((sizes > _SMALL * sizes.max()).nonzero()[:, 0].tolist())

    def width(self, number: int) -> int:
        """Return the size of the last dimension of an output; 1 if it has one dimension."""
        return self._base[number].positions()[0].shape[1]

    def rows(self, number: int, positions: set[int]) -> set[int]:
        """Return the indices of the first dimension of an output at these positions."""
        per_row = self.per_row(number)
        return {position // per_row for position in positions}

    def per_row(self, number: int) -> int:
        """Return the number of positions in each index of the first dimension of an output."""
        return self._base[number].output.shape[1:-1].numel()

    def effect(self, changed: Mapping[int, Any]) -> Effect | None:
        """Return where changed arguments have an effect; None if the update refuses them, or calls other networks."""
        parts = in_child(lambda: [*_compared(self._base, self._learn(changed))]).value
        if parts is None:
            return None
        outputs = [set(positions) for positions, _ in parts]
        return Effect(outputs, [{int(at): Change(*change) for at, change in found.items()} for _, found in parts])

    def size(self, changed: Mapping[int, Any]) -> float | None:
        """Return the norm of all gradients for changed arguments; None if the update refuses them."""

        def measure() -> float:
            return math.sqrt(sum(float(output.gradient.double().square().sum()) for output in self._learn(changed)))

        size: float | None = in_child(measure).value
        return size

    def _learn(self, changed: Mapping[int, Any]) -> list[OutputGradient]:
        recorder = _Recorder(self._steps)
        try:
            with recorder.recording():
                self._update(*(changed.get(number, arg) for number, arg in enumerate(self._args)))
        except _Enough:
            pass
        return [] if recorder.maximizes else recorder.outputs


class _Enough(BaseException):
    """Ends an update of which enough was seen."""


class _Recorder:
    """The outputs of outermost modules, and their gradients.

    Args:
        steps: Shape of one number per step of the batch.
    """

    def __init__(self, steps: tuple[int, ...]) -> None:
        self._steps = steps
        self.outputs: list[OutputGradient] = []
        self._depth = self._numbers = 0
        self.maximizes: bool = False
        """Whether an optimizer maximizes; its gradients have the other sign, and are not used."""

    @contextmanager
    def recording(self) -> Generator[None]:
        with ExitStack() as stack:
            stack.callback(register_module_forward_pre_hook(self._before_call).remove)
            stack.callback(register_module_forward_hook(self._after_call, always_call=True).remove)
            stack.callback(register_optimizer_step_pre_hook(self._before_step).remove)
            yield

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            self.maximizes = self.maximizes or group.get("maximize", False)
            group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0

    def _before_call(self, *_: Any) -> None:
        if not self._depth and (len(self.outputs) >= _MOST_OUTPUTS or self._numbers > _MOST_NUMBERS):
            raise _Enough
        self._depth += 1

    def _after_call(self, module: Any, given: Any, out: Any) -> None:
        self._depth -= 1
        if not self._depth:
            shapes = [value.shape for value in given if isinstance(value, Tensor)]
            for tensor in tensors_in(out):
                self._record(tensor, shapes)

    def _record(self, tensor: Tensor, given: Sequence[torch.Size]) -> None:
        """Record an output of a module that was given tensors of these shapes."""
        if not tensor.requires_grad or not tensor.ndim:
            return
        # A batch of several axes has one number per step in an output of these axes, or of parts of them.
        is_per_step = len(self._steps) > 1 and tensor.ndim == len(self._steps)
        is_whole = tensor.shape == self._steps or any(
            len(shape) > tensor.ndim and shape[: tensor.ndim] == tensor.shape for shape in given
        )
        value = tensor.detach().clone()
        value = value.unsqueeze(-1) if tensor.ndim == 1 or (is_per_step and is_whole) else value
        output = OutputGradient(value, torch.zeros_like(value))
        self._numbers += tensor.numel()
        self.outputs.append(output)

        def add(gradient: Tensor) -> None:
            output.gradient.add_(gradient.detach().reshape(value.shape))

        tensor.register_hook(add)  # type: ignore[no-untyped-call]  # torch does not say what it takes


def tensors_in(out: Any) -> Iterator[Tensor]:
    """Yield the tensors of the result of a module, and the parameters of a distribution."""
    if isinstance(out, Tensor):
        yield out
    elif isinstance(out, (tuple, list)):
        for part in out:
            yield from tensors_in(part)
    elif isinstance(out, Mapping):
        yield from tensors_in([*out.values()])
    else:
        for name in ("logits", "loc"):
            if isinstance(value := getattr(out, name, None), Tensor):
                yield value


def _compared(base: list[OutputGradient], other: list[OutputGradient]) -> Iterator[tuple[list[int], dict[int, Change]]]:
    """Yield the positions at which each output and its gradient differ; fail if other networks were called."""
    for one, two in zip(base, other, strict=True):
        if one.output.shape != two.output.shape:
            raise ValueError("an output has another shape")
        (output, gradient), (others, after) = one.positions(), two.positions()
        apart = (others - output).abs().amax(-1) > _TOLERANCE * max(float(output.abs().max()), 1e-12)
        moved = after - gradient
        scale = max(float(gradient.abs().max()), float(after.abs().max()), 1e-12)
        sizes, at = moved.abs().max(-1)
        found = (sizes > _TOLERANCE * scale).nonzero()[:, 0].tolist()
        changes = {position: _change(moved[position], int(at[position])) for position in found}
        yield apart.nonzero()[:, 0].tolist(), changes


def _change(moved: Tensor, at: int) -> Change:
    value = float(moved[at])
    others = torch.cat([moved[:at], moved[at + 1 :]])
    is_alone = not bool(others.any())
    is_against = bool((others * value <= 0).all()) and abs(float(moved.sum())) < 1e-3 * abs(value)
    if is_against and len(moved) == 2:  # Both are as large, but for rounding.
        return Change(abs(value), 0, 1 if float(moved[0]) > 0 else -1)
    return Change(abs(value), at if is_alone or is_against else -1, 1 if value > 0 else -1)


def other_values(values: Any, there: Any) -> Any:
    """Return other integers in place of these, of those that are there."""
    low, high = there.min(), there.max()
    return torch.where(values == low, high, low) if isinstance(values, Tensor) else np.where(values == low, high, low)
