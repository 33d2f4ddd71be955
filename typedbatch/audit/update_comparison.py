"""Comparison of an update with a formula, in copies of the process that end before the first optimizer step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from typedbatch.audit.comparison import Trial, judged, other_values_of
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
_MOST_OUTPUTS: Final = 12
_ENDS: Final = {"rew": tags.REWARDS, "terminated": tags.TERMINATED, "truncated": tags.TRUNCATED}
_FIELDS: Final = {
    "ppo_clip": {"old_logp": tags.OLD_LOGP, "adv": tags.ADVANTAGES},
    "dqn": _ENDS,
    "double_dqn": _ENDS,
}


class _Enough(BaseException):
    """Ends an update of which enough was seen."""


class _Policy(Check, operations=tags.DIFFERENCES):
    """The log-probabilities that meet those of the sampling policy, and the derivative of the loss by them."""

    def _begin(self) -> None:
        self.seen: dict[str, Tensor] = {}
        self.place = ""

    def operation(self, operation: Operation) -> None:
        for new, made, old, tag in operation.both_ways():
            is_policy = made.from_model and new.requires_grad and new.grad_fn is not None and old.shape == new.shape
            if self.seen or not tag.is_column(tags.OLD_LOGP) or not is_policy:
                continue
            column = self.trace.origins.column
            found = {"adv": column(tag.rows, tags.ADVANTAGES), "mask": column(tag.rows, tags.LOSS_MASKS)}
            known = {name: torch.as_tensor(value) for name, value in found.items() if value is not None}
            if "adv" in known:
                self.place = here()
                self.seen = {"logp": new.detach().clone(), "old_logp": old.detach().clone(), **known}
                new.register_hook(self._keep)

    def _keep(self, gradient: Tensor) -> None:
        before = self.seen.get("gradient")
        self.seen["gradient"] = gradient.detach().clone() if before is None else before + gradient.detach()


class _Target(Check, operations=_REGRESSIONS):
    """The target of a regression, and the outputs of networks for next observations."""

    def _begin(self) -> None:
        self.seen: dict[str, Tensor] = {}
        self.place = ""
        self.outputs: list[tuple[Tag, Tensor]] = []

    def operation(self, operation: Operation) -> None:
        for guess, made, target, tag in operation.both_ways():
            is_guess = guess.requires_grad and made.from_model and not made.has_any(tags.NEXT_OBS)
            is_target = not target.requires_grad and tag.has_any(tags.REWARDS) and tag.has_any(tags.NEXT_OBS)
            if self.seen or not is_guess or not is_target or target.ndim != 1 or guess.shape != target.shape:
                continue
            found = {name: self.trace.origins.column(tag.rows, some) for name, some in _ENDS.items()}
            if found["rew"] is None or found["terminated"] is None:
                continue
            known = {name: torch.as_tensor(value).clone() for name, value in found.items() if value is not None}
            outputs = [(one, out) for one, out in self.outputs if out.ndim == 2 and len(out) == len(target)]
            slow = [out for one, out in outputs if not one.models & made.models]
            trained = [out for one, out in outputs if one.models & made.models]
            known |= {f"slow {number}": out for number, out in enumerate(slow)}
            known |= {f"trained {number}": out for number, out in enumerate(trained)}
            if any(one in made.models for one, _ in self.trace.objects.twins):
                known["has copy"] = torch.ones(())
            self.place, self.seen = here(), {"target": target.detach().clone(), **known}

    def look(self, _module: nn.Module, _given: Any, out: Any) -> None:
        """Keep an output of a network for next observations."""
        tag = self.trace.tag_of(out) if isinstance(out, Tensor) else None
        if tag is not None and tag.has_any(tags.NEXT_OBS) and len(self.outputs) < _MOST_OUTPUTS:
            self.outputs.append((tag, out.detach().clone()))


def compare_update(
    update: Callable[..., Any], args: Sequence[Any], like: str, settings: Mapping[str, Any], roles: Roles
) -> Finding | None:
    """Return a finding for the variant of a formula that an update computes, or a note if no known variant fits.

    Raises:
        SettingError: An update cannot be compared with this formula.
    """
    if like not in UPDATES:
        raise SettingError(f"an update is compared with {', '.join(UPDATES)}, and a stage, by audit_stage, with {like}")
    roles.learn_from(update)
    trials: list[dict[str, Any]] = []
    failure, place = "" if can_fork() else "replays need Linux, and an update that does not use a GPU", ""
    for changed in _trials(args, like, roles) if not failure else ():
        seen, failed = tensors_of_child(partial(_captured, update, changed, like, roles))
        if not seen:
            failure = failed or "no place was found where it computes this"
            break
        place = seen.pop("place")
        trials.append(seen)
    if not trials:
        return _unknown(f"the update was not compared with {like}: {failure}")
    return (_judged_policy if like == "ppo_clip" else _judged_targets)(like, settings, trials, place)


def _unknown(text: str, place: str = "") -> Finding:
    return Finding("TB514 other-formula", place, text, is_certain=False)


def _trials(args: Sequence[Any], like: str, roles: Roles) -> Iterator[list[Any]]:
    """Yield the arguments of the update, and others with other values in the fields that a formula takes."""
    yield [*args]
    for at, batch in enumerate(args):
        if kind_of(batch) is BATCH:
            roles.learn(type(batch))
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
    return {**point.seen, "place": point.place} if point.seen else {}


def _judged_policy(like: str, settings: Mapping[str, Any], trials: list[dict[str, Any]], place: str) -> Finding | None:
    """Compare the derivative by log-probabilities, whatever its scale, with advantages as they are or normalized."""
    reference, known = REFERENCES[like], list[Trial]()
    for seen in trials:
        gradient, mask = seen.get("gradient"), seen.get("mask")
        if gradient is not None and seen["adv"].shape == gradient.shape:
            given = {name: seen[name] for name in ("logp", "old_logp", "adv")}
            is_fit = mask is not None and mask.shape == gradient.shape
            known.append(({**given, "mask": mask.bool() if mask is not None and is_fit else None}, [gradient]))
    if not known:
        return _unknown(f"the update was not compared with {like}: advantages are not one per log-probability", place)
    normalized = Variant("", _with_normalized, is_right=True)
    both = replace(reference, variants=(normalized, *reference.variants))
    return judged(like, both, settings, known, place, is_scaled=True)


def _with_normalized(given: Inputs) -> Inputs:
    adv = given["adv"] if given["mask"] is None else given["adv"][given["mask"]]
    return {**given, "adv": (given["adv"] - adv.mean()) / (adv.std() + 1e-8)}


def _judged_targets(like: str, settings: Mapping[str, Any], trials: list[dict[str, Any]], place: str) -> Finding | None:
    """Compare targets, with each output of a slow and of a trained network as the values of next observations."""
    slow, trained = ([name for name in trials[0] if name.startswith(kind)] for kind in ("slow", "trained"))
    if not slow and not trained:
        return _unknown(f"the update was not compared with {like}: no network gives values of next observations", place)
    if like == "double_dqn" and not trained:
        plain = (judged("dqn", REFERENCES["dqn"], settings, _targets_of(trials, one, one)) for one in slow)
        what = "but the slow network chooses actions, too" if None in plain else "as the trained network chooses none"
        return Finding("TB514 other-formula", place, f"this is not double_dqn, {what}")
    found: list[Finding] = []
    for one, other in [(one, other) for one in slow or trained for other in trained or slow]:
        finding = judged(like, REFERENCES[like], settings, _targets_of(trials, one, other), place)
        if finding is None and (slow or "has copy" not in trials[0]):
            return None
        found += [] if finding is None else [finding]
    for one, other in [(one, other) for one in trained for other in trained]:
        if judged(like, REFERENCES[like], settings, _targets_of(trials, one, other)) is None:
            text = f"this is {like}, but the trained network gives the values of next observations, not its slow copy"
            return Finding("TB514 other-formula", place, text)
    return max(found, key=lambda finding: finding.is_certain)


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
