"""The function that puts the fields of two batches into one: ``union``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.lengths import equal_rows, require_tree
from typedbatch._core.meta import meta_of, set_meta
from typedbatch._ops.copying import shallow
from typedbatch._ops.equality import same_value
from typedbatch._ops.indexing import take
from typedbatch._ops.joined_meta import difference
from typedbatch.episodes import values_of
from typedbatch.errors import StructureError
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="BatchProtocol")

_MOST_SHOWN = 3


def union(batch: B, other: BatchProtocol, *, on: str | None = None) -> B:
    """Return the rows of ``batch`` with the fields of both batches. Neither argument is changed.

    Args:
        batch: N rows.
        other: N rows in the same order; or, with ``on``, any number of rows in any order.
        on: Name of a field of both batches, such as ``"uid"``. Each row of ``batch`` gets the fields of the one row of
            ``other`` with the same key. A row of ``other`` may be used any number of times, or not at all.

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
    _add_missing(joined.__dict__, shallow(theirs).__dict__, "")
    if meta := meta_of(theirs):
        both = dict(meta_of(mine))
        _add_missing(both, meta, "meta.")
        set_meta(joined, both)
    result: B = joined
    return result


def _add_missing(fields: dict[str, Any], more: Mapping[str, Any], prefix: str) -> None:
    """Add the fields that are missing or None, as optional fields of a record may be; others must be equal."""
    for name, value in more.items():
        own = fields.get(name)
        if own is None:
            fields[name] = value
        elif value is not None and own is not value and not same_value(own, value):
            hint = f"; del other.meta[{name!r}] leaves one out" if prefix else "; rename or leave out one"
            text = f"both batches have it, with different values{difference(own, value)}{hint}"
            raise StructureError(text, prefix + name)


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
