"""Comparison of code with a formula: on the user's batch, and on others that tell the variants of the formula apart."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from typedbatch._core.kinds import BATCH, describe, kind_of
from typedbatch.audit.network_values import OF_NETWORKS, network_values
from typedbatch.audit.report import Finding
from typedbatch.audit.roles import Roles, unwrapped
from typedbatch.audit.variants import NORMALIZED, REFERENCES, Inputs, Reference, Variant
from typedbatch.batch import Batch
from typedbatch.errors import SettingError

_TOLERANCE: Final = 1e-4
_OF_HALF: Final = 2e-2
"""Tolerance for values that were computed in float16 or bfloat16."""
_TRIALS: Final = 3
_FLAGS: Final = frozenset({"terminated", "truncated", "mask"})
_FIXED: Final = frozenset({"uid", "desirable", "support"})
_OPTIONAL: Final = frozenset({"truncated", "mask"})
_DONE: Final = ("done", "dones")
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "values": ("v_s", "values", "value"),
    "next_values": ("v_s_", "next_values", "values_next", "next_value", "value_next"),
    "old_logp": ("logp_old", "old_logp"),
    "mask": ("loss_mask", "response_mask", "mask"),
    "adv": ("adv", "advantages"),
    "rewards": ("rewards", "scores", "rew"),
    "rew": ("rew", "rewards"),
    "chosen": ("chosen_logp", "chosen"),
    "rejected": ("rejected_logp", "rejected"),
    "ref_chosen": ("ref_chosen_logp",),
    "ref_rejected": ("ref_rejected_logp",),
    "student": ("student_logits", "logits"),
    "teacher": ("teacher_logits",),
    "probs": ("probs", "prob", "next_probs", "dist"),
    "support": ("support", "atoms"),
    "old_values": ("old_values", "old_value", "v_s_old"),
}
"""Names of the fields that are arguments of formulas; others have the name of the argument."""


@dataclass(frozen=True)
class Formula:
    """A formula with its settings.

    Attributes:
        name: Its name.
        reference: The formula.
        settings: Its settings.
        given: Names of the settings that the caller gave.
    """

    name: str
    reference: Reference
    settings: Mapping[str, Any]
    given: frozenset[str]

    def fields_in(self, fields: Mapping[str, Any]) -> dict[str, str | None]:
        """Return the names of the fields that are its arguments; None for an optional one that is not there.

        Raises:
            SettingError: A required field is missing.
        """
        found: dict[str, str | None] = {}
        for name in self.reference.inputs:
            names = (*FIELDS.get(name, ()), name)
            found[name] = next((one for one in names if fields.get(one) is not None), None)
            is_of_network = name in OF_NETWORKS and not self.reference.by
            if found[name] is None and name not in _OPTIONAL and not is_of_network:
                raise SettingError(f"{self.name} {self._lacking(name)}")
        return found

    def require(self, inputs: Mapping[str, Any]) -> None:
        """Raise a SettingError if neither the batch has an argument of the formula, nor a network has computed it."""
        for name in OF_NETWORKS & inputs.keys():
            if inputs[name] is None:
                text = f"{self._lacking(name)}, and the function calls no network that returns it for a field"
                raise SettingError(f"{self.name} {text}")

    def _lacking(self, name: str) -> str:
        return f"takes {name} from a field {' or '.join(FIELDS.get(name, (name,)))}, which the batch lacks"


def formula_of(name: str, given: Mapping[str, Any]) -> Formula:
    """Return a formula with all its settings.

    Raises:
        SettingError: The formula or a setting is unknown, or a required setting is missing.
    """
    if name not in REFERENCES:
        raise SettingError(f"like takes one of {', '.join(REFERENCES)}, got {name!r}")
    known = REFERENCES[name].settings
    for setting in given:
        if setting not in known:
            raise SettingError(f"{name} has the settings {', '.join(known) or '(none)'}, got {setting!r}")
    settings = {**known, **given}
    if missing := [setting for setting, value in settings.items() if value is None]:
        raise SettingError(f"{name} needs {' and '.join(missing)}, as in settings={{{missing[0]!r}: ...}}")
    return Formula(name, REFERENCES[name], settings, frozenset(given))


def compare_stage(function: Callable[[Any], Any], batch: Any, formula: Formula, roles: Roles) -> Finding | None:
    """Compare the result of a function of a batch with a formula; for a loss, its value and its gradients.

    Raises:
        SettingError: The batch lacks an argument of the formula, or the result is of another kind.
    """
    reference, fields = formula.reference, roles.fields(batch)
    names = formula.fields_in(fields)
    # Arrays have no gradients.
    by = {name: str(names[name]) for name in reference.by if isinstance(fields[str(names[name])], Tensor)}
    formula = replace(formula, reference=replace(reference, by=tuple(by)))

    sums: list[Trial] = []

    def run(trial: Any) -> Trial:
        given = _inputs(trial, names, roles)
        if not reference.by:
            shape = given["rew"].shape if "rew" in given else torch.Size()
            with network_values(roles.fields(trial), shape) as found:
                out = function(copy.deepcopy(trial))
            given.update({name: found.get(name) for name in OF_NETWORKS & given.keys() if given[name] is None})
            formula.require(given)
            if reference.sums and kind_of(out) is BATCH and roles.fields(out).keys() & {*reference.sums}:
                sums.append((given, [_arranged(_result(out, reference.sums, roles), out, trial, shape, roles)]))
            result = _arranged(_result(out, reference.output, roles), out, trial, shape, roles)
            mask = given.get("mask")
            return given, [result if mask is None or mask.shape != result.shape else result * mask]
        leaves = {field: given[name].detach().clone().requires_grad_() for name, field in by.items()}
        loss = _loss_in(function(roles.changed(trial, leaves)), formula.name)
        if not by or not loss.requires_grad:
            return given, [loss, *(torch.zeros_like(leaf) for leaf in leaves.values())]
        return given, [loss, *torch.autograd.grad(loss, [*leaves.values()], allow_unused=True)]

    trials, failure = [run(batch)], ""
    for changed in other_values_of(batch, names, roles):
        try:
            trials.append(run(changed))
        except Exception as error:  # noqa: BLE001  # whatever the function refuses
            failure = f"on other values it raised {type(error).__name__}: {error}"
    found = judged(formula, trials, place_of(function)) or _judged_sums(formula, sums, place_of(function))
    if not failure or (found is not None and found.is_certain):
        return found
    text = f"on the batch itself this is {formula.name}" if found is None else found.text
    return Finding("TB514 other-formula", place_of(function), f"{text}; {failure}", is_certain=False)


def _loss_in(out: Any, name: str) -> Tensor:
    """Return the loss that a function returns, alone or before other results.

    Raises:
        SettingError: It is not one number with a gradient.
    """
    loss = out[0] if isinstance(out, (tuple, list)) and out else out
    if not isinstance(loss, Tensor) or loss.ndim:
        got = describe(loss)
        raise SettingError(f"{name} is a loss: the function has to return a tensor of one number, got {got}; reduce it")
    return loss


def with_keywords(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Callable[[Any], Any], Any]:
    """Return a function of a batch that calls one with its fields as keywords, and the batch."""
    arrays = {name: value for name, value in arguments.items() if isinstance(value, (Tensor, np.ndarray))}

    @wraps(function)
    def call(batch: Any) -> Any:
        return function(**{**arguments, **{name: batch[name] for name in arrays}})

    return call, Batch(arrays)


def place_of(function: Any) -> str:
    """Return the file and line of a function, or an empty text."""
    code = getattr(unwrapped(function), "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


Trial = tuple[Inputs, list[Tensor]]
"""Arguments of a formula, and what code computes from them: values, or a loss and its gradients."""


def judged(formula: Formula, trials: list[Trial], place: str = "", *, is_scaled: bool = False) -> Finding | None:
    """Return a finding for the variant of a formula that all trials have, or a note if no known variant fits.

    Args:
        formula: The formula.
        trials: What was computed.
        place: Place of the finding.
        is_scaled: Whether gradients alone are compared, whatever their scale.
    """

    def made(variant: Variant, inputs: Inputs) -> list[Tensor] | None:
        out = _computed(formula.reference, variant, {**inputs, **formula.settings})
        return out if out is None or not is_scaled else [_of_size_one(gradient) for gradient in out[1:]]

    if is_scaled:
        trials = [(inputs, [_of_size_one(gradient) for gradient in results]) for inputs, results in trials]
    right = Variant("", is_right=True)
    for variant in (right, *formula.reference.variants):
        if all(_close(made(variant, inputs), results) for inputs, results in trials):
            is_certain = not variant.choice or variant.choice in formula.given  # Else it may be meant.
            text = f"this is {formula.name}, but {variant.text}"
            return None if variant.is_right else Finding("TB514 other-formula", place, text, is_certain)
    apart = max(_apart(made(right, inputs), results) for inputs, results in trials)
    text = f"this is not {formula.name}, nor a variant of it that is known: {apart[1]}"
    return Finding("TB514 other-formula", place, text, is_certain=False)


def _judged_sums(formula: Formula, sums: list[Trial], place: str) -> Finding | None:
    """Return a finding if returns are made from normalized advantages; others are scaled and combined in many ways."""
    for variant in NORMALIZED if sums else ():
        made = [_computed(formula.reference, variant, {**inputs, **formula.settings}) for inputs, _ in sums]
        if all(
            out is not None and _close([out[0] + inputs["values"]], results)
            for out, (inputs, results) in zip(made, sums, strict=True)
        ):
            text = f"this is {formula.name}, but returns are sums of values and of advantages that were normalized"
            return Finding("TB514 other-formula", place, text)
    return None


def _of_size_one(gradient: Tensor) -> Tensor:
    numbers: Tensor = gradient.double() / gradient.double().norm().clamp(min=1e-12)
    return numbers


def _computed(reference: Reference, variant: Variant, given: Inputs) -> list[Tensor] | None:
    """Return a variant of a formula, and the gradients of a loss; None if its arguments do not allow it."""
    inputs = {name: value.detach().double() if _is_float(value) else value for name, value in given.items()}
    for name in reference.by:
        inputs[name].requires_grad_()
    try:
        changed = variant.change(dict(inputs))
        out = reference.compute(**{name: changed[name] for name in reference.parameters})
        out = variant.after(out, changed)
    except (TypeError, RuntimeError, IndexError):
        return None
    if not reference.by:
        return [out]
    return [out, *torch.autograd.grad(out, [inputs[name] for name in reference.by], allow_unused=True)]


def _close(expected: list[Tensor] | None, results: list[Tensor]) -> bool:
    return expected is not None and all(_distance(*pair) <= 1 for pair in zip(expected, results, strict=True))


def _distance(expected: Tensor | None, result: Tensor | None) -> float:
    """Return the largest difference, in units of what rounding explains."""
    if expected is None or result is None:
        other = result if expected is None else expected
        return 0.0 if other is None or not bool(other.any()) else torch.inf
    if expected.shape != result.shape:
        return torch.inf
    if not expected.numel():
        return 0.0
    tolerance = _OF_HALF if result.dtype in (torch.float16, torch.bfloat16) else _TOLERANCE
    apart = (expected.detach() - result.detach().double()).abs().nan_to_num(torch.inf).max()
    return float(apart / expected.detach().abs().max().clamp(min=1e-6)) / tolerance


def _apart(expected: list[Tensor] | None, results: list[Tensor]) -> tuple[float, str]:
    """Return the distance of what was computed, and a description of the largest difference."""
    if expected is None or expected[0].shape != results[0].shape:
        shape = f", expected {tuple(expected[0].shape)}" if expected is not None else ""
        return torch.inf, f"its shape is {tuple(results[0].shape)}{shape}"
    distances = [_distance(*pair) for pair in zip(expected, results, strict=True)]
    if len(expected) > 1 and distances[0] <= 1:
        return max(distances), "its value is right on this batch, and its gradient is not"
    one, other = (values[0].detach().double().reshape(len(values[0]) if values[0].ndim else 1, -1)
                  for values in (results, expected))  # fmt: skip
    apart = (one - other).abs()
    row = int(apart.amax(1).argmax())
    at = int(apart[row].argmax())
    where = f"at row {row} " if expected[0].ndim else ""
    return distances[0], f"{where}it is {float(one[row, at]):.4g}, expected {float(other[row, at]):.4g}"


def other_values_of(batch: Any, names: Mapping[str, str | None], roles: Roles) -> Iterator[Any]:
    """Yield copies of a batch with other values in the fields that a formula takes."""
    generator, fields = torch.Generator().manual_seed(0), roles.fields(batch)
    # What follows a token outside of the mask is known for masks as they are alone.
    fixed = _FIXED | {"mask"} if "rewards" in names else _FIXED
    known = {name: field for name, field in names.items() if field is not None and name not in fixed}
    shapes = {name: _tensor(fields[field]).shape for name, field in known.items()}
    for _ in range(_TRIALS):
        drawn: dict[str, Tensor] = {}
        for name, shape in shapes.items():
            if name in _FLAGS:
                drawn[name] = torch.rand(shape, generator=generator) < (0.6 if name == "mask" else 0.25)
            else:
                drawn[name] = torch.randn(shape, generator=generator)
        _make_coherent(drawn, fields, known)
        if "rewards" in drawn and names.get("mask") is not None:  # There is none for a token that does not count.
            drawn["rewards"] *= _tensor(fields[str(names["mask"])])
        changed = {field: _alike(fields[field], drawn[name]) for name, field in known.items()}
        for done in _DONE if "terminated" in drawn else ():
            if fields.get(done) is not None and fields[done].shape == shapes["terminated"]:
                changed[done] = _alike(fields[done], drawn["terminated"] | drawn.get("truncated", drawn["terminated"]))
        yield roles.changed(batch, changed)


def _make_coherent(drawn: dict[str, Tensor], fields: Mapping[str, Any], known: Mapping[str, str]) -> None:
    """Make numbers that depend on each other fit, as those of the observation after a step and of the next step."""
    flags = {name: _tensor(fields[known[name]]).bool() for name in ("terminated", "truncated") if name in drawn}
    for name, flag in flags.items():  # What is after the last row stays as it is.
        drawn[name][-1:] = flag[-1:]
    if "truncated" in drawn:
        drawn["truncated"] &= ~drawn["terminated"]
    if "values" not in drawn:  # Those of networks are of the observations, in which episodes end where they ended.
        lost = (
            torch.stack([*flags.values()]).any(0) & ~torch.stack([drawn[name] for name in flags]).any(0) if flags else 0
        )
        for name, flag in flags.items():
            drawn[name] |= flag & lost
    if "values" in drawn and "next_values" in drawn:
        ended = (drawn["terminated"] | drawn.get("truncated", drawn["terminated"]))[:-1]
        drawn["next_values"][:-1] = torch.where(ended, drawn["next_values"][:-1], drawn["values"][1:])
    if "old_logp" in drawn:  # Near the others, so that some ratios are clipped and some are not.
        logp = drawn["logp"] if "logp" in drawn else _tensor(fields[known["old_logp"]])
        drawn["old_logp"] = logp + 0.3 * drawn["old_logp"]
    if "ref_logp" in drawn:  # Estimates are often cut off where the difference is large.
        drawn["ref_logp"] = drawn["logp"] + drawn["ref_logp"]
    if "ratio" in drawn:
        drawn["ratio"] = (0.3 * drawn["ratio"]).exp()


def _alike(value: Any, numbers: Tensor) -> Any:
    """Return numbers as a tensor or array of the dtype of a value."""
    return numbers.to(value) if isinstance(value, Tensor) else numbers.numpy().astype(np.asarray(value).dtype)


def _inputs(batch: Any, names: Mapping[str, str | None], roles: Roles) -> Inputs:
    fields = roles.fields(batch)
    inputs: Inputs = {name: None if known is None else _tensor(fields[known]) for name, known in names.items()}
    if "truncated" in inputs and inputs["truncated"] is None:
        inputs["truncated"] = torch.zeros_like(inputs["terminated"])
    for name in _FLAGS & inputs.keys():
        inputs[name] = None if inputs[name] is None else inputs[name].bool()
    if "logp" in inputs and "adv" in inputs and inputs["adv"].ndim == inputs["logp"].ndim - 1:
        inputs["adv"] = inputs["adv"][..., None].expand_as(inputs["logp"])
    return inputs


def _result(out: Any, names: tuple[str, ...], roles: Roles) -> Tensor:
    """Return the values of a result: of a batch or dict, the field that a formula computes; of a tuple, the first.

    Raises:
        SettingError: A batch has no such field.
    """
    if isinstance(out, (tuple, list)) and out and isinstance(out[0], (Tensor, np.ndarray)):
        return _tensor(out[0])
    if kind_of(out) is not BATCH and not isinstance(out, Mapping):
        return _tensor(out)
    roles.learn(type(out))
    fields = out if isinstance(out, Mapping) else roles.fields(out)
    name = next((name for name in names if fields.get(name) is not None), None)
    if name is None:
        raise SettingError(f"the result has no field {' or '.join(names)} to compare")
    return _tensor(fields[name])


def _arranged(result: Tensor, out: Any, batch: Any, shape: torch.Size, roles: Roles) -> Tensor:
    """Return a result of one axis as steps and environments, in the order that another field of it has."""
    if len(shape) != 2 or result.shape != (shape.numel(),):
        return result
    fields, given = roles.fields(out) if kind_of(out) is BATCH else {}, roles.fields(batch)
    for name in fields.keys() & given.keys():
        mine, whole = fields[name], given[name]
        if isinstance(mine, Tensor) and isinstance(whole, Tensor) and whole.shape[:2] == shape:
            by_env = whole.transpose(0, 1).flatten(0, 1)
            if mine.shape == by_env.shape and torch.equal(mine, by_env) and not torch.equal(mine, whole.flatten(0, 1)):
                return result.reshape(shape[::-1]).mT
    return result.reshape(shape)


def _tensor(value: Any) -> Tensor:
    """Return an array or tensor as a tensor; of texts and objects, a number for each that differs."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "OUS":
        return torch.as_tensor(array)
    texts = [repr(one) for one in array.ravel()]
    return torch.as_tensor(np.unique(texts, return_inverse=True)[1]).reshape(array.shape)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
