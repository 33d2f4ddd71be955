"""Check of importance weights: the probability of the policy over that of the sampler."""

from __future__ import annotations

from typing import Final

from torch import Tensor
from typing_extensions import override

from typedbatch.audit.operations import DIFFERENCES, PRODUCTS
from typedbatch.audit.roles import OLD_LOGP, ROLLOUT_LOGP
from typedbatch.audit.tags import UNKNOWN, Tags
from typedbatch.audit.trace import Check, Operation, Trace

_KEEPING: Final = frozenset({"clamp", "clip", "clamp_max", "clamp_min", "detach", "to", "float", "minimum"})
_REVERSED: Final = frozenset({"rsub", "__rsub__"})


class Importance(Check, operations=DIFFERENCES | PRODUCTS | _KEEPING | {"exp"}):
    """The factors ``exp(old_logp - rollout_logp)`` of losses, which correct for another sampler."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._differences = Tags()
        """Differences ``rollout_logp - old_logp``."""
        self._inverted = Tags()
        """Their exponentials."""

    @override
    def operation(self, operation: Operation) -> None:
        name, tensors, out = operation.name, operation.tensors, operation.out
        if not isinstance(out, Tensor):
            return
        if name in DIFFERENCES and len(tensors) == 2:
            sampler, policy = operation.tags[::-1] if name in _REVERSED else operation.tags
            is_policy = policy.has_any(OLD_LOGP) or (policy.from_model and policy.is_of_labels)
            if sampler.is_column(ROLLOUT_LOGP) and is_policy and not policy.has_any(ROLLOUT_LOGP):
                self._differences.put(out, UNKNOWN)
        elif name == "exp" and self._differences.of(tensors[0]) is not None:
            self._inverted.put(out, UNKNOWN)
        elif name in _KEEPING:
            for known in (self._differences, self._inverted):
                if known.of(tensors[0]) is not None:
                    known.put(out, UNKNOWN)
        for one, _, other, _ in operation.both_ways() if name in PRODUCTS else ():
            if self._inverted.of(one) is not None and other.requires_grad:
                self.trace.found(
                    "TB507 wrong-weight",
                    "an importance weight is the probability of the sampler, rollout_logp, over that of the policy; it "
                    "is that of the policy over that of the sampler",
                )
