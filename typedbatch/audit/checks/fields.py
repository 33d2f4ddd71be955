"""Checks of the fields of an update: those that are never read, roles that are exchanged, and coarse dtypes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from typedbatch.audit.operations import DIFFERENCES
from typedbatch.audit.roles import LOSS_MASKS, MUST_READ, NEXT_OBS, OLD_LOGP, TERMINATED
from typedbatch.audit.tags import Tag, listed
from typedbatch.audit.trace import Check, Operation, Trace, untraced


class Reads(Check):
    """The fields that an update reads."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._learns_from: set[int] = set()
        self._in_losses: set[str] = set()
        self._masks_differ = False

    @override
    def backward(self, loss: Tensor) -> None:
        for field in self.trace.tag_of(loss).fields:
            self._learns_from.add(field.origin)
            self._in_losses.add(field.name.split(".")[0])

    @override
    def end(self) -> None:
        origins = self.trace.origins
        read = set().union(*origins.read.values())
        for origin, names in origins.read.items():
            if origin < 0:
                continue
            there = {name for name in origins.fields_of(origin) if "." not in name}
            unread = (there & MUST_READ) - read
            if unread:
                owner = origins.classes[origin][0].__name__
                text = f"the update reads {listed(names)} of {owner}, but never {listed(unread)}"
                self.trace.found("TB505 reads", text, place="", is_certain=origin in self._learns_from)
            self._find_next_obs(origin, names, there)
        if "response_mask" in self._in_losses and not LOSS_MASKS & read and self._masks_differ:
            text = "the loss reads response_mask, which includes tokens of tools, but never loss_mask"
            self.trace.found("TB505 reads", text, place="")

    @override
    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        fields = object.__getattribute__(batch, "__dict__")
        if name == "response_mask" and "loss_mask" in fields and fields["loss_mask"].shape == value.shape:
            with untraced():
                self._masks_differ = self._masks_differ or bool((value != fields["loss_mask"]).any())

    def _find_next_obs(self, origin: int, names: set[str], there: set[str]) -> None:
        if NEXT_OBS & names or not NEXT_OBS & there or origin not in self._learns_from:
            return
        if TERMINATED & names and TERMINATED & self._in_losses:
            text = f"the update reads {listed(names)}, but never {listed(NEXT_OBS & there)}"
            self.trace.found("TB505 reads", text, place="", is_certain=False)


class Dtypes(Check):
    """Log-probabilities of a dtype that is exact enough for a ratio."""

    @override
    def operation(self, operation: Operation) -> None:
        if operation.name not in DIFFERENCES:
            return
        for tensor, tag in zip(operation.tensors, operation.tags, strict=True):
            if tag.is_column(OLD_LOGP) and isinstance(tensor, Tensor) and tensor.dtype in _COARSE:
                assert tag.column is not None
                self.trace.found(
                    "TB510 values",
                    f"{tag.column.name} is {str(tensor.dtype).removeprefix('torch.')}, which is exact to about 1 %; "
                    "keep log-probabilities in float32, as the ratio is off by as much",
                    place="",
                )


_COARSE: Any = (torch.bfloat16, torch.float16)
