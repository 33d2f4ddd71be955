"""Replays of an update on batches that differ in what must not matter, or in what must."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from typedbatch._tree.kinds import BATCH, TENSOR, kind_of
from typedbatch.audit.report import Finding, Report
from typedbatch.audit.snapshot import Restore
from typedbatch.batch import Batch

_TOLERANCE = 1e-3
_WIDER = 3

Gradients = list[Tensor]


class Replays:
    """Replays of an update from one state. The gradients of the first step of each optimizer are compared.

    Args:
        update: The update.
        args: Its arguments. Batches among them are copied for each replay.
        restore: Function that sets the state back to that before the update.
        report: Report that findings are added to.
        parameters: Parameters that the update may change.
    """

    def __init__(
        self, update: Callable[..., Any], args: Sequence[Any], restore: Restore, report: Report, parameters: list[Any]
    ) -> None:
        self._parameters = parameters
        self._update, self._args, self._restore, self._report = update, args, restore, report
        self.compares_ids: bool = False
        """Whether the update looks for tokens by their ids, as for that of the padding."""

    def run(self, vary: Mapping[str, Sequence[Any]]) -> None:
        """Run all replays that the batches allow, and report those whose gradients are not as they should be."""
        base = self._gradients({})
        again = self._gradients({})
        if not base or not _equal(base, again):
            why = "two replays of one batch differ" if base else "no optimizer made a step"
            self._note(f"{why}, so that the update was not replayed on other batches")
            return
        for position, batch in enumerate(self._args):
            if kind_of(batch) is BATCH:
                self._vary_tokens(base, position, batch)
                self._vary_ends(position, batch)
        for name, values in vary.items():
            self._vary_argument(name, values)

    def _vary_tokens(self, base: Gradients, position: int, batch: Any) -> None:
        for name, changed in token_changes(batch):
            other = self._gradients({position: changed})
            if not other or _equal(base, other):
                continue
            text, is_certain = _TOKEN_TEXTS[name]
            is_certain = is_certain and not (name == "padding" and self.compares_ids)
            self._report.add(Finding("TB511 replay-differs", "", text, is_certain))

    def _vary_ends(self, position: int, batch: Any) -> None:
        """Compare the effects of ``obs_next`` in truncated rows and in rows after which the episode goes on."""
        fields = Batch.to_dict(batch, recursive=False)
        needed = [fields.get(name) for name in ("obs_next", "terminated", "truncated")]
        if any(kind_of(value) is not TENSOR and not hasattr(value, "dtype") for value in needed):
            return
        obs_next, terminated, truncated = (torch.as_tensor(value) for value in needed)
        if terminated.ndim != 1 or not obs_next.is_floating_point():
            return
        cut, going = truncated.bool() & ~terminated.bool(), ~truncated.bool() & ~terminated.bool()
        if not bool(cut.any()) or not bool(going.any()):
            return
        final, effects = self._learned({}), []
        for rows in (cut, going):
            changed = copy.deepcopy(batch)
            index = rows.nonzero()[:, 0].cpu().numpy()
            changed["obs_next"][index] = changed["obs_next"][index] + 1
            effects.append(not _equal(final, self._learned({position: changed}), tolerance=0.0))
        if effects == [False, True]:
            text = (
                f"obs_next has no effect in the {int(cut.sum())} rows that are truncated, but has one in others; a "
                "cut-off episode goes on, so use terminated alone in targets"
            )
            self._report.add(Finding("TB511 replay-differs", "", text))

    def _vary_argument(self, name: str, values: Sequence[Any]) -> None:
        first = self._gradients({}, {name: values[0]})
        for value in values[1:]:
            if not _equal(first, self._gradients({}, {name: value})):
                text = f"the gradients of a step with {name}={value} are not those with {name}={values[0]}"
                self._report.add(
                    Finding("TB511 replay-differs", "", f"{text}; divide by the counts of the whole minibatch")
                )
                return

    def _gradients(self, changed: Mapping[int, Any], keywords: Mapping[str, Any] | None = None) -> Gradients:
        """Return the gradients of the first step of each optimizer; an empty list if the update fails."""
        given = [changed.get(n, arg) for n, arg in enumerate(self._args)]
        given = [copy.deepcopy(arg) if kind_of(arg) is BATCH else arg for arg in given]
        taken: dict[int, Gradients] = {}

        def take(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            gradients = [p.grad.detach().clone() for p in parameters if p.grad is not None]
            taken.setdefault(id(optimizer), gradients)

        self._restore()
        handle = register_optimizer_step_pre_hook(take)
        try:
            self._update(*given, **(keywords or {}))
        except Exception:  # The update may refuse a batch of another width; what it said of its own is in the trace.
            if keywords:
                raise
            return []
        finally:
            handle.remove()
        return [gradient for gradients in taken.values() for gradient in gradients]

    def _learned(self, changed: Mapping[int, Any]) -> list[Tensor]:
        """Return the parameters after a replay."""
        self._gradients(changed)
        return [parameter.detach().clone() for parameter in self._parameters]

    def _note(self, text: str) -> None:
        self._report.add(Finding("TB511 replay-differs", "", text, is_certain=False))


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


def token_changes(batch: Any) -> Iterator[tuple[str, Any]]:
    """Yield copies of a batch of tokens with other values outside of masks, other padding, and more padding."""
    fields = {name: value for name, value in Batch.items(batch) if kind_of(value) is TENSOR}
    mask = fields.get("loss_mask", fields.get("response_mask"))
    if mask is not None and not bool(mask.all()):
        changed = copy.deepcopy(batch)
        for name, value in fields.items():
            if value.shape == mask.shape and value.is_floating_point():
                changed[name] = torch.where(mask.bool(), value, value + 1)
        yield "masked", changed
    if (padded := other_padding(batch)) is not None:
        yield "padding", padded
    if "prompt" in _sides(fields):
        shifted = copy.deepcopy(batch)
        for name in ("prompt_ids", "prompt_mask"):
            more = fields[name][:, :1].expand(-1, _WIDER)
            shifted[name] = torch.cat([torch.zeros_like(more) if name == "prompt_mask" else more, fields[name]], 1)
        yield "shifted", shifted
    sides = [name for name in _sides(fields) if name != "prompt"]
    if sides:
        widened = copy.deepcopy(batch)
        for side in sides:
            _widen(widened, fields, side)
        yield "wider", widened


def _sides(fields: Mapping[str, Any]) -> list[str]:
    """Return the prefixes of tokens with a mask: ``"response"`` for ``response_ids`` and ``response_mask``."""
    names = [name.removesuffix("_ids") for name in fields if name.endswith("_ids")]
    return [name for name in names if f"{name}_mask" in fields and fields[f"{name}_ids"].ndim == 2]


def _widen(batch: Any, fields: Mapping[str, Any], side: str) -> None:
    """Add columns of padding to the fields of a response, in place."""
    shape = fields[f"{side}_mask"].shape
    for name, value in fields.items():
        is_of_side = name.startswith(side) or side == "response"
        if value.ndim >= 2 and value.shape[:2] == shape and is_of_side and not name.startswith("prompt"):
            more = value[:, -1:].expand(-1, _WIDER, *value.shape[2:])
            batch[name] = torch.cat([value, more if name.endswith("_ids") else torch.zeros_like(more)], 1)


def other_padding(batch: Any) -> Any:
    """Return a copy of a batch with other tokens where there is padding, or None if there is none."""
    changed, is_changed = copy.deepcopy(batch), False
    fields = {name: value for name, value in Batch.items(batch) if kind_of(value) is TENSOR}
    for side in _sides(fields):
        ids, mask = fields[f"{side}_ids"], fields[f"{side}_mask"].bool()
        if not bool(mask.all()) and bool(mask.any()):
            changed[f"{side}_ids"] = torch.where(mask, ids, ids[mask].flatten()[0])
            is_changed = True
    return changed if is_changed else None


def _equal(one: Gradients, other: Gradients, tolerance: float = _TOLERANCE) -> bool:
    """Return True if gradients differ by no more than rounding."""
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return False
    apart = sum(float((a - b).double().square().sum()) for a, b in zip(one, other, strict=True))
    size = sum(float(a.double().square().sum()) for a in one)
    return bool(apart**0.5 <= tolerance * max(size**0.5, 1e-12))
