"""The fields of two batches in one: ``union``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.copying import shallow
from typedbatch._ops.equality import same_leaf
from typedbatch._ops.indexing import take
from typedbatch._tree.leaves import describe
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch._tree.rows import equal_rows, require_tree
from typedbatch.episodes import values_of
from typedbatch.errors import StructureError

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="BatchProtocol")

_MOST_SHOWN = 3


def union(batch: B, other: BatchProtocol, *, on: str | None = None) -> B:
    """The rows of one batch with the fields of both. Neither is changed.

    Args:
        batch: N rows.
        other: as many rows in the same order; or, with ``on``, rows in any order.
        on: a field of both, as ``"uid"``: each row of ``batch`` gets the fields of the one row of ``other`` that has
            its key. Rows of ``other`` that are not asked for are left out, others may serve several rows.

    Returns:
        A batch of the class of ``batch``, its fields first. Data is shared; with ``on`` that of ``other`` is copied.

    Raises:
        StructureError: other numbers of rows; a field, or a key of the meta, of both with different values (NaN differs
            from NaN, but an array is what it is; None is nothing); or with ``on`` a key that ``other`` has not exactly
            once.
        MissingFieldError: a batch lacks the field ``on``.
        NoLengthError: a field is a scalar.
    """
    mine, theirs = require_tree(batch, "union()"), require_tree(other, "union()")
    rows, count = equal_rows(mine.__dict__), equal_rows(theirs.__dict__)
    if on is not None:
        theirs = take(theirs, _places(_keys(mine, on, rows), _keys(theirs, on, count), on))
    elif rows != count:
        raise StructureError(f"{rows} rows cannot be joined with {count}; on= takes a field of both to join them by")
    joined: Any = shallow(mine)
    _put_in(joined.__dict__, shallow(theirs).__dict__, "")
    if meta := meta_of(theirs):
        both = dict(meta_of(mine))
        _put_in(both, meta, "meta.")
        set_meta(joined, both)
    result: B = joined
    return result


def _put_in(fields: dict[str, Any], more: Mapping[str, Any], where: str) -> None:
    """Add what is not there; None is nothing, as in fields of a record that may be left out."""
    for name, value in more.items():
        there = fields.get(name)
        if there is None:
            fields[name] = value
        elif value is not None:
            _require_same(there, value, where + name)


def _keys(tree: Any, on: str, rows: int) -> list[Any]:
    keys: list[Any] = values_of(tree.__dict__, on, rows, "rows").tolist()
    return keys


def _places(wanted: Sequence[Any], there: Sequence[Any], on: str) -> NDArray[np.intp]:
    """For each key the number of the row that has it."""
    places: dict[Any, int] = {}
    twice: dict[Any, None] = {}
    try:
        for place, key in enumerate(there):
            if places.setdefault(key, place) != place:
                twice[key] = None
        missing = list(dict.fromkeys(key for key in wanted if key not in places))
        several = list(dict.fromkeys(key for key in wanted if key in twice))
    except TypeError as error:
        raise StructureError(f"its values cannot be told apart: {error}", on) from error
    if missing:
        raise StructureError(f"the other batch has no row for {_shown(missing)}", on)
    if several:
        raise StructureError(f"the other batch has several rows for {_shown(several)}", on)
    return np.fromiter((places[key] for key in wanted), np.intp, len(wanted))


def _shown(keys: Sequence[Any]) -> str:
    more = f" and {len(keys) - _MOST_SHOWN} more" if len(keys) > _MOST_SHOWN else ""
    return ", ".join(map(repr, keys[:_MOST_SHOWN])) + more


def _require_same(one: Any, two: Any, name: str) -> None:
    if one is not two and not same_leaf(one, two):
        differ = f"{describe(one)} and {describe(two)}"
        raise StructureError(f"both batches have it, with different values: {differ}; rename or leave out one", name)
