"""Checks of formulas that no loss has, and of sums at indices that occur twice."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from typedbatch.audit.tags import ADVANTAGES, ELEMENTWISE, LOSS_MASKS, PRODUCTS, UNKNOWN, Tags, dim_of, listed
from typedbatch.audit.trace import Check, Operation

_PER_ROW: Final = ADVANTAGES | LOSS_MASKS | frozenset({"weight", "is_weights"})
_TAKES_LOGITS: Final = frozenset({"softmax", "log_softmax", "logsumexp", "cross_entropy"})
_TAKES_LOG: Final = frozenset({"nll_loss"})
_OVER: Final = frozenset({"softmax", "log_softmax", "logsumexp", "argmax"})
_CLAMPS: Final = frozenset({"clamp", "clip", "clamp_min", "clamp_max"})
_FEWEST: Final = 16
_CLOSE: Final = 1e-4
_INVERSES: Final = frozenset({"__rtruediv__", "__rdiv__", "reciprocal"})
_QUOTIENTS: Final = frozenset({"div", "__truediv__", "true_divide", "divide"})


class Formulas(Check, code="TB507 wrong-weight"):
    """Operations of losses that no algorithm has."""

    def _begin(self) -> None:
        self._expected = Tags()

    def operation(self, operation: Operation) -> None:
        name, tag = operation.name, operation.tags[0]
        if name in _TAKES_LOGITS and tag.made_by == "softmax" and tag.from_model:
            self._found(f"{name} takes logits, and is given the probabilities of a softmax; remove one of the two")
        elif name in _TAKES_LOG and tag.made_by in ("softmax", "linear") and tag.from_model:
            self._found(f"{name} takes log-probabilities, and is given the output of {tag.made_by}; use log_softmax")
        elif name == "binary_cross_entropy_with_logits" and tag.made_by == "sigmoid":
            self._found(f"{name} takes logits, and is given the probabilities of a sigmoid; remove one of the two")
        if name == "mean":
            self._find_expectation(operation)
        if name in ELEMENTWISE:
            self._find_statistic(operation)
        if name in _CLAMPS:
            self._find_clamp(operation)
        if name in _OVER:
            self._find_over_rows(operation)
        elif name in PRODUCTS and len(operation.tensors) == 2:
            self._mark_expected(operation)
            self._find_scale(operation)
            self._find_weighted_mean(operation)
        elif name in _QUOTIENTS and len(operation.tensors) == 2:
            self._find_other_count(operation)
            self._find_other_side(operation)

    def _find_statistic(self, operation: Operation) -> None:
        """Find a number of all rows, with a gradient, that meets the values of each."""
        for number, tag, rows, made in operation.both_ways():
            is_number = not number.ndim and getattr(number, "requires_grad", False) and tag.of_rows
            if is_number and rows.ndim and rows.requires_grad and made.from_model and made.rows is not None:
                self._found(
                    f"a {tag.made_by} over all rows, from {listed(tag.names)}, has a gradient and meets the values of "
                    "each row, so that each row learns from all others; detach it, or reduce the right dimension",
                    is_certain=self.trace.depth > 0,  # In a model rows are independent; a loss may be a variance.
                )

    def _mark_expected(self, operation: Operation) -> None:
        """Keep in mind a product of values and the probabilities of choices, along the last dimension."""
        for probs, tag, values, _ in operation.both_ways():
            is_table = isinstance(operation.out, Tensor) and probs.ndim > 1 and probs.shape == values.shape
            is_choice = is_table and tag.from_model and tag.made_by in ("softmax", "exp")
            if is_choice and bool(((probs.detach().sum(-1) - 1).abs() < _CLOSE).all()):
                self._expected.put(operation.out, tag)

    def _find_expectation(self, operation: Operation) -> None:
        tensor, dim = operation.tensors[0], dim_of(operation.args, operation.kwargs)
        if self._expected.of(tensor) is not None and dim in (-1, tensor.ndim - 1) and tensor.shape[-1] > 1:
            self._found(
                f"the mean over {tensor.shape[-1]} choices of probabilities times values is the expectation divided by "
                f"{tensor.shape[-1]}; take the sum"
            )

    def _find_scale(self, operation: Operation) -> None:
        """Find a quotient of a mean over all rows, with a gradient, that scales another mean."""
        for number, tag in zip(operation.tensors, operation.tags, strict=True):
            is_scale = tag.of_rows and tag.made_by in _INVERSES and getattr(number, "requires_grad", False)
            if is_scale and all(t.of_rows and t.models & tag.models for t in operation.tags):
                text = f"a scale, from {listed(tag.names)}, has a gradient and changes to lower the loss; detach it"
                self._found(text)

    def _find_clamp(self, operation: Operation) -> None:
        """Note a clamp that makes different values equal."""
        out, tensor = operation.out, operation.tensors[0]
        if not isinstance(out, Tensor) or out.numel() < _FEWEST or not operation.tags[0].from_model:
            return
        bounds = [
            value for value in (*operation.args[1:], *operation.kwargs.values()) if isinstance(value, (int, float))
        ]
        if len(bounds) > 1 and sum(bounds) == 0:  # A step of at most this size, as of clipped values.
            return
        is_constant = bool(out.min() == out.max()) and bool(tensor.max() - tensor.min() > 1e-3)
        if is_constant and bool(out.any()):  # 0 is that of max(x, 0).
            text = (
                f"{operation.name} makes all {out.numel()} values {out.detach().min().item():g}; is min= or max= meant?"
            )
            self._found(text, is_certain=False)

    def _find_over_rows(self, operation: Operation) -> None:
        tensor, tag = operation.tensors[0], operation.tags[0]
        dim = dim_of(operation.args, operation.kwargs)
        if tag.rows is None or not tag.from_model or tensor.ndim != 2 or dim not in (0, -2):
            return
        if tensor.shape[0] == len(tag.rows.ids) > 1 and tensor.shape[1] not in (1, tensor.shape[0]):
            text = f"{operation.name} runs over the {tensor.shape[0]} rows, so that each row depends on all others"
            is_certain = self.trace.depth == 0 and tensor.requires_grad and operation.name == "logsumexp"
            self._found(f"{text}; is dim 0 meant?", is_certain=is_certain)

    def _find_weighted_mean(self, operation: Operation) -> None:
        for weight, tag, loss, made in operation.both_ways():
            is_mean = isinstance(loss, Tensor) and not loss.ndim and loss.requires_grad and made.from_model
            if is_mean and made.fields and tag.is_column(_PER_ROW) and weight.ndim and weight.shape[0] > 1:
                assert tag.column is not None
                self._found(
                    f"{tag.column.name} {tuple(weight.shape)} is multiplied with a mean over rows, so that every row "
                    "has the same weight; multiply before the mean, as with reduction='none'"
                )

    def _find_other_count(self, operation: Operation) -> None:
        (one, other), (first, second) = operation.tensors, operation.tags
        if one.ndim or other.ndim or not one.requires_grad or not first.has_any(LOSS_MASKS) or other.requires_grad:
            return
        is_count = second.names == {"response_mask"} and second.made_by in ("sum", "clamp", "clamp_min")
        if is_count and any(field.name == "loss_mask" for field in first.fields):
            self._found("a sum over the tokens in loss_mask is divided by the number of those in response_mask")

    def _find_other_side(self, operation: Operation) -> None:
        """Find values of one side of pairs that are divided by the count of the other side."""
        value, count = operation.tags
        for side, other in (("chosen", "rejected"), ("rejected", "chosen")):
            of_other = bool(count.names) and all(name.startswith(other) for name in count.names)
            is_side = value.from_model and any(name.startswith(side) for name in value.names)
            is_count = of_other and not count.from_model
            if is_count and is_side and not any(name.startswith(other) for name in value.names):
                self._found(f"a value of {side} tokens is divided by {listed(count.names)} of {other} ones")


class Accumulation(Check, code="TB510 suspect-values", operations=frozenset({"__getitem__", "__setitem__"})):
    """The positions of an augmented assignment: each occurs once."""

    def _begin(self) -> None:
        self._taken = Tags()
        """Values that were taken at an index, which Python gives back to ``__setitem__`` after ``+=``."""

    def operation(self, operation: Operation) -> None:
        if operation.name == "__getitem__":
            if isinstance(operation.out, Tensor):
                self._taken.put(operation.out, UNKNOWN)
            return
        value = operation.args[2]
        if self._taken.of(value) is not None and self.trace.tag_of(value).made_by.endswith("_"):
            count = _repeated(operation.args[1])
            if count:
                self._found(
                    f"x[index] += values adds once where an index occurs again, as {count} do; use index_add_, "
                    "scatter_add_ or index_put_(accumulate=True)"
                )


def _repeated(index: Any) -> int:
    """Return the number of positions of an index that occur before in it."""
    parts = index if isinstance(index, tuple) else (index,)
    tensors = [torch.as_tensor(part) for part in parts if isinstance(part, (Tensor, np.ndarray))]
    if not tensors or any(tensor.is_floating_point() or tensor.dtype == torch.bool for tensor in tensors):
        return 0
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    positions = torch.stack([tensor.expand(shape).reshape(-1) for tensor in tensors], 1)
    return len(positions) - len(torch.unique(positions, dim=0))
