"""Replays of an update on batches that differ in what must not matter, or in what must."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from typedbatch._core.kinds import BATCH, TENSOR, kind_of
from typedbatch.audit.child import can_fork, in_child, tensors_of_child
from typedbatch.audit.objects import parameters_of
from typedbatch.audit.output_gradients import OutputGradients
from typedbatch.audit.report import Finding
from typedbatch.audit.reward_credit import Credit, TokenCredit
from typedbatch.audit.roles import Roles
from typedbatch.audit.tags import ADVANTAGES

_TOLERANCE = 1e-3
_WIDER = 3
_PER_STEP = ("terminated", "truncated", "rew", "logp_old", "response_mask")
_TOKEN_TEXTS = {
    "masked": (
        "values outside loss_mask have an effect on the gradients; multiply by the mask before means, sums and shifts",
        True,
    ),
    "padding": ("the tokens of padding have an effect on the gradients; use the masks", True),
    "shifted": (
        "padding on the left of prompts has an effect on the gradients; do positions count it, or does an index?",
        False,
    ),
    "wider": (
        "columns of padding have an effect on gradients; is something divided by the width, or read from the right?",
        False,
    ),
}
PADDING = _TOKEN_TEXTS["padding"][0]


class Learned(NamedTuple):
    """The gradients of the first step of each optimizer, and the parameters after the update."""

    gradients: list[Tensor]
    parameters: list[Tensor]


class Same(NamedTuple):
    """The comparison of a replay with the one of the batch itself."""

    gradients: bool
    """Whether the gradients are the same, but for rounding."""
    parameters: bool
    """Whether the parameters are the same, bit for bit."""


class Replays:
    """Replays of an update, each in a copy of this process, so that nothing has to be restored."""

    def __init__(self, update: Callable[..., Any], args: Sequence[Any], roles: Roles) -> None:
        self._update, self._args, self._roles = update, args, roles
        self._base: Learned | None = None
        self.findings: list[Finding] = []
        """Findings and notes so far."""

    def run(self, vary: Mapping[str, Sequence[Any]]) -> None:
        """Run all replays that the batches allow, and report those whose gradients are not as they should be."""
        if not can_fork():
            self._add("replays need Linux, and an update that does not use a GPU", is_certain=False)
            return
        self._base, failure = self._first()
        again = self._replay({}) if self._base is not None else None
        if again is None or not again.gradients:
            why = failure if self._base is None else "two replays of one batch differ"
            self._add(f"the update was not replayed on other batches: {why}", is_certain=False)
            return
        for position, batch in enumerate(self._args):
            if kind_of(batch) is BATCH:
                try:
                    self._vary_tokens(position, batch)
                    self._vary_ends(position, batch)
                except TypeError as error:  # A field cannot be copied.
                    text = f"the batch cannot be copied, so that it was not changed for replays: {error}"
                    self._add(text, is_certain=False)
        self._examine_credit()
        for name, values in vary.items():
            self._vary_argument(name, values)

    def _examine_credit(self) -> None:
        """Try the laws of credit on the first batch."""
        batches = [(position, batch) for position, batch in enumerate(self._args) if kind_of(batch) is BATCH]
        fields = self._roles.fields(batches[0][1]) if batches else {}
        steps = next((tuple(fields[name].shape) for name in _PER_STEP if getattr(fields.get(name), "ndim", 0) > 1), ())
        outputs = OutputGradients(self._update, self._args, steps)
        if not batches or not outputs.begin():
            return
        for credit in (Credit(outputs, self._roles, *batches[0]), TokenCredit(outputs, self._roles, *batches[0])):
            try:
                credit.examine()
            except Exception as error:  # noqa: BLE001  # whatever it is, the update goes on
                text = f"the laws of credit failed by {type(error).__name__}: {error}"
                self.findings.append(Finding("TB513 check-failed", "", text, is_certain=False))
            self.findings.extend(credit.findings)

    def _vary_tokens(self, position: int, batch: Any) -> None:
        for name, changed in token_changes(batch, self._roles):
            other = self._replay({position: changed})
            if other is not None and not other.gradients:
                text, is_certain = _TOKEN_TEXTS[name]
                # Without a mask of responses, that of the loss may be one of predictions.
                self._add(text, is_certain=is_certain and "response_mask" in self._roles.fields(batch))

    def _vary_ends(self, position: int, batch: Any) -> None:
        """Compare the effects of ``obs_next`` in truncated rows and in rows after which the episode goes on."""
        fields = self._roles.fields(batch)
        needed = [fields.get(name) for name in ("obs_next", "rew", "terminated", "truncated")]
        if any(not hasattr(value, "dtype") or not getattr(value, "ndim", 0) for value in needed):
            return
        obs_next, rew, terminated, truncated = (torch.as_tensor(value) for value in needed)
        if not terminated.shape == truncated.shape == rew.shape == obs_next.shape[: rew.ndim]:
            return
        if not obs_next.is_floating_point() or not rew.is_floating_point():
            return
        cut, going = truncated.bool() & ~terminated.bool(), ~truncated.bool() & ~terminated.bool()
        if not bool(going.any()):
            return
        everywhere = torch.ones_like(cut)
        if (
            bool(going[-1].any())
            and not {"v_s_", "next_values"} & fields.keys()
            and not self._has_effect(position, batch, "obs_next", everywhere)
        ):
            if self._has_effect(position, batch, "rew", everywhere):
                text = "obs_next never has an effect, although the last episodes go on; what is the value after them?"
                self.findings.append(Finding("TB508 wrong-target", "", text, is_certain=False))
            return
        # Their rewards tell whether the rows are in a minibatch at all.
        is_seen = bool(cut.any()) and self._has_effect(position, batch, "rew", cut)
        is_lost = is_seen and not self._has_effect(position, batch, "obs_next", cut)
        if is_lost and self._has_effect(position, batch, "obs_next", going):
            self._add(
                f"obs_next has no effect in the {int(cut.sum())} rows that are truncated, but has one in others; a "
                "cut-off episode goes on, so use terminated alone in targets"
            )

    def _has_effect(self, position: int, batch: Any, name: str, rows: Tensor) -> bool:
        """Return whether the update learns something else if a field is changed in these rows."""
        values = copy.deepcopy(self._roles.fields(batch)[name])
        index = tuple(rows.nonzero().cpu().numpy().T)
        values[index] = values[index] + 1
        other = self._replay({position: self._roles.changed(batch, {name: values})})
        return other is not None and not other.parameters

    def _vary_argument(self, name: str, values: Sequence[Any]) -> None:
        base = self._base
        try:
            self._base, _ = self._first({name: values[0]})
            for value in values[1:]:
                other = self._replay({}, {name: value})
                if other is not None and not other.gradients:
                    text = f"the gradients of a step with {name}={value} are not those with {name}={values[0]}"
                    self._add(f"{text}; divide by the counts of the whole minibatch")
                    return
        finally:
            self._base = base

    def _first(self, keywords: Mapping[str, Any] | None = None) -> tuple[Learned | None, str]:
        """Return what the update learns from its own arguments, or None and the reason why nothing is known."""
        pair, failure = tensors_of_child(lambda: tuple(self._learn({}, keywords or {})))
        if pair is None or not pair[0]:
            return None, failure or "no optimizer made a step"
        return Learned(*pair), ""

    def _replay(self, changed: Mapping[int, Any], keywords: Mapping[str, Any] | None = None) -> Same | None:
        """Compare what the update learns from changed arguments; None if it refuses them."""
        base = self._base
        assert base is not None

        def compare() -> list[bool]:
            other = self._learn(changed, keywords or {})
            return [_equal(base.gradients, other.gradients), _equal(base.parameters, other.parameters, tolerance=0.0)]

        same = in_child(compare).value
        return None if same is None else Same(*same)

    def _learn(self, changed: Mapping[int, Any], keywords: Mapping[str, Any]) -> Learned:
        """Run the update, in a child, and return what it learns."""
        gradients: dict[int, list[Tensor]] = {}
        stepped: dict[int, Any] = {}

        def take(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            parameters = parameters_of(optimizer)
            stepped.update((id(parameter), parameter) for parameter in parameters)
            found = [p.grad.detach().clone() for p in parameters if p.grad is not None]
            gradients.setdefault(id(optimizer), found)

        handle = register_optimizer_step_pre_hook(take)
        try:
            self._update(*(changed.get(number, arg) for number, arg in enumerate(self._args)), **keywords)
        finally:
            handle.remove()
        flat = [gradient for found in gradients.values() for gradient in found]
        return Learned(flat, [parameter.detach().clone() for parameter in stepped.values()])

    def _add(self, text: str, *, is_certain: bool = True) -> None:
        self.findings.append(Finding("TB511 replay-differs", "", self._roles.shown(text), is_certain))


def token_changes(batch: Any, roles: Roles) -> Iterator[tuple[str, Any]]:
    """Yield copies of a batch of tokens with other values outside of masks, other padding, and more padding."""
    fields = {name: value for name, value in roles.fields(batch).items() if kind_of(value) is TENSOR}
    there = fields.get("response_mask")
    mask = fields.get("loss_mask", there)
    if mask is not None and not bool(mask.all()):
        changed = {}
        for name, value in fields.items():
            if value.shape == mask.shape and value.is_floating_point():
                # A critic and a penalty may be of all tokens that exist, the policy is of its own.
                counts = mask if name in ADVANTAGES or there is None or there.shape != mask.shape else there
                if bool(value[~counts.bool()].any()):  # An update may rely on zeros.
                    changed[name] = torch.where(counts.bool(), value, value + 1)
        yield "masked", roles.changed(batch, changed)
    if "attention_mask" not in fields and (padded := other_padding(batch, roles)) is not None:
        yield "padding", padded
    if "prompt" in _sides(fields):
        shifted = {}
        for name in ("prompt_ids", "prompt_mask"):
            more = fields[name][:, :1].expand(-1, _WIDER)
            shifted[name] = torch.cat([torch.zeros_like(more) if name == "prompt_mask" else more, fields[name]], 1)
        yield "shifted", roles.changed(batch, shifted)
    widened = {name: value for side in _sides(fields) if side != "prompt" for name, value in _widened(fields, side)}
    if widened:
        yield "wider", roles.changed(batch, widened)


def _sides(fields: Mapping[str, Any]) -> list[str]:
    """Return the prefixes of tokens with a mask: ``"response"`` for ``response_ids`` and ``response_mask``."""
    names = [name.removesuffix("_ids") for name in fields if name.endswith("_ids")]
    return [name for name in names if f"{name}_mask" in fields and fields[f"{name}_ids"].ndim == 2]


def _widened(fields: Mapping[str, Any], side: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the fields of a response with more columns of padding."""
    shape = fields[f"{side}_mask"].shape
    for name, value in fields.items():
        is_of_side = name.startswith(side) or side == "response"
        if value.ndim >= 2 and value.shape[:2] == shape and is_of_side and not name.startswith("prompt"):
            more = value[:, -1:].expand(-1, _WIDER, *value.shape[2:])
            yield name, torch.cat([value, more if name.endswith("_ids") else torch.zeros_like(more)], 1)


def other_padding(batch: Any, roles: Roles) -> Any:
    """Return a copy of a batch with other tokens where there is padding, or None if there is none."""
    fields = {name: value for name, value in roles.fields(batch).items() if kind_of(value) is TENSOR}
    changed = {}
    for side in _sides(fields):
        ids, mask = fields[f"{side}_ids"], fields[f"{side}_mask"].bool()
        if not bool(mask.all()) and bool(mask.any()):
            changed[f"{side}_ids"] = torch.where(mask, ids, ids[mask].flatten()[0])
    return roles.changed(batch, changed) if changed else None


def _equal(one: list[Tensor], other: list[Tensor], tolerance: float = _TOLERANCE) -> bool:
    """Return True if gradients differ by no more than rounding."""
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return False
    apart = sum(float((a - b).double().square().sum()) for a, b in zip(one, other, strict=True))
    size = sum(float(a.double().square().sum()) for a in one)
    return bool(apart**0.5 <= tolerance * max(size**0.5, 1e-12))
