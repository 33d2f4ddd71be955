"""Episodes in a batch of steps: their lengths, a batch for each, and windows of the steps before and after each step.

The steps of an episode must be consecutive, as collectors return them; for others there is :func:`group_by`. The
lengths are those that :mod:`typedbatch.sequences` takes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import describe, leading_shape, mask_obstacle
from typedbatch._core.lengths import MOST_ROWS, require_at_least, require_at_most, require_tree, rows_to_take
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.indexing import take_basic, take_rows
from typedbatch._ops.padding import NO_ROW, take_or_zeros
from typedbatch.errors import MissingFieldError, SettingError, SizeError, StructureError
from typedbatch.sequences import Lengths, as_lengths, cut, position_ids, starts

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="BatchProtocol")

__all__ = [
    "episode_lengths", "group_by", "groups", "lookahead", "lookahead_mask", "lookback", "lookback_mask",
    "split_by_episode", "train_test_split",
]  # fmt: skip

EPISODE_ID: Final = "eps_id"
END_FLAGS: Final = ("terminated", "truncated", "terminateds", "truncateds", "done", "dones")
"""Fields that are true at the last step of an episode, with the names of Tianshou, Gymnasium and RLlib."""


def episode_lengths(batch: BatchProtocol, by: str | None = None) -> NDArray[np.intp]:
    """Return the number of steps of each episode, in order; they sum to the number of rows.

    Steps after the last end are an episode too.

    Args:
        batch: Steps; those of an episode are consecutive.
        by: Field that separates episodes. A field of flags (bool, or named in ``END_FLAGS``) is true at the last step
            of an episode; any other field has one value for each episode. None for ``eps_id`` if it exists, else for
            all of ``END_FLAGS`` that exist.

    Raises:
        MissingFieldError: The field does not exist (a ``KeyError``).
        StructureError: The field does not have one value for each row.
    """
    tree = require_tree(batch, "episode_lengths()")
    return lengths_by(tree.__dict__, by, rows_to_take(tree))


def lengths_by(fields: dict[str, Any], by: str | None, rows: int) -> NDArray[np.intp]:
    """Return :func:`episode_lengths` of fields with ``rows`` rows."""
    if by is None and EPISODE_ID not in fields:
        flags = [values_of(fields, name, rows, "episodes") for name in END_FLAGS if name in fields]
        if not flags:
            raise MissingFieldError("the batch", " or ".join((EPISODE_ID, *END_FLAGS)), fields)
        last: NDArray[np.bool_] = np.logical_or.reduce([flag.astype(bool) for flag in flags])
    else:
        name = by or EPISODE_ID
        values = values_of(fields, name, rows, "episodes")
        if is_flag(name, values):
            last = values.astype(bool)
        else:
            last = np.ones(rows, bool)
            try:
                last[:-1] = values[1:] != values[:-1]
            except (TypeError, ValueError) as error:
                raise StructureError(f"its values cannot be compared: {error}", name) from error
    if not rows:
        return np.zeros(0, np.intp)
    last[-1] = True
    return np.diff(np.flatnonzero(last), prepend=-1)


def is_flag(name: str, values: NDArray[Any]) -> bool:
    """Return whether a field is true at the last step of an episode; any other has one value for all of its steps."""
    return values.dtype == bool or name in END_FLAGS


def values_of(fields: dict[str, Any], name: str, rows: int, what: str) -> NDArray[Any]:
    """Return a field that identifies rows, episodes or groups by one value for each row, as an array.

    Raises:
        MissingFieldError: The field does not exist.
        StructureError: The field does not have one value for each row, or some are masked; the error uses ``what``.
    """
    if name not in fields:
        raise MissingFieldError("the batch", str(name), fields)
    if leading_shape(fields[name]) != (rows,):
        text = f"{what} are identified by one value for each of {rows} rows, got {describe(fields[name])}"
        raise StructureError(text, name)
    if obstacle := mask_obstacle(fields[name]):
        raise StructureError(f"{what} are identified by a value for each row, but {obstacle}", name)
    return np.asarray(leaf_to_numpy(fields[name]))


def split_by_episode(batch: B, by: str | None = None) -> list[B]:
    """Return a list with one batch per episode, as views; arguments and errors are those of :func:`episode_lengths`."""
    return cut(batch, episode_lengths(batch, by))


def train_test_split(
    batch: B, test_size: float = 0.2, *, by: str | None = None, seed: int | None = None
) -> tuple[B, B]:
    """Return the rows of most episodes, and those of others to test with; data is copied.

    Whole episodes are held out, as rows of one episode are too much alike. They are chosen at random, and the rows keep
    their order.

    Args:
        batch: Steps; those of an episode are consecutive.
        test_size: Share of the episodes that is held out, above 0 and below 1; at least one, and not all.
        by: Field that separates episodes, as in :func:`episode_lengths`.
        seed: Seed of the choice; None for a different one each time.

    Raises:
        SettingError: ``test_size`` is not above 0 and below 1.
        SizeError: There are fewer than two episodes. Errors of :func:`episode_lengths` are raised too.
    """
    if not 0 < test_size < 1:
        raise SettingError(f"test_size is a share of the episodes, above 0 and below 1, got {test_size!r}")
    tree = require_tree(batch, "train_test_split()")
    lengths = episode_lengths(tree, by)
    if len(lengths) < 2:
        raise SizeError(f"two episodes are needed, one to train and one to test with, got {len(lengths)}")
    held_out = np.zeros(len(lengths), bool)
    count = min(max(1, round(test_size * len(lengths))), len(lengths) - 1)
    held_out[np.random.default_rng(seed).permutation(len(lengths))[:count]] = True
    is_test = np.repeat(held_out, lengths)
    return take_rows(tree, np.flatnonzero(~is_test), None), take_rows(tree, np.flatnonzero(is_test), None)


def group_by(batch: B, by: str = EPISODE_ID) -> dict[Hashable, B]:
    """Return one batch for each value of a field, in the order of first occurrence; rows keep their order.

    A batch is a view if its rows are consecutive, else a copy.

    Args:
        batch: Rows in any order.
        by: Name of the field.

    Raises:
        MissingFieldError: The field does not exist.
        StructureError: The field does not have one value for each row, or its values cannot be compared, as lists.
    """
    tree = require_tree(batch, "group_by()")
    values = values_of(tree.__dict__, by, rows_to_take(tree), "groups")
    # tolist() gives keys of Python's types, but would turn dates in nanoseconds into numbers.
    plain: Any = values if values.dtype.kind in "mM" else values.tolist()
    found: dict[Hashable, B] = {plain[rows[0]]: take_in_order(tree, rows) for rows in groups(values, by)}
    return found


def groups(values: NDArray[Any], name: str) -> list[NDArray[np.intp]]:
    """Return the numbers of the rows of each value, in the order of the first rows."""
    return rows_by_number(group_numbers(values, name)[0])


def rows_by_number(numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the rows that have each number; every number from 0 to the largest occurs."""
    ends = np.cumsum(np.bincount(numbers))
    return np.split(np.argsort(numbers, kind="stable"), ends[:-1]) if len(numbers) else []


