"""Input of a model at one step of a trajectory, as RLlib's view requirements describe it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import Tree, new_tree
from typedbatch._ops.combine import cat_trees
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.indexing import take_basic
from typedbatch._ops.padding import NO_ROW, take_or_zeros
from typedbatch.errors import MissingFieldError, RowIndexError, SettingError
from typedbatch.sample_batches.layout import Layout, sequence_of_steps

OBS: Final = "obs"
NEXT_OBS: Final = "new_obs"
# source columns at the last step that hold the previous values of the step to come
_AT_THE_END: Final = {"prev_actions": "actions", "prev_rewards": "rewards"}


class ViewRequirementLike(Protocol):
    """Attributes of a view requirement that are read; RLlib's own class has them."""

    @property
    def data_col(self) -> str | None: ...
    @property
    def shift(self) -> int | str | Sequence[int]: ...
    @property
    def used_for_compute_actions(self) -> bool: ...


class ViewRequirement(NamedTuple):
    """One column of a model's input: the part of RLlib's ``ViewRequirement`` that is needed for it.

    Attributes:
        data_col: Name of the source column, or None for the column's own name.
        shift: Offset of the step from the current one: -1 for the previous step, ``[-1, 0]`` for both, ``"-3:0"`` for
            the last four.
        used_for_compute_actions: Whether the model reads the column.
    """

    data_col: str | None = None
    shift: int | str | Sequence[int] = 0
    used_for_compute_actions: bool = True


def single_step_input(
    tree: Tree, layout: Layout, requirements: Mapping[str, ViewRequirementLike], index: int | Literal["last"]
) -> dict[str, Any]:
    """Return the columns for one step; see :meth:`SampleBatch.get_single_step_input_dict`."""
    steps = layout.steps
    if not steps:
        raise RowIndexError("a batch must have a step to get a model's input from, got 0 steps")
    step: Any = steps if index == "last" else index
    if index != "last":
        if not isinstance(step, (int, np.integer)) or not -steps <= step < steps:
            raise RowIndexError(f"step {index!r} does not exist in a batch of {steps} steps")
        step = int(step) % steps
    columns = {}
    for name, requirement in requirements.items():
        if requirement.used_for_compute_actions:
            source, shift = requirement.data_col or name, requirement.shift
            if type(shift) is int:
                columns[name] = _row_at(tree, layout, source, step + shift, index == "last")
            else:
                columns[name] = _window(tree, layout, source, step + _shifts(shift, name), index == "last")
    return columns


def _row_at(tree: Tree, layout: Layout, source: str, row: int, at_end: bool) -> Any:
    """Return one row of a column, which is zero before the first step."""
    if at_end and row == layout.steps:
        if source == OBS:
            return _leaf(take_basic(_column(tree, NEXT_OBS), slice(-1, None)))
        source, row = _AT_THE_END.get(source, source), row - 1
    column = _column(tree, source)
    if not 0 <= row < layout.steps:
        return _leaf(take_or_zeros(column, np.array([NO_ROW])))
    if source in layout.states:
        row = int(sequence_of_steps(layout)[row])
    return _leaf(take_basic(column, slice(row, row + 1)))


def _window(tree: Tree, layout: Layout, source: str, rows: NDArray[np.intp], at_end: bool) -> Any:
    """Return several rows of a column as one row, with zeros for steps that do not exist."""
    last = layout.steps - 1
    if at_end and source == OBS:  # the observation after the last step comes from the column new_obs
        first = max(0, int(rows.min(initial=last)))
        after = take_basic(_column(tree, NEXT_OBS), slice(-1, None))
        renamed = new_tree(Tree.__plain__, {OBS: _leaf(after)})
        column = cat_trees([take_basic(_column(tree, OBS), slice(first, None)), renamed], "error", to_leaf)
        rows, last = np.where(rows < 0, NO_ROW, rows - first), last + 1 - first
    else:
        column = _column(tree, _AT_THE_END.get(source, source) if at_end else source)
    rows = np.where((rows < 0) | (rows > last), NO_ROW, rows)
    if source in layout.states:
        rows = np.where(rows < 0, NO_ROW, sequence_of_steps(layout)[rows])
    return _leaf(take_or_zeros(column, rows[None]))


def _column(tree: Tree, name: str) -> Tree:
    if name not in tree.__dict__:
        raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    return new_tree(Tree.__plain__, {name: tree.__dict__[name]})


def _leaf(column: Tree) -> Any:
    return next(iter(column.__dict__.values()))


def _shifts(shift: Any, name: str) -> NDArray[np.intp]:
    try:
        if isinstance(shift, str):
            first, last, *step = map(int, shift.split(":"))
            return np.arange(first, last + 1, *step)
        return np.array([operator.index(offset) for offset in shift], np.intp)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise SettingError(f"a shift must be an int, a list of ints, or 'from:to', got {shift!r}", name) from error
