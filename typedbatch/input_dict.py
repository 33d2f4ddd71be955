"""What a model reads of a trajectory at one step, as RLlib's view requirements say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch.combine import cat_trees
from typedbatch.construct import to_leaf
from typedbatch.errors import MissingFieldError, RowIndexError, SettingError
from typedbatch.gathering import NO_ROW, gather
from typedbatch.indexing import select_basic
from typedbatch.leaves import Tree, new_tree

OBS: Final = "obs"
NEXT_OBS: Final = "new_obs"
# what a column shows of the last step, where the step to come is asked for
_AT_THE_END: Final = {"prev_actions": "actions", "prev_rewards": "rewards"}


class ViewRequirementLike(Protocol):
    """What is read of a view requirement; RLlib's own have it."""

    @property
    def data_col(self) -> str | None: ...
    @property
    def shift(self) -> int | str | Sequence[int]: ...
    @property
    def used_for_compute_actions(self) -> bool: ...


class ViewRequirement(NamedTuple):
    """One column of a model's input; the part of RLlib's ``ViewRequirement`` that input needs.

    Attributes:
        data_col: the column that it shows; None for the one of its own name.
        shift: which step, counted from the one at hand: -1 for the one before, ``[-1, 0]`` for both, ``"-3:0"`` for
            the last four.
        used_for_compute_actions: whether the model reads it.
    """

    data_col: str | None = None
    shift: int | str | Sequence[int] = 0
    used_for_compute_actions: bool = True


def single_step_input(
    tree: Tree, steps: int, requirements: Mapping[str, ViewRequirementLike], index: int | Literal["last"]
) -> dict[str, Any]:
    """The columns for one step; see :meth:`SampleBatch.get_single_step_input_dict`."""
    if index != "last" and not -steps <= index < steps:
        raise RowIndexError(f"there is no step {index} among {steps}")
    step = steps if index == "last" else int(index) % steps
    columns = {}
    for name, requirement in requirements.items():
        if requirement.used_for_compute_actions:
            source = requirement.data_col or name
            shifts, several = _shifts(requirement.shift, name)
            if index == "last":
                column = _up_to_the_end(tree, source)
                unseen = source != OBS and not several
                rows = np.minimum(step + shifts, steps - 1) if unseen else step + shifts
            else:
                column, rows = _column(tree, source), step + shifts
            last = steps if source == OBS and index == "last" else steps - 1
            rows = np.where((rows < 0) | (rows > last), NO_ROW, rows)
            columns[name] = gather(column, rows[None] if several else rows).__dict__["column"]
    return columns


def _column(tree: Tree, name: str) -> Tree:
    if name not in tree.__dict__:
        raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    column: Tree = new_tree(Tree.plain, {"column": tree.__dict__[name]})
    return column


def _up_to_the_end(tree: Tree, source: str) -> Tree:
    """A column with the observation after the last step as one step more."""
    if source != OBS:
        return _column(tree, _AT_THE_END.get(source, source))
    after = select_basic(_column(tree, NEXT_OBS), slice(-1, None))
    joined: Tree = cat_trees([_column(tree, OBS), after], "error", to_leaf)
    return joined


def _shifts(shift: Any, name: str) -> tuple[NDArray[np.intp], bool]:
    """The shifts, and whether they are several."""
    try:
        if isinstance(shift, str):
            first, last, *step = map(int, shift.split(":"))
            return np.arange(first, last + 1, *step), True
        return np.atleast_1d(np.asarray(shift, np.intp)), np.ndim(shift) > 0
    except (ValueError, TypeError) as error:
        raise SettingError(f"a shift is an int, a list of them, or 'from:to', got {shift!r}", name) from error