def group_numbers(values: NDArray[Any], name: str) -> tuple[NDArray[np.intp], list[Hashable]]:
    """Return the number of the group of each row, and the value of each group, in the order of the first rows.

    Raises:
        StructureError: Some values cannot be hashed.
    """
    if values.dtype == object:
        found: dict[Any, int] = {}
        try:
            return np.array([found.setdefault(value, len(found)) for value in values.tolist()], np.intp), list(found)
        except TypeError as error:
            raise StructureError(f"its values cannot be compared: {error}", name) from error
    _, firsts, inverse = np.unique(values, return_index=True, return_inverse=True, equal_nan=False)
    by_row = np.argsort(firsts)
    rank = np.empty(len(firsts), np.intp)
    rank[by_row] = np.arange(len(firsts))
    return rank[inverse], values[firsts[by_row]].tolist()


def take_in_order(tree: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows whose numbers are in increasing order, as a view if they are consecutive."""
    first, last = int(rows[0]), int(rows[-1])
    return take_basic(tree, slice(first, last + 1)) if last - first < len(rows) else take_rows(tree, rows, None)


def lookback(batch: B, size: int, lengths: Lengths | None = None, *, fill: Literal["zeros", "first"] = "zeros") -> B:
    """Return for each step a window of the ``size`` steps that end with it: ``(N, size, ...)`` in every field.

    Windows never reach into the previous episode. RLlib's look-back buffers and frame stacks are filled in this way.
    Data is copied.

    Args:
        batch: Steps of all episodes, end to end.
        size: Number of steps in a window, including the step itself.
        lengths: Number of steps of each episode; None for those of :func:`episode_lengths`.
        fill: Filling before the first step of an episode: ``"zeros"`` (``None`` for objects), or ``"first"`` for copies
            of that step.

    Raises:
        SizeError: ``size`` is below 1 or more than an array can hold, or ``fill`` is neither of the two.
        StructureError: The lengths do not sum to the rows.
    """
    tree, sizes = _steps_of(batch, lengths, "lookback()")
    _require_fill(fill, "first")
    there = lookback_mask(sizes, size)
    windows: B = _windows(tree, there, -np.arange(size)[::-1], None if fill == "zeros" else starts(sizes), sizes)
    return windows


def lookback_mask(lengths: Lengths, size: int) -> NDArray[np.bool_]:
    """Return an ``(N, size)`` array that is true where a window of :func:`lookback` has a step, and false where filled.

    Raises:
        SizeError: ``size`` is below 1, or more than an array can hold.
    """
    positions = position_ids(lengths)
    return positions[:, None] >= np.arange(_require_size(size, len(positions)))[::-1]


def lookahead(batch: B, size: int, lengths: Lengths | None = None, *, fill: Literal["zeros", "last"] = "zeros") -> B:
    """Return for each step a window of the ``size`` steps that begin with it: ``(N, size, ...)`` in every field.

    Windows never reach into the next episode. Chunks of actions that a policy predicts at once are made in this way, as
    by ``delta_timestamps`` in LeRobot, whose ``is_pad`` is ``~lookahead_mask(lengths, size)``. Data is copied.

    Args:
        batch: Steps of all episodes, end to end.
        size: Number of steps in a window, including the step itself.
        lengths: Number of steps of each episode; None for those of :func:`episode_lengths`.
        fill: Filling behind the last step of an episode: ``"zeros"`` (``None`` for objects), or ``"last"`` for copies
            of that step.

    Raises:
        SizeError: ``size`` is below 1 or more than an array can hold, or ``fill`` is neither of the two.
        StructureError: The lengths do not sum to the rows.
    """
    tree, sizes = _steps_of(batch, lengths, "lookahead()")
    _require_fill(fill, "last")
    there = lookahead_mask(sizes, size)
    windows: B = _windows(tree, there, np.arange(size), None if fill == "zeros" else np.cumsum(sizes) - 1, sizes)
    return windows


def lookahead_mask(lengths: Lengths, size: int) -> NDArray[np.bool_]:
    """Return an ``(N, size)`` array that is true where a window of :func:`lookahead` has a step, else false.

    Raises:
        SizeError: ``size`` is below 1, or more than an array can hold.
    """
    sizes = as_lengths(lengths)
    after = np.repeat(sizes, sizes) - position_ids(sizes)
    return after[:, None] > np.arange(_require_size(size, len(after)))


def _steps_of(batch: Any, lengths: Lengths | None, who: str) -> tuple[Any, NDArray[np.intp]]:
    """Return a batch, and the lengths of its episodes, which sum to its rows."""
    tree = require_tree(batch, who)
    steps = rows_to_take(tree)
    sizes = lengths_by(tree.__dict__, None, steps) if lengths is None else as_lengths(lengths)
    if sizes.sum() != steps:
        raise StructureError(f"the lengths sum to {sizes.sum()}, but there are {steps} rows")
    return tree, sizes


def _require_fill(fill: str, other: str) -> None:
    if fill not in ("zeros", other):
        raise SizeError(f"fill= must be 'zeros' or {other!r}, got {fill!r}")


def _require_size(size: int, rows: int) -> int:
    return require_at_most(MOST_ROWS // max(rows, 1), require_at_least(1, size, "size"), "size")


def _windows(
    tree: Any, there: NDArray[np.bool_], offsets: NDArray[np.intp], fillers: NDArray[np.intp] | None, sizes: Any
) -> Any:
    """Return windows of the steps at offsets from each one; else, zeros or one step of each episode."""
    rows = np.arange(len(there))[:, None] + offsets
    filler: Any = NO_ROW if fillers is None else np.repeat(fillers, sizes)[:, None]
    return take_or_zeros(tree, np.where(there, rows, filler))
