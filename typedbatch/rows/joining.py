"""The function that puts the fields of two batches into one: ``union``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.lengths import equal_rows, require_tree
from typedbatch._core.meta import FieldsWithMeta, meta_of, set_meta
from typedbatch._ops.copying import shallow
from typedbatch._ops.equality import same_value
from typedbatch._ops.indexing import take
from typedbatch._ops.joined_meta import MetaRule, difference, joined_meta, require_rule
from typedbatch.episodes import values_of
from typedbatch.errors import StructureError
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="BatchProtocol")

_MOST_SHOWN = 3


def union(batch: B, other: BatchProtocol, *, on: str | None = None, meta: MetaRule = "error") -> B:
    """Return the rows of ``batch`` with the fields of both batches. Neither argument is changed.

    Args:
        batch: N rows.
        other: N rows in the same order; or, with ``on``, any number of rows in any order.
        on: Name of a field of both batches, such as ``"uid"``. Each row of ``batch`` gets the fields of the one row of
            ``other`` with the same key. A row of ``other`` may be used any number of times, or not at all.
        meta: Treatment of a key of the meta in which the batches differ, as in :meth:`typedbatch.Batch.cat`. A key that
            one of them has is kept.

    Returns:
        A batch of the class of ``batch``, with its fields first. Data is shared; with ``on`` that of ``other`` is
        copied.

    Raises:
        StructureError: without ``on``, the batches have different numbers of rows; with ``on``, ``other`` does not have
            a key exactly once; or both batches have a field, or a key of the meta, with different values. None counts
            as a missing field.
        MissingFieldError: a batch lacks the field ``on``.
        NoLengthError: a field is a scalar.
    """
    mine, theirs = require_tree(batch, "union()"), require_tree(other, "union()")
    rows, count = equal_rows(mine.__dict__), equal_rows(theirs.__dict__)
    if on is not None:
        wanted, available = values_of(mine.__dict__, on, rows, "rows"), values_of(theirs.__dict__, on, count, "rows")
        theirs = take(theirs, _positions(wanted.tolist(), available.tolist(), on))
    elif rows != count:
        raise StructureError(f"{rows} rows cannot be joined with {count}; on= takes a field of both to join them by")
    joined: Any = shallow(mine)
    _add_missing(joined.__dict__, shallow(theirs).__dict__)
    require_rule(meta)
    if more := meta_of(theirs):
        set_meta(joined, _both_metas(meta_of(mine), more, meta))
    result: B = joined
    return result


def _both_metas(mine: Mapping[str, Any], theirs: Mapping[str, Any], rule: MetaRule) -> dict[str, Any]:
    """Return the keys of two metas; those that both have follow a rule."""
    both = {**theirs, **{key: value for key, value in mine.items() if value is not None or key not in theirs}}
    common = [key for key in mine if mine[key] is not None and theirs.get(key) is not None]
    metas = [FieldsWithMeta({"": None}, {key: meta[key] for key in common}) for meta in (mine, theirs)]
    joined = joined_meta(metas, rule)
    for key in common:
        del both[key]
    return joined | both


def _add_missing(fields: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add the fields that are missing or None, as optional fields of a record may be; others must be equal."""
    for name, value in more.items():
        own = fields.get(name)
        if own is None:
            fields[name] = value
        elif value is not None and own is not value and not same_value(own, value):
            text = f"both batches have it, with different values{difference(own, value)}; rename or leave out one"
            raise StructureError(text, name)


def _positions(wanted: Sequence[Any], available: Sequence[Any], on: str) -> NDArray[np.intp]:
    """Return, for each wanted key, the number of the row that has it."""
    positions: dict[Any, int] = {}
    repeated: dict[Any, None] = {}
    try:
        for position, key in enumerate(available):
            if positions.setdefault(key, position) != position:
                repeated[key] = None
        missing = list(dict.fromkeys(key for key in wanted if key not in positions))
        ambiguous = list(dict.fromkeys(key for key in wanted if key in repeated))
    except TypeError as error:
        raise StructureError(f"rows can only be joined by hashable values: {error}", on) from error
    for keys, found in ((missing, "no row"), (ambiguous, "several rows")):
        if keys:
            more = f" and {len(keys) - _MOST_SHOWN} more" if len(keys) > _MOST_SHOWN else ""
            shown = ", ".join(map(repr, keys[:_MOST_SHOWN])) + more
            raise StructureError(f"the other batch has {found} for {shown}", on)
    return np.fromiter((positions[key] for key in wanted), np.intp, len(wanted))
