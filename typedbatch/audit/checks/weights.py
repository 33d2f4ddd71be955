"""Checks of the weights of a policy loss: the derivative by each log-probability goes with its advantage and mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from typedbatch.audit.operations import DIFFERENCES, LARGER, PRODUCTS, SMALLER
from typedbatch.audit.places import here
from typedbatch.audit.roles import ADVANTAGES, LOSS_MASKS, OLD_LOGP, REF_LOGP, RETURNS, REWARDS
from typedbatch.audit.tags import Tag, listed
from typedbatch.audit.trace import Check, Operation, Trace

_FEWEST = 4
_OUTCOMES = ADVANTAGES | RETURNS | REWARDS


@dataclass
class _Weighed:
    """Log-probabilities in a loss, and the derivative of the loss by them."""

    place: str
    tag: Tag
    old: Tag
    sign: int = 1
    """Sign of the log-probabilities, or 0 if it is not known."""
    gradient: Tensor | None = None


class Weights(Check, operations=DIFFERENCES | PRODUCTS | SMALLER | LARGER):
    """The derivative of the loss by the log-probabilities of the policy, before the first optimizer step.

    It is ``-c * adv`` for a policy gradient, clipped or not, and the correlation is -1 after a normalization of ``adv``
    too. It is 0 where ``loss_mask`` is False, and not 0 where it is True. Micro-batches of one step have the same
    ``c``, if tokens weigh the same within each.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._weighed: list[_Weighed] = []
        self._has_reference = False
        self._maximizes = False
        self._bounds: list[tuple[str, bool, bool]] = []

    @override
    def operation(self, operation: Operation) -> None:
        if self.trace.steps or len(operation.tensors) != 2:
            return
        self._has_reference = self._has_reference or any(tag.has_any(REF_LOGP) for tag in operation.tags)
        if operation.name in DIFFERENCES:
            self._find_ratio(operation)
        elif operation.name in PRODUCTS:
            self._find_product(operation)
        elif operation.name in SMALLER or operation.name in LARGER:
            self._find_bound(operation)

    def _find_ratio(self, operation: Operation) -> None:
        for new, made, _, tag in operation.both_ways():
            is_policy = made.from_model and new.requires_grad and new.grad_fn is not None
            if tag.is_column(OLD_LOGP) and is_policy and not self.trace.is_replayed:
                self._watch(new, made, tag)

    def _find_product(self, operation: Operation) -> None:
        """Find ``logp * adv``: in a loss without a ratio, and with advantages that have a gradient."""
        for logp, made, adv, tag in operation.both_ways():
            if logp.shape != adv.shape or not made.from_model or not logp.requires_grad or logp.grad_fn is None:
                continue
            if adv.requires_grad:
                self._find_gradient(made, tag)
            elif tag.has_any(ADVANTAGES) and not tag.from_model and not made.has_any(OLD_LOGP | ADVANTAGES):
                sign = 0 if not made.is_of_labels else -1 if made.is_negated else 1
                self._watch(logp, made, tag, sign)

    def _find_gradient(self, made: Tag, tag: Tag) -> None:
        """Report a gradient of what weighs a log-probability."""
        is_policy = ("act" in made.names or made.is_of_labels) and not made.has_any(_OUTCOMES)
        if is_policy and tag.from_model and tag.has_any(_OUTCOMES):
            self.trace.found(
                "TB504 wrong-gradient",
                f"the weight of a log-probability, from {listed(tag.names)}, has a gradient for {listed(tag.models)}; "
                "detach it, as the loss of the policy must not train the critic",
            )

    def _watch(self, new: Tensor, made: Tag, tag: Tag, sign: int = 1) -> None:
        weighed = _Weighed(here(), made, tag, sign)
        self._weighed.append(weighed)

        def add(gradient: Tensor) -> None:
            detached = gradient.detach()
            weighed.gradient = detached.clone() if weighed.gradient is None else weighed.gradient + detached

        new.register_hook(add)  # type: ignore[no-untyped-call]  # torch does not say what it takes

    def _find_bound(self, operation: Operation) -> None:
        """Find the minimum of the clipped and the unclipped objective, and watch the sign of its gradient."""
        if not isinstance(operation.out, Tensor) or not operation.out.requires_grad:
            return
        if not all(tensor.requires_grad and tag.has_any(OLD_LOGP) and tag.has_any(ADVANTAGES) and tag.from_model
                   for tensor, tag in zip(operation.tensors, operation.tags, strict=True)):  # fmt: skip
            return
        is_smaller, place = operation.name in SMALLER, here()

        def look(gradient: Tensor) -> None:
            with torch.no_grad():
                for grows, found in ((True, gradient > 0), (False, gradient < 0)):
                    if bool(found.any()):
                        self._bounds.append((place, is_smaller, grows))

        operation.out.register_hook(look)  # type: ignore[no-untyped-call]  # torch does not say what it takes

    @override
    def step(self, optimizer: torch.optim.Optimizer) -> None:
        known = [weighed for weighed in self._weighed if weighed.gradient is not None]
        if self.trace.steps or not known:
            return
        self._maximizes = any(group.get("maximize", False) for group in optimizer.param_groups)
        with torch.no_grad():
            found = [(weighed, weight) for weighed in known if (weight := self._examine(weighed)) is not None]
        weights = [weight for weighed, weight in found if weighed.tag.models == found[0][0].tag.models]
        if len(weights) > 1 and not self._has_reference and max(weights) > 1.01 * min(weights) > 0:
            self.trace.found(
                "TB507 wrong-weight",
                f"a token of one micro-batch weighs {max(weights) / min(weights):.2f} times as much as one of another; "
                "divide the sum of each by the number in the whole minibatch",
                place=known[0].place,
            )
        self._weighed = []
        for place, is_smaller, grows in self._bounds:
            if (grows == is_smaller) == self._maximizes:
                continue
            which = "smaller" if is_smaller else "larger"
            self.trace.found(
                "TB507 wrong-weight",
                f"the loss {'grows' if grows else 'falls'} with the {which} of the clipped and the unclipped "
                "objective; PPO takes the smaller objective, or the larger of the negated ones",
                place=place,
            )
        self._bounds = []

    def _examine(self, weighed: _Weighed) -> float | None:
        """Report a derivative that does not fit, and return its size per advantage if it is the same for all."""
        gradient, rows = weighed.gradient, weighed.old.rows
        assert gradient is not None
        adv: Any = self.trace.origins.column(rows, ADVANTAGES)
        mask: Any = self.trace.origins.column(rows, LOSS_MASKS)
        if mask is not None and mask.shape == gradient.shape:
            mask = mask.bool()
            self._examine_mask(weighed, gradient, adv, mask)
        else:
            mask = torch.ones_like(gradient, dtype=torch.bool)
        if not isinstance(adv, Tensor) or adv.shape != gradient.shape or int(mask.sum()) < _FEWEST:
            return None
        if not weighed.sign:
            return None
        sign = -weighed.sign if self._maximizes else weighed.sign
        slopes, values = sign * gradient[mask].double(), adv[mask].double()
        if float(values.std()) < 1e-8 or float(slopes.std()) == 0 or not bool(slopes.isfinite().all()):
            return self._slope(slopes, values, mask)
        correlation = float(torch.corrcoef(torch.stack([slopes, values]))[0, 1])
        name = "advantage"
        if correlation > 0.3:
            self.trace.found(
                "TB507 wrong-weight",
                f"the loss grows with the log-probability of actions of high {name} (the correlation of its derivative "
                f"and {name} is {correlation:.2f}, expected -1); is a sign wrong?",
                place=weighed.place,
            )
        elif correlation > -0.3 and not self._has_reference and len(values) >= 16:
            self.trace.found(
                "TB507 wrong-weight",
                f"the weight of a log-probability does not go with its {name} (the correlation of the derivative and "
                f"{name} is {correlation:.2f}, expected -1); is it that of another row, or another value?",
                place=weighed.place,
                is_certain=False,
            )
        return self._slope(slopes, values, mask)

    def _slope(self, slopes: Tensor, values: Tensor, mask: Tensor) -> float | None:
        """Return ``c`` if the derivative is ``-c * adv`` everywhere, else None.

        A micro-batch of one sequence does not tell whether tokens or sequences weigh the same.
        """
        if mask.ndim == 2 and int(mask.any(1).sum()) < 2:
            return None
        is_used = values.abs() > 1e-6
        if not bool(is_used.any()):
            return None
        each = -(slopes[is_used] / values[is_used])
        middle = float(each.median())
        return middle if middle > 0 and float((each - middle).abs().max()) < 0.01 * middle else None

    def _examine_mask(self, weighed: _Weighed, gradient: Tensor, adv: Any, mask: Tensor) -> None:
        outside = int((gradient[~mask] != 0).sum())
        if outside:
            self.trace.found(
                "TB507 wrong-weight",
                f"{outside} tokens outside loss_mask have an effect on the loss; padding, prompts and tokens of tools "
                "were not sampled by the policy",
                place=weighed.place,
                is_certain=not self._has_reference,  # A penalty may be of all tokens.
            )
        if isinstance(adv, Tensor) and adv.shape == gradient.shape:
            unused = int(((gradient == 0) & mask & (adv != 0)).sum())
            if unused:
                self.trace.found(
                    "TB507 wrong-weight",
                    f"{unused} of {int(mask.sum())} tokens in loss_mask have no effect on the loss; is a mask shifted?",
                    place=weighed.place,
                    is_certain=_is_shifted(gradient != 0, mask),  # Tokens may be left out on purpose.
                )


def _is_shifted(used: Tensor, mask: Tensor) -> bool:
    """Return True if the tokens used are those of the mask that are also in the mask one position aside."""
    rows = used.any(1)
    used, mask = used[rows], mask[rows]
    if used.ndim != 2 or not bool((mask & ~used).any()):
        return False
    return any(bool((used == (mask & mask.roll(by, 1)))[:, 1:-1].all()) for by in (1, -1))
