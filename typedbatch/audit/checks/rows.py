"""Checks of rows: those that meet in an operation, those of one prompt, and those of a buffer."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any, Final

import numpy as np
from torch import Tensor

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit import tags
from typedbatch.audit.tags import OriginRows, Tag, dim_of, listed
from typedbatch.audit.trace import Check, Operation
from typedbatch.buffers import ReplayBuffer

_GET: Final = ReplayBuffer.get
"""The method itself, not what stands in its place during a trace."""
_OF_LOSSES: Final = tags.ADVANTAGES | tags.RETURNS | tags.OLD_LOGP | tags.MASKS | frozenset({"weight"})
_UID = frozenset({"uid"})


class AllRows(Check, code="TB502 all-rows", operations=tags.ELEMENTWISE):
    """The combination of ``(N, 1)`` or ``(N, N)`` with ``(N,)``, which pairs each row with all rows."""

    def operation(self, operation: Operation) -> None:
        pairs = list(zip(operation.tensors, operation.tags, strict=True))
        for number, (one, first) in enumerate(pairs):
            for other, second in pairs[number + 1 :]:
                flat, wide = sorted([(other, second), (one, first)], key=lambda pair: int(pair[0].ndim))
                if _is_crossed(flat, wide) or _is_table(flat, wide) or _is_table(wide, flat):
                    size = f"{flat[0].shape[0]} x {flat[0].shape[0]}"
                    self._found(
                        f"{operation.name.strip('_')} of {_of(flat)} and {_of(wide)} combines each row with all rows, "
                        f"in a table of {size}; squeeze(-1) the one, or unsqueeze(-1) the other"
                    )


def _is_crossed(flat: tuple[Any, Tag], wide: tuple[Any, Tag]) -> bool:
    (one, first), (other, second) = flat, wide
    if one.ndim != 1 or other.ndim != 2 or first.rows is None or second.rows is None or first.fields == second.fields:
        return False
    rows = one.shape[0]
    return bool(rows > 1 and other.shape[0] == rows and other.shape[1] in (1, rows))


def _is_table(column: tuple[Any, Tag], row: tuple[Any, Tag]) -> bool:
    """Return True for ``(N, 1)`` of a model with ``(1, N)`` of a target."""
    (one, first), (other, second) = column, row
    if one.ndim != 2 or other.ndim != 2 or first.rows is None or not first.from_model:
        return False
    is_target = second.is_column(tags.ADVANTAGES | tags.RETURNS | tags.REWARDS | tags.OLD_LOGP)
    return bool(is_target and one.shape[1] == 1 and other.shape == (1, one.shape[0]) and one.shape[0] > 1)


def _of(value: tuple[Any, Tag]) -> str:
    return f"{tuple(value[0].shape)} (from {listed(value[1].names)})"


class SameRows(Check, code="TB503 other-rows", operations=tags.ELEMENTWISE):
    """The combination of values of the same origin row by row."""

    def operation(self, operation: Operation) -> None:
        if not isinstance(operation.out, Tensor) or not operation.out.ndim:
            return
        known = [
            (tag, tag.rows)
            for tensor, tag in zip(operation.tensors, operation.tags, strict=True)
            if tag.rows is not None and tensor.ndim and tensor.shape[0] == operation.out.shape[0] > 1
        ]
        for (first, rows), (second, others) in pairwise(known):
            if rows.origin != others.origin or rows.same(others) or first.fields == second.fields:
                continue
            if len(rows.ids) == len(others.ids) and not others.is_later(rows):
                self._found(
                    f"{listed(first.names)} of rows {_some(rows)} meets {listed(second.names)} of rows {_some(others)}",
                    is_certain=_is_weighed(first, second) or _is_weighed(second, first),
                )


class SameColumns(Check, code="TB503 other-rows", operations=tags.PRODUCTS):
    """The product of the mask of a loss with values of tokens, position by position."""

    def operation(self, operation: Operation) -> None:
        for _, mask, _, other in operation.both_ways():
            if (
                mask.models
                or not mask.fields
                or not mask.names <= tags.MASKS
                or not other.is_of_labels
                or not other.from_model
            ):
                continue
            one, two = mask.columns, other.columns
            if one is not None and two is not None and one.frame == two.frame and one.offset != two.offset:
                self._found(
                    f"{listed(mask.names)} from position {one.offset} on meets values of tokens from position "
                    f"{two.offset} on; cut both alike",
                    is_certain=False,  # A mask may be that of the predictions.
                )


class Priorities(Check, code="TB503 other-rows"):
    """Priorities in the order of the rows that were sampled."""

    def priorities(self, values: Any) -> None:
        rows = self.trace.tag_of(values).rows
        if rows is not None and len(rows.ids) > 1 and not rows.is_range():
            text = f"priorities of rows {_some(rows)} are written to the slots of rows 0, 1, 2..; are rows shuffled?"
            self._found(text)


class SampledRows(Check, code="TB503 other-rows"):
    """Rows that are looked up in the buffer that they were sampled from."""

    def sampled(self, batch: Any, buffer: Any, slots: Any) -> None:
        mine = np.asarray(leaf_to_numpy(self.trace.roles.fields(batch).get("act")))
        theirs = np.asarray(leaf_to_numpy(_GET(buffer, slots, "act", stack_num=1)))
        is_same = mine.shape == theirs.shape and np.array_equal(mine, theirs.astype(mine.dtype))
        if mine.dtype != object and not is_same:
            self._found("the rows are not those of the buffer at these slots; is it another buffer?")


def _is_weighed(weight: Tag, values: Tag) -> bool:
    """Return True for a weight or target of a loss beside values of a model, whose rows no algorithm exchanges."""
    return not weight.from_model and weight.has_any(_OF_LOSSES) and values.from_model


def _some(rows: OriginRows) -> str:
    return f"{', '.join(map(str, rows.ids[:3].tolist()))}{'..' if len(rows.ids) > 3 else ''}"


class Grouping(Check, code="TB503 other-rows", operations=tags.REDUCING):
    """Rewards that are viewed as a table of prompts and samples, and batches whose fields are of different rows."""

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
            self._found(
                f"{operation.name} over dim {dim} of a table {tuple(table.ids.shape)} mixes rows of different uid, "
                f"from {listed(operation.tags[0].names)}; groups(batch, 'uid') finds the rows of a prompt"
            )

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
            self._found(
                f"groups by {name} are made of a part of the rows, in which {cut[0]!r} has {here[cut[0]]} of "
                f"{there[cut[0]]}; compute what depends on groups before rows are divided"
            )

    def end(self) -> None:
        for owner, place, rows, uids in self.trace.origins.pairs:
            known = {path: np.asarray(leaf_to_numpy(uid)) for path, uid in uids.items()}
            first = next(iter(known.items()), None)
            for path, uid in known.items():
                if first is not None and not np.array_equal(first[1], uid):
                    row = int(np.flatnonzero(first[1] != uid)[0])
                    text = f"row {row} of {owner} has {first[0]} of prompt {first[1][row]!r} and {path} of {uid[row]!r}"
                    self._found(text, place=place)
                    break
            obs, paths = rows.get("obs"), rows.keys() - tags.NEXT_OBS
            others = set[str]() if obs is None else {path for path in paths if not rows[path].same(obs)}
            if not known and others:
                self._found(f"obs of {owner} is of other rows than {listed(others)}", place=place)
