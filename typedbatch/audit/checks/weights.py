"""Checks of what weighs a log-probability in a loss: ratios, importance weights, advantages and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from typedbatch.audit import tags
from typedbatch.audit.objects import norms_of
from typedbatch.audit.report import here
from typedbatch.audit.tags import ADVANTAGES, DIFFERENCES, OLD_LOGP, UNKNOWN, OriginRows, Tag, Tags, listed
from typedbatch.audit.trace import Check, Operation

_LARGEST = 1e-3
_LARGEST_OF_HALF = 2e-2
_SAME_VALUES: Final = 0.3
"""Share of the old values that are among the new ones, where rows are exchanged or a part of them is wrong."""
_ERRORS: Final = 4.0
"""Standard errors by which a mean differs where chance does not explain it."""
_WIDE: Final = 0.5
"""Standard deviation of differences, in nats, above which a mean of ratios is known badly."""
_KEEPING: Final = frozenset({"clamp", "clip", "clamp_max", "clamp_min", "detach", "to", "float", "minimum"})
_REVERSED: Final = frozenset({"rsub", "__rsub__"})
_FEWEST = 4
_OUTCOMES = ADVANTAGES | tags.RETURNS | tags.REWARDS


class Ratio(Check, code="TB501 wrong-ratio", operations=DIFFERENCES):
    """The difference of log-probabilities of the trained policy and of the policy that sampled, in nats.

    They are of the same weights before the first step, so it is 0 ("The 37 implementation details of PPO").
    """

    def _begin(self) -> None:
        self._has_learned = False
        modules = self.trace.objects.modules.values()
        parameters = (parameter for module in modules for _, parameter in self.trace.objects.parameters_in(module))
        self._parameters: list[Tensor] = [parameter for parameter in parameters if not parameter.is_meta]
        self._sizes = norms_of(self._parameters)
        """Norms of the parameters, which change if the update writes weights without an optimizer."""

    def operation(self, operation: Operation) -> None:
        for new, made, old, tag in operation.both_ways():
            if not made.from_model or old.shape != new.shape or made.has_any(tags.REF_LOGP):
                continue
            if new.ndim > 1 and not made.is_of_labels:  # A table of log-probabilities, as of a teacher.
                continue
            if tag.is_column(OLD_LOGP) and self.trace.steps == 0:
                self._compare(new, old, tag)
            elif self._has_learned and self._is_old(new, made, old, tag):
                self._find_renewed(new, old, tag)

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
        if old.numel() < 2 or not bool((new.detach() - old.detach()).abs().max() < 1e-7):
            return
        name = tag.column.name if tag.column is not None else "the old one"
        self._found(
            f"after {self.trace.steps} steps {_difference(name)} is 0 again: {name} was computed by the weights that "
            "are trained; compute it once, before the first step, or copy the weights"
        )

    def _compare(self, new: Tensor, old: Tensor, tag: Tag) -> None:
        now, before = new.detach().float(), old.detach().float()
        mask = self._mask(tag, now)
        mask = before != 0 if mask is None else mask  # Padding is 0, and where a mask is does not show in flat tokens.
        now, before = now[mask], before[mask]
        apart = (now - before).abs()
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
        is_of_sampler = tag.has_any(tags.ROLLOUT_LOGP)  # It may be older, as in asynchronous training.
        is_certain = not (self.trace.uses_dropout or self.trace.follows or is_of_sampler) and new.requires_grad
        is_older = not self.trace.is_on_policy and _may_be_older(now.flatten(), before.flatten(), limit)
        assert tag.column is not None
        name = tag.column.name
        text = f"before the first step {_difference(name)} is {mean:.2g} in the mean ({most:.2g} at most), expected 0"
        if others := {field.name for field in tag.fields} - {name} - tags.MASKS:
            text += f"; {name} has the values of {', '.join(sorted(others))}"
        if self.trace.uses_dropout:
            text += "; dropout or batch normalization is in training mode, so that two evaluations differ"
        if is_older:
            text += f"; {name} may be that of an older policy, in which case a ratio of 1 is not to be expected"
        self._found(text, place=here(), is_certain=is_certain and not is_older)

    def _mask(self, tag: Tag, apart: Tensor) -> Any:
        names = (tags.LOSS_MASKS, frozenset({"response_mask"}), frozenset({"mask", "valid", "valid_mask"}))
        found = (self.trace.origins.column(tag.rows, some) for some in names)
        mask = next((mask for mask in found if mask is not None), None)
        if mask is None:
            return None
        if apart.ndim > 1 and mask.shape == (apart.shape[0], apart.shape[1] + 1):
            mask = mask[:, 1:]
        return mask.bool() if mask.shape == apart.shape else None


def _may_be_older(new: Tensor, old: Tensor, limit: float) -> bool:
    """Return whether log-probabilities may be those of an older policy for the actions that it sampled.

    The ratio is then 1 in the mean, the old policy is likelier in the mean, and hardly any two are the same.
    """
    if len(new) < 2:
        return True
    known = new.sort().values
    at = torch.searchsorted(known, old).clamp(1, len(known) - 1)
    nearest = torch.minimum((known[at] - old).abs(), (known[at - 1] - old).abs())
    if float((nearest < limit / 100).float().mean()) > _SAME_VALUES:
        return False
    apart = new - old
    ratio, root = apart.exp(), len(apart) ** 0.5
    error, spread = float(ratio.std()) / root, float(apart.std())
    is_low = float(ratio.mean()) < 1 - _ERRORS * error and spread < _WIDE
    return not (is_low or float(ratio.mean()) > 1 + _ERRORS * error or float(apart.mean()) > _ERRORS * spread / root)


class Importance(Check, code="TB507 wrong-weight", operations=DIFFERENCES | tags.PRODUCTS | _KEEPING | {"exp"}):
    """The factors ``exp(old_logp - rollout_logp)`` of losses, which correct for another sampler."""

    def _begin(self) -> None:
        self._differences = Tags()
        """Differences ``rollout_logp - old_logp``."""
        self._inverted = Tags()
        """Their exponentials."""

    def operation(self, operation: Operation) -> None:
        name, tensors, out = operation.name, operation.tensors, operation.out
        if not isinstance(out, Tensor):
            return
        if name in DIFFERENCES and len(tensors) == 2:
            sampler, policy = operation.tags[::-1] if name in _REVERSED else operation.tags
            is_policy = policy.has_any(OLD_LOGP) or (policy.from_model and policy.is_of_labels)
            if sampler.is_column(tags.ROLLOUT_LOGP) and is_policy and not policy.has_any(tags.ROLLOUT_LOGP):
                self._differences.put(out, UNKNOWN)
        elif name == "exp" and self._differences.of(tensors[0]) is not None:
            self._inverted.put(out, UNKNOWN)
        elif name in _KEEPING:
            for known in (self._differences, self._inverted):
                if known.of(tensors[0]) is not None:
                    known.put(out, UNKNOWN)
        for one, _, other, _ in operation.both_ways() if name in tags.PRODUCTS else ():
            if self._inverted.of(one) is not None and other.requires_grad:
                self._found(
                    "an importance weight is the probability of the sampler, rollout_logp, over that of the policy; it "
                    "is that of the policy over that of the sampler"
                )


@dataclass
class _Weighed:
    """Log-probabilities in a loss, and the derivative of the loss by them."""

    place: str
    tag: Tag
    old: Tag
    sign: int = 1
    """Sign of the log-probabilities, or 0 if it is not known."""
    absent: Tensor | None = None
    """Where log-probabilities are exactly 0, as those that were multiplied by a mask."""
    gradient: Tensor | None = None


class Weights(Check, code="TB507 wrong-weight", operations=DIFFERENCES | tags.PRODUCTS | tags.SMALLER | tags.LARGER):
    """The derivative of the loss by the log-probabilities of the policy, before the first optimizer step.

    It is ``-c * adv`` for a policy gradient, clipped or not, and the correlation is -1 after a normalization of ``adv``
    too. It is 0 where ``loss_mask`` is False, and not 0 where it is True. Micro-batches of one step have the same
    ``c``, if tokens weigh the same within each.
    """

    def _begin(self) -> None:
        self._weighed: list[_Weighed] = []
        self._has_reference = False
        self._maximizes = False
        self._bounds: list[tuple[str, bool, bool]] = []

    def operation(self, operation: Operation) -> None:
        if self.trace.steps or len(operation.tensors) != 2:
            return
        self._has_reference = self._has_reference or any(tag.has_any(tags.REF_LOGP) for tag in operation.tags)
        if operation.name in DIFFERENCES:
            for new, made, _, tag in operation.both_ways():
                is_policy = made.from_model and new.requires_grad and new.grad_fn is not None
                if tag.is_column(OLD_LOGP) and is_policy and not self.trace.is_replayed:
                    self._watch(new, made, tag)
        elif operation.name in tags.PRODUCTS:
            self._find_product(operation)
        elif operation.name in tags.SMALLER or operation.name in tags.LARGER:
            self._find_bound(operation)

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
            self._found(
                f"the weight of a log-probability, from {listed(tag.names)}, has a gradient for {listed(tag.models)}; "
                "detach it, as the loss of the policy must not train the critic",
                code="TB504 wrong-gradient",
            )

    def _watch(self, new: Tensor, made: Tag, tag: Tag, sign: int = 1) -> None:
        weighed = _Weighed(here(), made, tag, sign, new.detach() == 0)
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
        is_smaller, place = operation.name in tags.SMALLER, here()

        def look(gradient: Tensor) -> None:
            with torch.no_grad():
                for grows, found in ((True, gradient > 0), (False, gradient < 0)):
                    if bool(found.any()):
                        self._bounds.append((place, is_smaller, grows))

        operation.out.register_hook(look)  # type: ignore[no-untyped-call]  # torch does not say what it takes

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        known = [weighed for weighed in self._weighed if weighed.gradient is not None]
        if self.trace.steps or not known:
            return
        self._maximizes = any(group.get("maximize", False) for group in optimizer.param_groups)
        found = [(weighed, weight) for weighed in known if (weight := self._examine(weighed)) is not None]
        parts: list[tuple[OriginRows, float]] = []  # Both sides of a minimum are of the same rows, and no two parts.
        for weighed, weight in found:
            rows = weighed.old.rows
            if rows is not None and weighed.tag.models == found[0][0].tag.models:
                parts += [] if any(rows.same(others) for others, _ in parts) else [(rows, weight)]
        weights = [weight for _, weight in parts]
        if len(weights) > 1 and not self._has_reference and max(weights) > 1.01 * min(weights) > 0:
            self._found(
                f"a token of one micro-batch weighs {max(weights) / min(weights):.2f} times as much as one of another; "
                "divide the sum of each by the number in the whole minibatch",
                place=known[0].place,
            )
        self._weighed = []
        for place, is_smaller, grows in self._bounds:
            if (grows == is_smaller) == self._maximizes:
                continue
            which = "smaller" if is_smaller else "larger"
            self._found(
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
        mask: Any = self.trace.origins.column(rows, tags.LOSS_MASKS)
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
            self._found(
                f"the loss grows with the log-probability of actions of high {name} (the correlation of its derivative "
                f"and {name} is {correlation:.2f}, expected -1); is a sign wrong?",
                place=weighed.place,
            )
        elif correlation > -0.3 and not self._has_reference and len(values) >= 16:
            self._found(
                f"the weight of a log-probability does not go with its {name} (the correlation of the derivative and "
                f"{name} is {correlation:.2f}, expected -1); is it that of another row, or another value?",
                place=weighed.place,
                is_certain=False,
            )
        return self._slope(slopes, values, mask)

    def _slope(self, slopes: Tensor, values: Tensor, mask: Tensor) -> float | None:
        """Return ``c`` if the derivative is ``-c * adv`` everywhere, else None."""
        if mask.ndim == 2 and int(mask.any(1).sum()) < 2:  # One sequence does not tell what weighs the same.
            return None
        is_used = values.abs() > 1e-6
        if not bool(is_used.any()):
            return None
        each = -(slopes[is_used] / values[is_used])
        middle = float(each.median())
        return middle if middle > 0 and float((each - middle).abs().max()) < 0.01 * middle else None

    def _examine_mask(self, weighed: _Weighed, gradient: Tensor, adv: Any, mask: Tensor) -> None:
        absent = torch.zeros_like(mask) if weighed.absent is None else weighed.absent
        outside = int((gradient[~mask & ~absent] != 0).sum())
        if outside:
            self._found(
                f"{outside} tokens outside loss_mask have an effect on the loss; padding, prompts and tokens of tools "
                "were not sampled by the policy",
                place=weighed.place,
                is_certain=not self._has_reference,  # A penalty may be of all tokens.
            )
        if isinstance(adv, Tensor) and adv.shape == gradient.shape:
            unused = int(((gradient == 0) & mask & (adv != 0)).sum())
            if unused:
                self._found(
                    f"{unused} of {int(mask.sum())} tokens in loss_mask have no effect on the loss; is a mask shifted?",
                    place=weighed.place,
                    is_certain=_is_shifted(gradient != 0, mask),  # Tokens may be left out on purpose.
                )


def _is_shifted(used: Tensor, mask: Tensor) -> bool:
    """Return True if the tokens used are those of the mask that are also in the mask one position aside."""
    if used.ndim != 2:
        return False
    rows = used.any(1)
    used, mask = used[rows], mask[rows]
    if not bool((mask & ~used).any()):
        return False
    return any(bool((used == (mask & mask.roll(by, 1)))[:, 1:-1].all()) for by in (1, -1))


def _difference(name: str) -> str:
    return f"|new logp - {name}|" if name == "logp" else f"|logp - {name}|"
