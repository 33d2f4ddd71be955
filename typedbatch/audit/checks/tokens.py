"""Check of the ends of responses: the token that ends one is a part of it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from typing_extensions import override

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit.tags import Tag
from typedbatch.audit.trace import Check, Trace

_FEWEST: Final = 4


class Ends(Check):
    """The tokens behind the masks of responses: padding, rather than the end that is to be learned."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._is_noted = False

    @override
    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        fields = object.__getattribute__(batch, "__dict__")
        if name != "response_ids" or self._is_noted or "response_mask" not in fields or value.ndim != 2:
            return
        with torch.no_grad():
            ids, mask = (np.asarray(leaf_to_numpy(fields[key])) for key in (name, "response_mask"))
        if ids.shape != mask.shape:
            return
        end = _end_behind(ids, mask.astype(bool))
        if end is not None:
            self._is_noted = True
            text = (
                f"response_mask ends before token {end} in each response, and never has it; is the end to be learned?"
            )
            self.trace.found("TB510 suspect-values", text, place="", is_certain=False)


def _end_behind(ids: Any, mask: Any) -> int | None:
    """Return the token that is behind all responses and in none, if it is not the one that all are padded with."""
    lengths = mask.shape[1] - mask[:, ::-1].argmax(1)
    rows = np.flatnonzero(mask.any(1) & (lengths < mask.shape[1]))
    behind = ids[rows, lengths[rows]]
    if len(rows) < _FEWEST or (behind != behind[0]).any() or (ids[mask] == behind[0]).any():
        return None
    is_later = np.arange(mask.shape[1]) > lengths[rows, None]
    return int(behind[0]) if is_later.any() and (ids[rows][is_later] != behind[0]).any() else None
