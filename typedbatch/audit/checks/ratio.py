"""Check that the importance ratio is 1 before the first optimizer step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from typedbatch.audit.objects import norms_of
from typedbatch.audit.operations import DIFFERENCES
from typedbatch.audit.places import here
from typedbatch.audit.roles import LOSS_MASKS, OLD_LOGP, REF_LOGP, ROLLOUT_LOGP
from typedbatch.audit.tags import Tag
from typedbatch.audit.trace import Check, Operation, Trace

_LARGEST = 1e-3
_LARGEST_OF_HALF = 2e-2


class Ratio(Check, operations=DIFFERENCES):
    """The difference of log-probabilities of the trained policy and of the policy that sampled, in nats.

    They are of the same weights before the first step, so it is 0 ("The 37 implementation details of PPO").
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._has_learned = False
        modules = trace.objects.modules.values()
        parameters = (parameter for module in modules for _, parameter in trace.objects.parameters_in(module))
        self._parameters: list[Tensor] = [parameter for parameter in parameters if not parameter.is_meta]
        self._sizes = norms_of(self._parameters)
        """Norms of the parameters, which change if the update writes weights without an optimizer."""

    @override
    def operation(self, operation: Operation) -> None:
        for new, made, old, tag in operation.both_ways():
            if not made.from_model or old.shape != new.shape or made.has_any(REF_LOGP):
                continue
            if new.ndim > 1 and not made.is_of_labels:  # A table of log-probabilities, as of a teacher.
                continue
            if tag.is_column(OLD_LOGP) and self.trace.steps == 0:
                self._compare(new, old, tag)
            elif self._has_learned and self._is_old(new, made, old, tag):
                self._find_renewed(new, old, tag)

    @override
    def step(self, optimizer: torch.optim.Optimizer) -> None:
        # A schedule may begin with a learning rate of 0, so that the step changes nothing.
        self._has_learned = self._has_learned or any(float(group["lr"]) > 0 for group in optimizer.param_groups)

    def _is_old(self, new: Tensor, made: Tag, old: Tensor, tag: Tag) -> bool:
        """Return True for log-probabilities beside those of the policy that were computed on their own."""
        if tag.is_column(OLD_LOGP):
            return tag.step > 0
        is_own = new.requires_grad and not old.requires_grad and new.data_ptr() != old.data_ptr()
        return is_own and made.is_of_labels and tag.is_of_labels and tag.from_model

    def _find_renewed(self, new: Tensor, old: Tensor, tag: Tag) -> None:
        """Report log-probabilities of the sampling policy that are those of the trained one after a step."""
        with torch.no_grad():
            if old.numel() < 2 or not bool((new.detach() - old.detach()).abs().max() < 1e-7):
                return
        name = tag.column.name if tag.column is not None else "the old one"
        self.trace.found(
            "TB501 wrong-ratio",
            f"after {self.trace.steps} steps {_difference(name)} is 0 again: {name} was computed by the weights that "
            "are trained; compute it once, before the first step, or copy the weights",
        )

    def _compare(self, new: Tensor, old: Tensor, tag: Tag) -> None:
        with torch.no_grad():
            apart = (new.detach().float() - old.detach().float()).abs()
            mask = self._mask(tag, apart)
            apart = apart[mask] if mask is not None else apart
            if not apart.numel():
                return
            mean, most = float(apart.mean()), float(apart.max())
        half = torch.finfo(old.dtype).bits < 32 or torch.finfo(new.dtype).bits < 32
        limit = _LARGEST_OF_HALF if half else _LARGEST
        if mean <= limit:
            self.trace.has_right_ratio = True
        if mean <= limit or not mean < float("inf") or norms_of(self._parameters) != self._sizes:
            return
        if self.trace.is_replayed:
            return
        is_of_sampler = tag.has_any(ROLLOUT_LOGP)  # It may be older, as in asynchronous training.
        is_certain = not (self.trace.uses_dropout or self.trace.follows or is_of_sampler) and new.requires_grad
        assert tag.column is not None
        name = tag.column.name
        text = f"before the first step {_difference(name)} is {mean:.2g} in the mean ({most:.2g} at most), expected 0"
        if len(tag.fields) > 1:
            text += f"; {name} has the values of {', '.join(sorted({f.name for f in tag.fields} - {name}))}"
        if self.trace.uses_dropout:
            text += "; dropout or batch normalization is in training mode, so that two evaluations differ"
        self.trace.found("TB501 wrong-ratio", text, place=here(), is_certain=is_certain)

    def _mask(self, tag: Tag, apart: Tensor) -> Any:
        names = (LOSS_MASKS, frozenset({"response_mask"}), frozenset({"mask", "valid", "valid_mask"}))
        found = (self.trace.origins.column(tag.rows, some) for some in names)
        mask = next((mask for mask in found if mask is not None), None)
        if mask is None:
            return None
        if apart.ndim > 1 and mask.shape == (apart.shape[0], apart.shape[1] + 1):
            mask = mask[:, 1:]
        return mask.bool() if mask.shape == apart.shape else None


def _difference(name: str) -> str:
    return f"|new logp - {name}|" if name == "logp" else f"|logp - {name}|"
