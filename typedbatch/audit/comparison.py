"""Comparison of code with a formula: on the user's batch, and on others that tell the variants of the formula apart."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from typedbatch._core.kinds import BATCH, kind_of
from typedbatch.audit.report import Finding
from typedbatch.audit.roles import Roles
from typedbatch.audit.variants import REFERENCES, Inputs, Reference, Variant
from typedbatch.errors import SettingError

_TOLERANCE: Final = 1e-4
_TRIALS: Final = 3
_FLAGS: Final = frozenset({"terminated", "truncated", "mask"})
_FIXED: Final = frozenset({"uid", "desirable"})
_OPTIONAL: Final = frozenset({"truncated", "mask"})
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "values": ("v_s", "values", "value"),
    "next_values": ("v_s_", "next_values", "values_next"),
    "old_logp": ("logp_old", "old_logp"),
    "mask": ("loss_mask", "mask"),
    "adv": ("adv", "advantages"),
    "rewards": ("rewards", "scores", "rew"),
    "rew": ("rew", "rewards"),
    "chosen": ("chosen_logp", "chosen"),
    "rejected": ("rejected_logp", "rejected"),
    "ref_chosen": ("ref_chosen_logp",),
    "ref_rejected": ("ref_rejected_logp",),
    "student": ("student_logits", "logits"),
    "teacher": ("teacher_logits",),
}
"""Names of the fields that are arguments of formulas; others have the name of the argument."""


def settings_of(like: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all settings of a formula.

    Raises:
        SettingError: There is no such formula, it has no such setting, or one that it needs is not given.
    """
    if like not in REFERENCES:
        raise SettingError(f"like takes one of {', '.join(REFERENCES)}, got {like!r}")
    known = REFERENCES[like].settings
    for name in given:
        if name not in known:
            raise SettingError(f"{like} has the settings {', '.join(known) or '(none)'}, got {name!r}")
    settings = {**known, **given}
    if missing := [name for name, value in settings.items() if value is None]:
        raise SettingError(f"{like} needs {' and '.join(missing)}, as in settings={{{missing[0]!r}: ...}}")
    return settings


def compare_stage(
    function: Callable[[Any], Any], batch: Any, like: str, settings: Mapping[str, Any], roles: Roles
) -> Finding | None:
    """Compare the result of a function of a batch with a formula; for a loss, its value and its gradients."""
    reference = REFERENCES[like]
    names = {name: _field_of(name, roles.fields(batch), like) for name in reference.inputs}

    def run(trial: Any) -> tuple[Inputs, list[Tensor]]:
        given = _inputs(trial, names, roles)
        if not reference.by:
            return given, [_result(function(copy.deepcopy(trial)), reference.output, roles)]
        by = {str(names[name]): given[name].detach().clone().requires_grad_() for name in reference.by}
        loss = function(roles.changed(trial, by))
        return given, [loss, *torch.autograd.grad(loss, [*by.values()], allow_unused=True)]

    trials: list[Trial] = [run(batch)]
    failure = ""
    for changed in other_values_of(batch, names, roles):
        try:
            trials.append(run(changed))
        except Exception as error:  # noqa: BLE001  # whatever the function refuses
            failure = f"; on other values it raised {type(error).__name__}: {error}"
    return judged(like, reference, settings, trials, place_of(function), failure=failure)


