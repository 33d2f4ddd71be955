"""Comparison of an update with a formula, in copies of the process that end before the first optimizer step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from typedbatch._core.kinds import BATCH, kind_of
from typedbatch.audit import tags
from typedbatch.audit.child import can_fork, tensors_of_child
from typedbatch.audit.comparison import Formula, Trial, judged, other_values_of
from typedbatch.audit.objects import Objects, variables_of
from typedbatch.audit.report import Finding, here
from typedbatch.audit.roles import Roles
from typedbatch.audit.tags import Tag
from typedbatch.audit.trace import Check, Operation, Trace
from typedbatch.audit.variants import REFERENCES, Inputs, Variant
from typedbatch.errors import SettingError

UPDATES: Final = ("ppo_clip", "dqn", "double_dqn")
"""Formulas that an update can be compared with."""
_REGRESSIONS: Final = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"}) | tags.DIFFERENCES
_MOST_OUTPUTS: Final = 64
_RESPONSE_MASK: Final = frozenset({"response_mask"})
_ENDS: Final = {"rew": tags.REWARDS, "terminated": tags.TERMINATED, "truncated": tags.TRUNCATED}
_FIELDS: Final = {
    "ppo_clip": {"old_logp": tags.OLD_LOGP, "adv": tags.ADVANTAGES},
    "dqn": _ENDS,
    "double_dqn": _ENDS,
}


class _Enough(BaseException):
    """Ends an update of which enough was seen."""


class _Policy(Check, operations=tags.DIFFERENCES):
    """The log-probabilities that meet those of the sampling policy, and the derivatives of the loss by them."""

    def _begin(self) -> None:
        self.points: list[dict[str, Any]] = []

    @property
    def seen(self) -> dict[str, Any]:
        """Values at the first of them that has a derivative, or an empty dict."""
        return next((point for point in self.points if "gradient" in point), {})

    def operation(self, operation: Operation) -> None:
        for new, made, old, tag in operation.both_ways():
            is_policy = made.from_model and new.requires_grad and new.grad_fn is not None and old.shape == new.shape
            if not tag.is_column(tags.OLD_LOGP) or not is_policy or tag.rows is None:
                continue
            column, whole = self.trace.origins.column, self.trace.origins.whole
            names = {"adv": tags.ADVANTAGES, "mask": tags.LOSS_MASKS, "there": _RESPONSE_MASK}
            found = {name: column(tag.rows, some) for name, some in names.items()}
            point = {name: torch.as_tensor(value) for name, value in found.items() if value is not None}
            if "adv" in point:
                every = next(value for name in tags.ADVANTAGES if (value := whole(tag.rows.origin, name)) is not None)
                point |= {"logp": new.detach().clone(), "old_logp": old.detach().clone(), "mean": every.mean()}
                self.points.append({**point, "place": here()})
                new.register_hook(partial(self._keep, self.points[-1]))

    def _keep(self, point: dict[str, Any], gradient: Tensor) -> None:
        before = point.get("gradient")
        point["gradient"] = gradient.detach().clone() if before is None else before + gradient.detach()


class _Target(Check, operations=_REGRESSIONS):
    """The target of a regression, and the outputs of networks for next observations."""

    def _begin(self) -> None:
        self.seen: dict[str, Any] = {}
        self.outputs: list[tuple[Tag, Tensor]] = []

    def operation(self, operation: Operation) -> None:
        for guess, made, target, tag in operation.both_ways():
            is_guess = guess.requires_grad and made.from_model and not made.has_any(tags.NEXT_OBS)
            is_target = not target.requires_grad and tag.has_any(tags.REWARDS) and tag.has_any(tags.NEXT_OBS)
            is_flat = target.ndim == 1 or (target.ndim == 2 and target.shape[1] == 1)
            if self.seen or not is_guess or not is_target or not is_flat or guess.shape != target.shape:
                continue
            found = {name: self.trace.origins.column(tag.rows, some) for name, some in _ENDS.items()}
            if found["rew"] is None or found["terminated"] is None:
                continue
            known = {
                name: torch.as_tensor(value).clone().flatten() for name, value in found.items() if value is not None
            }
            outputs = [(one, out) for one, out in self.outputs if out.ndim == 2 and len(out) == len(target)]
            slow = [out for one, out in outputs if not one.models <= made.models]
            trained = [out for one, out in outputs if one.models <= made.models]
            known |= {f"slow {number}": out for number, out in enumerate(slow)}
            known |= {f"trained {number}": out for number, out in enumerate(trained)}
            if any(one in made.models for one, _ in self.trace.objects.twins):
                known["has copy"] = torch.ones(())
            self.seen = {"target": target.detach().clone().flatten(), "place": here(), **known}

    def look(self, _module: nn.Module, _given: Any, out: Any) -> None:
        """Keep an output of a network for next observations."""
        tag = self.trace.tag_of(out) if isinstance(out, Tensor) else None
        if tag is not None and tag.has_any(tags.NEXT_OBS) and len(self.outputs) < _MOST_OUTPUTS:
            self.outputs.append((tag, out.detach().clone()))


def compare_update(update: Callable[..., Any], args: Sequence[Any], formula: Formula, roles: Roles) -> Finding | None:
    """Return a finding for the variant of a formula that an update computes, or a note if no known variant fits.

    Raises:
        SettingError: An update cannot be compared with this formula.
    """
    like = formula.name
    if like not in UPDATES:
        raise SettingError(f"an update is compared with {', '.join(UPDATES)}, and a stage, by audit_stage, with {like}")
    trials: list[dict[str, Any]] = []
    failure = "" if can_fork() else "replays need Linux, and an update that does not use a GPU"
    for changed in _trials(args, like, roles) if not failure else ():
        seen, failed = tensors_of_child(partial(_captured, update, changed, like, roles))
        if not seen:
            failure = failed or "no place was found where it computes this"
            break
        trials.append(seen)
    if not trials:
        return _unknown(f"the update was not compared with {like}: {failure}")
    return (_judged_policy if like == "ppo_clip" else _judged_targets)(formula, trials, trials[0]["place"])


def _unknown(text: str, place: str = "") -> Finding:
    return Finding("TB514 other-formula", place, text, is_certain=False)


def _trials(args: Sequence[Any], like: str, roles: Roles) -> Iterator[list[Any]]:
    """Yield the arguments of the update, and others with other values in the fields that a formula takes."""
    yield [*args]
    for at, batch in enumerate(args):
        if kind_of(batch) is BATCH:
            fields = roles.fields(batch)
            names = {
                name: next((one for one in sorted(some) if one in fields), None) for name, some in _FIELDS[like].items()
            }
            for changed in other_values_of(batch, names, roles):
                yield [*args[:at], changed, *args[at + 1 :]]
            return


def _captured(update: Callable[..., Any], args: list[Any], like: str, roles: Roles) -> dict[str, Any]:
    """Run an update, in a child, up to its first optimizer step, and return what a formula is made of."""
    check: type[Check] = _Policy if like == "ppo_clip" else _Target
    trace = Trace([check], Objects(variables_of(update)), roles)
    point: Any = trace.checks[0]

    def stop(*_: Any) -> None:
        if point.seen:
            raise _Enough

    hook = register_module_forward_hook(point.look) if like != "ppo_clip" else None
    stopped = register_optimizer_step_pre_hook(stop)
    try:
        with trace.recording():
            for batch in args:
                if kind_of(batch) is BATCH:
                    trace.origins.register(batch)
            update(*args)
    except _Enough:
        pass
    finally:
        stopped.remove()
        if hook is not None:
            hook.remove()
    return dict(point.seen)


def _judged_policy(formula: Formula, trials: list[dict[str, Any]], place: str) -> Finding | None:
    """Compare the derivative by log-probabilities, whatever its scale, with advantages as they are or normalized."""
    known: list[Trial] = []
    for seen in trials:
        gradient, adv = seen["gradient"], seen["adv"]
        if adv.ndim == gradient.ndim + 1 and adv.shape[-1] == 1:
            adv = adv[..., 0]
        elif adv.ndim == gradient.ndim - 1:
            adv = adv[..., None].expand_as(gradient)
        if adv.shape == gradient.shape:
            masks = (seen.get("mask"), seen.get("there"))
            mask = next((mask.bool() for mask in masks if mask is not None and mask.shape == gradient.shape), None)
            given = {"logp": seen["logp"], "old_logp": seen["old_logp"], "adv": adv, "mask": mask, "mean": seen["mean"]}
            known.append((given, [gradient]))
    if not known:
        return _unknown("the update was not compared with ppo_clip: advantages are not one per log-probability", place)
    centred = Variant("", lambda given: {**given, "adv": given["adv"] - given["mean"]}, is_right=True)
    reference = replace(formula.reference, variants=(centred, *formula.reference.variants))
    return judged(replace(formula, reference=reference), known, place, is_scaled=True)


def _judged_targets(formula: Formula, trials: list[dict[str, Any]], place: str) -> Finding | None:
    """Compare targets, with each output of a slow and of a trained network as the values of next observations."""
    like = formula.name
    slow, trained = ([name for name in trials[0] if name.startswith(kind)] for kind in ("slow", "trained"))
    if not slow and not trained:
        return _unknown(f"the update was not compared with {like}: no network gives values of next observations", place)
    if like == "double_dqn" and not trained:
        plain = replace(formula, reference=REFERENCES["dqn"])
        if any(judged(plain, _targets_of(trials, one, one)) is None for one in slow):
            text = "this is double_dqn, but the slow network chooses actions, too"
            return Finding("TB514 other-formula", place, text)
        return _unknown("the update was not compared with double_dqn: no choice by the trained network is seen", place)
    found = [
        judged(formula, _targets_of(trials, one, other), place) for one in slow or trained for other in trained or slow
    ]
    if None in found and (slow or "has copy" not in trials[0]):
        return None
    others = (judged(formula, _targets_of(trials, one, other)) for one in trained for other in trained)
    if None in found or None in others:
        text = f"this is {like}, but the trained network gives the values of next observations, not its slow copy"
        return Finding("TB514 other-formula", place, text, is_certain=bool(slow))
    return max((finding for finding in found if finding is not None), key=lambda finding: finding.is_certain)


def _targets_of(trials: list[dict[str, Any]], slow: str, trained: str) -> list[Trial]:
    """Return the trials with two outputs as the values of next observations."""
    out: list[Trial] = []
    for seen in trials:
        if slow in seen and trained in seen:
            ends: Inputs = {name: seen[name].bool() for name in ("terminated", "truncated") if name in seen}
            ends.setdefault("truncated", torch.zeros_like(ends["terminated"]))
            given: Inputs = {"rew": seen["rew"], "next_q": seen[slow], "next_online": seen[trained]}
            out.append((given | ends, [seen["target"]]))
    return out
