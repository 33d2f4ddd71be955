"""Checks of groups of samples of one prompt, and of pairs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from typing_extensions import override

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit.operations import REDUCING, dim_of
from typedbatch.audit.roles import NEXT_OBS
from typedbatch.audit.tags import listed
from typedbatch.audit.trace import Check, Operation

_UID = frozenset({"uid"})


class Grouping(Check, operations=REDUCING):
    """Rewards that are viewed as a table of prompts and samples, and batches whose fields are of different rows."""

    @override
    def operation(self, operation: Operation) -> None:
        table = operation.tags[0].table
        if table is None or operation.tensors[0].ndim != 2:
            return
        dim = dim_of(operation.args, operation.kwargs)
        if not isinstance(dim, int):
            return
        uid = self.trace.origins.column(table._replace(ids=table.ids.ravel()), _UID)
        if uid is None:
            return
        groups = np.asarray(leaf_to_numpy(uid)).reshape(table.ids.shape)
        along = np.moveaxis(groups, dim % 2, 0)
        if len(along) > 1 and bool((along[1:] != along[:1]).any()):
            self.trace.found(
                "TB503 other-rows",
                f"{operation.name} over dim {dim} of a table {tuple(table.ids.shape)} mixes rows of different uid, "
                f"from {listed(operation.tags[0].names)}; groups(batch, 'uid') finds the rows of a prompt",
            )

    @override
    def grouped(self, name: str, values: Any) -> None:
        known = self.trace.tags.of(values)
        if known is None or known.rows is None:
            return
        whole = self.trace.origins.whole(known.rows.origin, name)
        if whole is None or len(whole) <= len(values):
            return
        here, there = (Counter(np.asarray(leaf_to_numpy(uid)).tolist()) for uid in (values, whole))
        cut = [key for key, count in here.items() if count < there[key]]
        if cut:
            self.trace.found(
                "TB503 other-rows",
                f"groups by {name} are made of a part of the rows, in which {cut[0]!r} has {here[cut[0]]} of "
                f"{there[cut[0]]}; compute what depends on groups before rows are divided",
            )

    @override
    def end(self) -> None:
        for owner, place, rows, uids in self.trace.origins.pairs:
            known = {path: np.asarray(leaf_to_numpy(uid)) for path, uid in uids.items()}
            first = next(iter(known.items()), None)
            for path, uid in known.items():
                if first is not None and not self._same(first[1], uid):
                    row = int(np.flatnonzero(first[1] != uid)[0])
                    text = f"row {row} of {owner} has {first[0]} of prompt {first[1][row]!r} and {path} of {uid[row]!r}"
                    self.trace.found("TB503 other-rows", text, place=place)
                    break
            others = [
                path for path in rows if path not in NEXT_OBS and not rows[path].same(rows.get("obs", rows[path]))
            ]
            if not known and others:
                text = f"obs of {owner} is of other rows than {listed(set(others))}"
                self.trace.found("TB503 other-rows", text, place=place)

    def _same(self, one: Any, other: Any) -> bool:
        return one.shape == other.shape and bool((one == other).all())