def place_of(function: Any) -> str:
    """Return the file and line of a function, or an empty text."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


Trial = tuple[Inputs, list[Tensor]]
"""Arguments of a formula, and what code computes from them: values, or a loss and its gradients."""


def judged(
    like: str,
    reference: Reference,
    settings: Mapping[str, Any],
    trials: list[Trial],
    place: str = "",
    *,
    failure: str = "",
    is_scaled: bool = False,
) -> Finding | None:
    """Return a finding for the variant of a formula that all trials have, or a note if no known variant fits.

    Args:
        like: Name of the formula.
        reference: The formula.
        settings: Its settings.
        trials: What was computed.
        place: Place of the finding.
        failure: Reason why there are not more trials, to be told.
        is_scaled: Whether gradients alone are compared, whatever their scale.
    """

    def made(variant: Variant, inputs: Inputs) -> list[Tensor] | None:
        out = _computed(reference, variant, {**inputs, **settings})
        return out if out is None or not is_scaled else [_of_size_one(gradient) for gradient in out[1:]]

    if is_scaled:
        trials = [(inputs, [_of_size_one(gradient) for gradient in results]) for inputs, results in trials]
    right = Variant("", is_right=True)
    for variant in (right, *reference.variants):
        if all(_close(made(variant, inputs), results) for inputs, results in trials):
            text = f"this is {like}, but {variant.text}"
            return None if variant.is_right else Finding("TB514 other-formula", place, text)
    apart = [_apart(made(right, inputs), results) for inputs, results in trials]
    text = f"this is not {like}, nor a variant of it that is known{max(apart)[1]}{failure}"
    return Finding("TB514 other-formula", place, text, is_certain=False)


def _of_size_one(gradient: Tensor) -> Tensor:
    numbers: Tensor = gradient.double() / gradient.double().norm().clamp(min=1e-12)
    return numbers


def _computed(reference: Reference, variant: Variant, given: Inputs) -> list[Tensor] | None:
    """Return a variant of a formula, and the gradients of a loss; None if its arguments do not allow it."""
    inputs = {name: value.detach().double() if _is_float(value) else value for name, value in given.items()}
    for name in reference.by:
        inputs[name].requires_grad_()
    parameters = inspect.signature(reference.compute).parameters
    try:
        changed = variant.change(dict(inputs))
        out = reference.compute(**{name: value for name, value in changed.items() if name in parameters})
        out = variant.after(out, changed)
    except (TypeError, RuntimeError, IndexError):
        return None
    if not reference.by:
        return [out]
    return [out, *torch.autograd.grad(out, [inputs[name] for name in reference.by], allow_unused=True)]


def _close(expected: list[Tensor] | None, results: list[Tensor]) -> bool:
    return expected is not None and all(_distance(*pair) <= _TOLERANCE for pair in zip(expected, results, strict=True))


def _distance(expected: Tensor | None, result: Tensor | None) -> float:
    """Return the largest difference, in units of the largest value."""
    if expected is None or result is None:
        other = result if expected is None else expected
        return 0.0 if other is None or not bool(other.any()) else float("inf")
    if expected.shape != result.shape:
        return float("inf")
    apart = (expected.detach() - result.detach().double()).abs().max() if expected.numel() else torch.zeros(())
    return float(apart / expected.detach().abs().max().clamp(min=1e-6)) if expected.numel() else 0.0


def _apart(expected: list[Tensor] | None, results: list[Tensor]) -> tuple[float, str]:
    """Return the largest difference of the first result, and its description with the row."""
    if expected is None or expected[0].shape != results[0].shape:
        shape = None if expected is None else tuple(expected[0].shape)
        return torch.inf, f": its shape is {tuple(results[0].shape)}, expected {shape}"
    one, other = (values[0].detach().double().reshape(len(values[0]) if values[0].ndim else 1, -1)
                  for values in (results, expected))  # fmt: skip
    apart = (one - other).abs()
    row = int(apart.amax(1).argmax())
    at = int(apart[row].argmax())
    where = f"at row {row} " if expected[0].ndim else ""
    return float(apart[row, at]), f": {where}it is {float(one[row, at]):.4g}, expected {float(other[row, at]):.4g}"


def other_values_of(batch: Any, names: Mapping[str, str | None], roles: Roles) -> Iterator[Any]:
    """Yield copies of a batch with other values in the fields that a formula takes."""
    generator = torch.Generator().manual_seed(0)
    fields = roles.fields(batch)
    for _ in range(_TRIALS):
        changed: dict[str, Any] = {}
        for name, known in names.items():
            if known is None or name in _FIXED:
                continue
            value = _tensor(fields[known])
            drawn = torch.rand(value.shape, generator=generator)
            if name in _FLAGS:
                new: Any = drawn < (0.6 if name == "mask" else 0.25)
            else:
                new = torch.randn(value.shape, generator=generator).to(value.dtype)
            changed[known] = new if isinstance(fields[known], Tensor) else new.numpy().astype(fields[known].dtype)
        if (old := names.get("old_logp")) is not None:  # Near the others, so that some are clipped and some are not.
            new = changed.get(str(names.get("logp")), fields[old])
            apart = 0.3 * torch.randn(_tensor(new).shape, generator=generator)
            changed[old] = new + (apart if isinstance(new, Tensor) else apart.numpy().astype(new.dtype))
        if names.get("terminated") is not None and names.get("truncated") is not None:
            changed[str(names["truncated"])] &= ~changed[str(names["terminated"])]
        yield roles.changed(batch, changed)


def _field_of(name: str, fields: Mapping[str, Any], like: str) -> str | None:
    """Return the name of the field that is an argument of a formula, or None for an optional one that is not there.

    Raises:
        SettingError: The batch has no such field.
    """
    names = FIELDS.get(name, (name,))
    found = next((one for one in names if fields.get(one) is not None), None)
    if found is None and name not in _OPTIONAL:
        raise SettingError(f"{like} takes {name} from a field {' or '.join(names)}, which the batch lacks")
    return found


def _inputs(batch: Any, names: Mapping[str, str | None], roles: Roles) -> Inputs:
    fields = roles.fields(batch)
    inputs: Inputs = {name: None if known is None else _tensor(fields[known]) for name, known in names.items()}
    if "truncated" in inputs and inputs["truncated"] is None:
        inputs["truncated"] = torch.zeros_like(inputs["terminated"])
    for name in _FLAGS & inputs.keys():
        inputs[name] = None if inputs[name] is None else inputs[name].bool()
    return inputs


def _result(out: Any, names: tuple[str, ...], roles: Roles) -> Tensor:
    """Return the values of a result: of a batch, the field that a formula computes.

    Raises:
        SettingError: A batch has no such field.
    """
    if kind_of(out) is not BATCH:
        return _tensor(out)
    roles.learn(type(out))
    fields = roles.fields(out)
    name = next((name for name in names if fields.get(name) is not None), None)
    if name is None:
        raise SettingError(f"the result has no field {' or '.join(names)} to compare")
    return _tensor(fields[name])


def _tensor(value: Any) -> Tensor:
    """Return an array or tensor as a tensor; texts and objects as the numbers of their first occurrence."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    return torch.as_tensor(np.unique(array.astype(str), return_inverse=True)[1] if array.dtype.kind in "OUS" else array)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
