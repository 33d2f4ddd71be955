"""Stacking and concatenation of batches, with the same rule for missing fields."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Final, Literal

import numpy as np
from numpy import concatenate, ndarray
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.declaration import absent_fields, object_fields
from typedbatch._core.foreign_batches import bridge_from
from typedbatch._core.kinds import KINDS, Kind, Tree, describe, is_placeholder, kind_of, new_tree, object_array
from typedbatch._core.lengths import count_rows, equal_rows, unequal_fields
from typedbatch._core.meta import FieldsWithMeta, set_meta
from typedbatch._ops.joined_meta import MetaRule, joined_meta, require_rule
from typedbatch.errors import FieldNameError, LeafError, NoLengthError, StructureError, TypedBatchError, under

Missing = Literal["error", "pad"]
"""Treatment of a field that some batches lack: an error, or zeros (``None`` in object arrays)."""

Convert = Callable[[Any], Any]
"""Function that turns a raw value of a ``dict`` into a leaf: ``typedbatch._ops.construct.to_leaf``."""
DATES: Final = frozenset({np.dtype("M8").num, np.dtype("m8").num})
"""Values of ``dtype.num`` for the dtypes of dates and times."""
CALLED_ON_BATCHES: Final = frozenset(
    {"__deepcopy__", "__reduce_ex__", "__array__", "__array_interface__", "__array_struct__"}
)
"""Special methods that are looked up on the object and not on its class, where a field of that name would be found."""


class _Gap:
    """Placeholder in a column for a batch that lacks the field."""


_GAP = _Gap()
_SINGLE: Final = frozenset({kinds.NUMBER, kinds.SCALAR, kinds.NONE, kinds.OBJECT})
_CONVERTED: Final = frozenset({kinds.NUMBER, kinds.MAPPING, kinds.SEQUENCE, kinds.TENSORDICT})
_NAMELESS: Final = frozenset[str]()


def stack_fields(
    batches: Sequence[Any], axis: int, missing: Missing, convert: Convert, like: Any = None
) -> dict[str, Any]:
    """Stack Batches and dicts field by field; see :meth:`typedbatch.Batch.stack`.

    Columns of objects that their class declares, or that the batch ``like`` has, keep their objects.
    """
    rows: list[Mapping[str, Any]] = [batch.__dict__ if isinstance(batch, Tree) else batch for batch in batches]
    first, cls, near = rows[0], common_type(batches), like.__dict__ if isinstance(like, Tree) else {}
    declared: Set[str] = object_fields[cls] if axis == 0 and cls is not Tree.__plain__ else _NAMELESS
    if near:
        declared = declared | {name for name, column in near.items() if kinds.is_objects(column) and column.ndim == 1}
    columns = None
    if set(map(len, rows)) == {len(first)}:
        with suppress(KeyError):  # Equal numbers of fields and no KeyError mean equal names.
            columns = {name: [row[name] for row in rows] for name in first}
    if columns is None:
        columns = _columns_with_gaps(rows, missing)
    else:
        require_names(first)
    stacked = {}
    for name, values in columns.items():
        try:
            if name in declared and _are_objects(values, first):
                stacked[name] = object_array([None if value is _GAP else value for value in values])
            else:
                stacked[name] = _stack_values(values, axis, missing, convert, near.get(name))
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
    return stacked


def _are_objects(values: Sequence[Any], row: Mapping[str, Any]) -> bool:
    """Return whether values of a column of objects are its objects, and not whole columns or reserved fields."""
    if not all(kinds.is_objects(value) and value.ndim for value in values):
        return not all(map(is_placeholder, values))
    try:
        return equal_rows(row) != len(values[0])
    except TypedBatchError:  # It is a row of a batch, whose other fields have no rows in common with an array in it.
        return True


def stack_trees(batches: Iterable[Any], axis: int, missing: Missing, convert: Convert, meta: MetaRule = "error") -> Any:
    """Stack Batches and dicts; see :meth:`typedbatch.Batch.stack`."""
    batches = _as_batches(batches, axis if isinstance(axis, Tree) else missing)
    if not batches:
        return new_tree(Tree.__plain__, {})
    dicts = [batch if isinstance(batch, Mapping) else batch.__dict__ for batch in batches if _is_joinable(batch)]
    cls, fields = common_type(batches), stack_fields(batches, axis, missing, convert)
    if cls is not Tree.__plain__:  # A field that is None in all rows of a record is None, and no column of them.
        absent = (name for name in absent_fields[cls] if name in fields)
        fields |= {name: None for name in absent if all(row.get(name) is None for row in dicts)}
    return _with_meta(cls, fields, dicts, meta)


def cat_trees(batches: Iterable[Any], missing: Missing, convert: Convert, meta: MetaRule = "error") -> Any:
    """Concatenate Batches and dicts; see :meth:`typedbatch.Batch.cat`."""
    if type(batches) is not list or missing != "error":
        batches = _as_batches(batches, missing)
    cls = type(batches[0]) if batches else Tree.__plain__
    dicts = [batch.__dict__ for batch in batches if type(batch) is cls] if issubclass(cls, Tree) else []
    if len(dicts) != len(batches):
        trees = [convert(batch) for batch in batches if _is_joinable(batch)]
        cls, dicts = common_type(batches), [tree.__dict__ for tree in trees]
    if cls._row_guard is not None and dicts:  # Concatenated offsets of a record would count from the wrong row.
        cls._row_guard(*batches, joining=True)
    lengths: set[tuple[int, ...]] = set()
    fields = _cat_fields(dicts, dicts, missing, lengths)
    if (len(lengths) != 1 or () in lengths) and cls._row_guard is None:
        _require_aligned(cls, dicts)
    return _with_meta(cls, fields, dicts, meta)


def _require_aligned(cls: type[Tree], parts: Sequence[Mapping[str, Any]]) -> None:
    """Raise an error if a part of a record has fields of different lengths, or warn of one of a plain batch."""
    if sum(map(bool, parts)) < 2:
        return
    for number, part in enumerate(parts):
        if longer := unequal_fields(part):
            text = f"batch {number} has fields of different lengths: {longer}; joined field by field"
            if cls._needs_equal_rows:
                raise StructureError(f"{text}, rows would no longer match; take the same rows of every field first")
            warnings.warn(f"{text}, later rows no longer match", stacklevel=4)
            return


def _with_meta(cls: type[Tree], fields: dict[str, Any], parts: Sequence[Mapping[str, Any]], rule: MetaRule) -> Any:
    out: Tree = new_tree(cls, fields)
    if rule != "error":
        require_rule(rule)
    if FieldsWithMeta in set(map(type, parts)) and (meta := joined_meta(parts, rule)):
        set_meta(out, meta)
    return out


def _as_batches(batches: Iterable[Any], missing: Missing | Tree) -> Sequence[Any]:
    if isinstance(missing, Tree):
        raise LeafError("the batches to join must be given as one list, [a, b]")
    if missing not in ("error", "pad"):
        raise LeafError(f"missing= must be 'error' or 'pad', got {missing!r}")
    return batches if type(batches) is list else as_list(batches)


def as_list(batches: Iterable[Any]) -> list[Any]:
    """Return several batches as a list."""
    if not isinstance(batches, Iterable):
        raise LeafError(f"a list of Batches or dicts can be joined, got {describe(batches)}")
    return list(batches)


def _is_joinable(batch: object) -> bool:
    if kind_of(batch) not in (kinds.BATCH, kinds.MAPPING):
        bridge = bridge_from(batch)
        hint = f"; {bridge}() converts it" if bridge else ""
        raise StructureError(f"only Batches and dicts can be joined, got {describe(batch)} among them{hint}")
    return True


def common_type(trees: Sequence[object]) -> type[Tree]:
    """Return the class that all trees have in common, or else the plain Batch."""
    classes = set(map(type, trees))
    only = classes.pop() if len(classes) == 1 else Tree.__plain__
    return only if issubclass(only, Tree) else Tree.__plain__


def _columns_with_gaps(rows: Sequence[Mapping[str, Any]], missing: Missing) -> dict[str, list[Any]]:
    for row in rows:
        require_names(row)
    names = dict.fromkeys(name for row in rows for name in row)  # A dict preserves the order of first occurrence.
    if missing == "error":
        gaps = {name: [i for i, row in enumerate(rows) if name not in row] for name in names}
        lacks = ", ".join(f"{name!r} is missing in batch {gap[0]}" for name, gap in gaps.items() if gap)
        raise StructureError(f"the batches have different fields: {lacks}; pass missing='pad' to fill with zeros")
    return {name: [row.get(name, _GAP) for row in rows] for name in names}


def require_names(names: Mapping[str, Any]) -> None:
    """Raise an error unless every key may be the name of a field."""
    if set(map(type, names)) <= {str} and CALLED_ON_BATCHES.isdisjoint(names):
        return
    for name in names:
        if not isinstance(name, str):
            raise FieldNameError(
                f"field names must be strings, got {name!r} ({type(name).__name__}) among {list(names)}; "
                "objects([...]) makes a column that stores dicts as they are"
            )
        if name in CALLED_ON_BATCHES:
            raise FieldNameError(
                f"{name!r} cannot be a field: copy, pickle or numpy would call it; choose another name"
            )


def _stack_values(values: list[Any], axis: int, missing: Missing, convert: Convert, like: Any) -> Any:
    types = set(map(type, values))
    if types == {np.ndarray}:
        return _stack_arrays(values, axis)
    found = {KINDS[cls] for cls in types}
    if _has_gaps(values, types, found):
        there = np.array([value is not _GAP and not is_placeholder(value) for value in values])
        if not there.any():
            return new_tree(Tree.__plain__, {})
        if axis != 0:
            raise StructureError(f"missing in some batches, which stack can fill only along axis 0, got axis={axis}")
        present = [value for value, here in zip(values, there, strict=True) if here]
        return spread(_stack_values(present, 0, missing, convert, like), there)
    if found <= {kinds.BATCH, kinds.MAPPING}:
        return new_tree(common_type(values), stack_fields(values, axis, missing, convert, like))
    if found <= {kinds.NUMBER, kinds.SCALAR} and axis == 0:
        joined = _joined(lambda numbers, axis: np.asanyarray(numbers), values, 0)
        return joined if keeps_whole_numbers(values, joined) else object_array(values)
    if not found.isdisjoint(_CONVERTED) and not found <= _SINGLE:
        values = [convert(value) for value in values]
        found = set(map(kind_of, values))
    return stack_leaves(values, found, axis)


def stack_leaves(values: list[Any], found: set[Kind], axis: int) -> Any:
    """Stack leaves of these kinds."""
    if found == {kinds.TENSOR}:
        return _joined(sys.modules["torch"].stack, values, axis)
    if found == {kinds.DISTRIBUTION}:
        from typedbatch._core.distributions import stack_dists

        return stack_dists(values, axis)
    if found == {kinds.RAGGED}:
        from typedbatch._ops.ragged_rows import stack_sequences

        return stack_sequences(values, axis)
    if found <= {kinds.ARRAY, kinds.SCALAR}:
        if any(map(kinds.is_masked, values)):
            return join_masked(np.stack, values, axis)
        return _stack_arrays([np.asarray(value) for value in values], axis)
    scalars = all(np.ndim(value) == 0 for value in values if kind_of(value) is kinds.ARRAY)
    if axis == 0 and found <= {kinds.ARRAY, *_SINGLE} and (scalars or kinds.NONE in found):
        return object_array(
            [value if kind_of(value) is not kinds.ARRAY or value.ndim else value[()] for value in values]
        )
    raise StructureError(f"cannot stack {_list_kinds(values)}; the same field must be of one kind in every batch")


def _stack_arrays(values: Sequence[NDArray[Any]], axis: int) -> NDArray[Any]:
    shape = values[0].shape
    joined: NDArray[Any] | None = None
    if axis == 0 and len(shape) > 0:
        # Along the first axis, concatenating and reshaping is faster than np.stack, which makes a view per array.
        # Equal lengths and numpy's check of the other dimensions imply equal shapes.
        try:
            if len(set(map(len, values))) == 1:
                joined = concatenate(values)
                if joined.dtype.num in DATES:
                    require_same_dates(values, joined)
                joined = joined.reshape(len(values), *shape)
        except (TypeError, ValueError, OverflowError):
            joined = None  # np.stack raises an error with a better message.
    stacked: NDArray[Any] = _joined(np.stack, values, axis) if joined is None else joined
    return stacked if stacked.dtype.kind not in "US" else stacked.astype(object)


def _has_gaps(values: list[Any], types: set[type], found: set[Kind]) -> bool:
    if _Gap in types:
        return True
    if kinds.BATCH not in found:
        return False
    if found == {kinds.BATCH}:
        filled = [value.__dict__ for value in values]
        return any(filled) and not all(filled)
    return any(map(is_placeholder, values))


def spread(rows: Any, there: NDArray[np.bool_]) -> Any:
    """Return a value with ``rows`` where ``there`` is true, and zeros (``None`` for objects) elsewhere."""
    kind = kind_of(rows)
    if kind is kinds.BATCH:
        return new_tree(type(rows), {name: spread(value, there) for name, value in rows.__dict__.items()})
    if kind is kinds.NONE:
        return None
    if kind is kinds.RAGGED:
        from typedbatch._ops.ragged_rows import spread_sequences

        return spread_sequences(rows, there)
    if kind not in (kinds.ARRAY, kinds.TENSOR):
        raise StructureError(f"missing in some batches, and a {describe(rows)} cannot be filled with zeros")
    if len(rows) != there.sum():
        raise StructureError(f"its batches have {there.sum()} rows, got {len(rows)}; only equal lengths can be filled")
    out = kinds.blank(rows, (len(there), *rows.shape[1:]))
    out[sys.modules["torch"].from_numpy(there) if kind is kinds.TENSOR else there] = rows
    return out


def _cat_fields(
    parts: Sequence[Mapping[str, Any]],
    wholes: Sequence[Mapping[str, Any]],
    missing: Missing,
    lengths: set[tuple[int, ...]],
) -> dict[str, Any]:
    # ``wholes`` are the batches that ``parts`` come from; their lengths are those of gaps. ``lengths`` gets the lengths
    # of the parts of each field, () if they are not known here. The common case is fast: equal numbers of fields and no
    # KeyError mean equal names, and for plain arrays one check of the type suffices.
    first = parts[0] if parts else {}
    if sum(map(len, parts)) != len(parts) * len(first):
        lengths.add(())
        return _cat_with_gaps(parts, wholes, missing)
    joined: dict[str, Any] = {}
    count = len(parts)
    for name, value in first.items():
        try:
            if type(value) is ndarray:
                arrays = [array for part in parts if type(array := part[name]) is ndarray]
                if len(arrays) == count:
                    joined[name] = concatenate(arrays)
                    lengths.add(tuple(map(len, arrays)))
                    if value.dtype.num in DATES:
                        require_same_dates(arrays, joined[name])
                    continue
            elif isinstance(value, Tree):
                cls = type(value)
                inner = [tree.__dict__ for part in parts if type(tree := part[name]) is cls]
                if len(inner) == count and all(inner):
                    joined[name] = new_tree(cls, _cat_fields(inner, wholes, missing, lengths))
                    continue
            values = [part[name] for part in parts]
            joined[name] = whole = _cat_values(values, wholes, missing)
            if KINDS[type(whole)] is kinds.TENSOR and len(set(map(type, values))) == 1 and not whole.is_nested:
                lengths.add(tuple([tensor.size(0) for tensor in values]))
            elif whole is not None and not is_placeholder(whole):
                lengths.add(())
        except KeyError:
            lengths.add(())
            return _cat_with_gaps(parts, wholes, missing)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except (ValueError, TypeError, OverflowError) as error:
            raise StructureError(_misfit([part[name] for part in parts], error), name) from error
    return joined


def _cat_with_gaps(
    parts: Sequence[Mapping[str, Any]], wholes: Sequence[Mapping[str, Any]], missing: Missing
) -> dict[str, Any]:
    if not all(parts):  # Batches without fields have no rows, so they contribute nothing.
        there = [i for i, part in enumerate(parts) if part]
        return _cat_fields([parts[i] for i in there], [wholes[i] for i in there], missing, set())
    joined: dict[str, Any] = {}
    for name, values in _columns_with_gaps(parts, missing).items():
        with under(name):
            joined[name] = _cat_values(values, wholes, missing)
    return joined


def _cat_values(values: list[Any], wholes: Sequence[Mapping[str, Any]], missing: Missing) -> Any:
    types = set(map(type, values))
    found = {KINDS[cls] for cls in types}
    if _has_gaps(values, types, found):
        return _cat_around_gaps(values, wholes, missing)
    if found == {kinds.BATCH}:
        cls = types.pop() if len(types) == 1 else Tree.__plain__
        return new_tree(cls, _cat_fields([value.__dict__ for value in values], wholes, missing, set()))
    if found == {kinds.TENSOR}:
        try:
            return _joined(sys.modules["torch"].cat, values, 0)
        except StructureError:
            if not any(value.is_nested for value in values):
                raise
            from typedbatch._ops.ragged_rows import cat_jagged

            return cat_jagged(values)
    if found == {kinds.ARRAY}:
        if any(map(kinds.is_masked, values)):
            return join_masked(np.concatenate, values, 0)
        return _joined(np.concatenate, values, 0)
    if found == {kinds.NONE}:
        return None
    if found == {kinds.DISTRIBUTION}:
        from typedbatch._core.distributions import cat_dists

        return cat_dists(values)
    if found == {kinds.RAGGED}:
        from typedbatch._ops.ragged_rows import cat_sequences

        return cat_sequences(values, missing)
    if found <= {kinds.SCALAR, kinds.OBJECT}:
        raise StructureError(f"{_list_kinds(values)} have no rows to concatenate; stack gives each a row")
    raise StructureError(f"cannot concatenate {_list_kinds(values)}; the same field must be of one kind in every batch")


def _cat_around_gaps(values: list[Any], wholes: Sequence[Mapping[str, Any]], missing: Missing) -> Any:
    here = [value is not _GAP and not is_placeholder(value) for value in values]
    if not any(here):
        return new_tree(Tree.__plain__, {})
    try:
        sizes = [count_rows(whole) or 0 for whole in wholes]
    except NoLengthError as error:  # The error is about another field than the one with the gap.
        raise StructureError(f"missing in some batches, and the number of zeros there is unknown: {error}") from error
    present = [value for value, is_here in zip(values, here, strict=True) if is_here]
    present_wholes = [whole for whole, is_here in zip(wholes, here, strict=True) if is_here]
    return spread(_cat_values(present, present_wholes, missing), np.repeat(here, sizes))


def _joined(join: Callable[..., Any], values: Sequence[Any], axis: int) -> Any:
    try:
        joined = join(values, axis)
        if isinstance(joined, ndarray) and joined.dtype.num in DATES:
            require_same_dates(values, joined)
        return joined
    except (ValueError, RuntimeError, TypeError, IndexError, OverflowError) as error:
        raise StructureError(_misfit(values, error)) from error


def _misfit(values: Sequence[Any], error: Exception) -> str:
    """Return why arrays or tensors cannot be joined; of those that differ in width alone, what pads them."""
    shapes = [kinds.leading_shape(value) for value in values]
    first, *others = shapes
    other = next((shape for shape in others if shape != first and len(shape) == len(first) > 1), ())
    if other and other[1] != first[1] and {shape[2:] for shape in shapes} == {first[2:]}:
        number = shapes.index(other)
        return f"it is {first[1]} wide in batch 0 and {other[1]} wide in batch {number}; widths='pad' pads it"
    return f"{_list_kinds(values)} do not fit together: {error}"


def keeps_whole_numbers(values: Sequence[Any], array: NDArray[Any]) -> bool:
    """Return whether all whole numbers of a list are unchanged in an array; ``2**53 + 1`` as a float is not.

    Args:
        values: Numbers, or lists of numbers.
        array: Array that numpy has built from them.
    """
    if array.dtype.kind not in "fc" or set(map(type, values)) == {float}:
        return True
    wide = array.astype(np.result_type(array.dtype, np.float64), copy=False)  # 2**53 is beyond what float16 can hold.
    if not (np.abs(wide) >= 2**53).any():
        return True
    given = np.array(values, dtype=object).ravel().tolist()
    found = array.ravel().tolist()  # Python's numbers compare without rounding.
    whole = (
        (number, other) for number, other in zip(given, found, strict=True) if isinstance(number, (int, np.integer))
    )
    return all(int(number) == other for number, other in whole)


def require_same_dates(values: Iterable[Any], joined: NDArray[Any]) -> None:
    """Raise an error if joining has changed a date, as it does if one is far away and another is in nanoseconds."""
    for value in values:
        given = np.asarray(value)
        other_unit = given.dtype != joined.dtype and given.dtype.num in DATES
        with suppress(OverflowError):  # numpy 2.5 and later raise it; older versions return another date.
            if not other_unit or given.astype(joined.dtype).astype(given.dtype).tobytes() == given.tobytes():
                continue
        raise ValueError(f"{joined.dtype} cannot hold all of the {given.dtype} values")


def join_masked(join: Callable[..., Any], values: Sequence[Any], axis: int) -> Any:
    """Join arrays and numbers, some with a mask, into a masked array; numpy's own functions may lose the mask."""
    dtype = next((value.dtype for value in values if value is not np.ma.masked), None)
    data = [np.zeros((), dtype) if value is np.ma.masked else np.ma.getdata(value) for value in values]
    mask = [np.ma.getmaskarray(value) for value in values]
    return np.ma.array(_joined(join, data, axis), mask=_joined(join, mask, axis))


def _list_kinds(values: Sequence[Any]) -> str:
    seen = list(dict.fromkeys(map(describe, values)))
    return ", ".join(seen[:4]) + (f" and {len(seen) - 4} more" if len(seen) > 4 else "")
