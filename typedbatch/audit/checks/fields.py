"""Checks of the fields of an update: those that are never read, and coarse dtypes."""

from __future__ import annotations

import weakref
from typing import Any, Final

import torch
from torch import Tensor
from typing_extensions import override

from typedbatch.audit.operations import DIFFERENCES
from typedbatch.audit.places import here
from typedbatch.audit.roles import LOSS_MASKS, MUST_READ, NEXT_OBS, OLD_LOGP, TERMINATED
from typedbatch.audit.tags import Tag, listed
from typedbatch.audit.trace import Check, Operation, Trace


class Reads(Check):
    """The fields that an update reads."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._learns_from: set[int] = set()
        self._in_losses: set[str] = set()
        self._masks_differ = False
        self._apart = 0.0
        """Mean difference of ``old_logp`` and ``rollout_logp`` of the tokens that count."""

    @override
    def backward(self, loss: Tensor) -> None:
        for field in self.trace.tag_of(loss).fields:
            self._learns_from.add(field.origin)
            self._in_losses.add(field.name.split(".")[0])

    @override
    def end(self) -> None:
        origins = self.trace.origins
        read = set().union(*origins.read.values())
        for origin, names in sorted(origins.read.items()):
            if origin < 0:
                continue
            there = {name for name in origins.fields_of(origin) if "." not in name}
            unread = (there & MUST_READ) - read - origins.computed
            unread -= origins.blank
            read |= unread  # It is reported once, for the batch that the others were made of.
            if unread:
                owner = origins.classes[origin][0].__name__
                text = f"the update reads {listed(names)} of {owner}, but never {listed(unread)}"
                self.trace.found(
                    "TB505 unread-field", text, place="", is_certain=origin in self._learns_from and "weight" in unread
                )
            self._find_next_obs(origin, names, there)
        self._find_older(read)
        ignored = self.trace.given - origins.used - set(origins.read)
        if ignored and self._learns_from - ignored and not self.trace.given - ignored:
            text = "the update never reads the batch that it is given, and learns from another one"
            self.trace.found("TB505 unread-field", text, place="")
        if "response_mask" in self._in_losses and not LOSS_MASKS & read and self._masks_differ:
            text = "the loss reads response_mask, which includes tokens of tools, but never loss_mask"
            self.trace.found("TB505 unread-field", text, place="")

    @override
    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        fields = object.__getattribute__(batch, "__dict__")
        if name == "response_mask" and "loss_mask" in fields and fields["loss_mask"].shape == value.shape:
            with torch.no_grad():
                self._masks_differ = self._masks_differ or bool((value != fields["loss_mask"]).any())
        if name == "old_logp" and not self._apart:
            mask = "response_mask" if fields.get("loss_mask") is None else "loss_mask"  # a tool's have no rollout_logp
            others = [fields.get(other) for other in ("rollout_logp", mask)]
            if all(isinstance(other, Tensor) and other.shape == value.shape for other in others):
                with torch.no_grad():
                    apart = (value.float() - others[0].float()).abs()[others[1].bool()]
                    self._apart = float(apart.mean()) if apart.numel() else 0.0

    def _find_older(self, read: set[str]) -> None:
        """Note samples of other weights, which no ratio or weight corrects."""
        if self._apart > _LARGEST_OF_ENGINES and not read & {"rollout_logp", "is_weights"}:
            text = f"rollout_logp is {self._apart:.2g} from old_logp in the mean, and is never read"
            text += "; the samples are of other weights, which the ratio to old_logp does not correct"
            self.trace.found("TB505 unread-field", text, place="", is_certain=False)

    def _find_next_obs(self, origin: int, names: set[str], there: set[str]) -> None:
        if NEXT_OBS & names or not NEXT_OBS & there or origin not in self._learns_from:
            return
        if TERMINATED & names and TERMINATED & self._in_losses:
            text = f"the update reads {listed(names)}, but never {listed(NEXT_OBS & there)}"
            self.trace.found("TB505 unread-field", text, place="", is_certain=False)


_LARGEST_OF_ENGINES: Final = 0.05
"""Largest mean difference, in nats, of one model in two engines of other precision."""


class Dtypes(Check, operations=DIFFERENCES):
    """Log-probabilities of a dtype that is exact enough for a ratio."""

    @override
    def operation(self, operation: Operation) -> None:
        for tensor, tag in zip(operation.tensors, operation.tags, strict=True):
            if tag.is_column(OLD_LOGP) and isinstance(tensor, Tensor) and tensor.dtype in _COARSE:
                assert tag.column is not None
                self.trace.found(
                    "TB510 suspect-values",
                    f"{tag.column.name} is {str(tensor.dtype).removeprefix('torch.')}, which is exact to about 1 %; "
                    "keep log-probabilities in float32, as the ratio is off by as much",
                    place="",
                )


_COARSE: Any = (torch.bfloat16, torch.float16)


class Changes(Check):
    """Fields that an update changes: none twice in place, and none that is set for a loss but never read."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._set: dict[tuple[int, str], str] = {}

    @override
    def operation(self, operation: Operation) -> None:
        name, tensor, tag = operation.name, operation.tensors[0], operation.tags[0]
        if (
            name in _REPEATABLE
            or not (name in _IN_PLACE or (name[-1:] == "_" and name[:1] != "_"))
            or tag.column is None
            or tag.from_model
            or not isinstance(tensor, Tensor)
        ):
            return
        base = tensor if tensor._base is None else tensor._base  # torch has no public name for it
        key = (id(base), here(), f"{tensor.storage_offset()} {tuple(tensor.shape)}")
        before = _CHANGED.get(key)
        if before is not None and before() is base:
            self.trace.found(
                "TB510 suspect-values",
                f"{tag.column.name} is changed in place again, by {name.strip('_')}; compute new values instead",
            )
        _CHANGED[key] = weakref.ref(base, lambda _: _CHANGED.pop(key, None))

    @override
    def written(self, batch: Any, name: str) -> None:
        if name in _OF_LOSSES:
            self._set[id(batch), name] = here()

    @override
    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        self._set = {key: place for key, place in self._set.items() if key[1] != name}

    @override
    def end(self) -> None:
        for (_, name), place in self._set.items() if self.trace.backwards else ():
            text = f"{name} is set here, and never read afterwards; is it set too late?"
            self.trace.found("TB505 unread-field", text, place=place)


_CHANGED: Final[dict[tuple[int, str, str], Any]] = {}
"""References to tensors that were changed in place, by any audited update, by id and place."""
_REPEATABLE: Final = frozenset(
    {"clamp_", "clip_", "abs_", "relu_", "nan_to_num_", "fill_", "zero_", "copy_", "clamp_min_", "clamp_max_"}
)
"""Changes that are the same when they are made again."""
_IN_PLACE: Final = frozenset({"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"})
_OF_LOSSES: Final = frozenset({"rew", "rewards", "adv", "advantages", "returns"})
