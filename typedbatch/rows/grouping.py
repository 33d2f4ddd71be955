"""Groups of rows with the same key, such as the responses to one prompt, and statistics over them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import ARRAY, TENSOR, describe, kind_of, mask_obstacle
from typedbatch._core.lengths import require_tree, rows_to_take
from typedbatch._ops.conversion import leaf_to_numpy, torch_side
from typedbatch.episodes import group_numbers, values_of
from typedbatch.errors import LeafError, SettingError, SizeError, StructureError
from typedbatch.sequences import position_ids

if TYPE_CHECKING:
    from torch import Tensor

    from typedbatch.protocols import BatchProtocol

X = TypeVar("X", bound="NDArray[Any] | Tensor")
Nan = Literal["error", "skip"]
"""Treatment of rows whose value is NaN: an error, or statistics over the others of their group."""


class Groups:
    """The groups that N rows are in, and statistics over groups, broadcast to the rows.

    Create it with :func:`groups`. Methods take and return ``(N, ...)``. A tensor stays on its device, where
    ``index_add`` computes the sums in float64. Results are new and have the dtype of ``x``. For integers, booleans and
    half precision they are float64, or float32 for tensors.

    A value of NaN, as the reward of a function that abstains, is an error. With ``nan="skip"`` statistics are over the
    other rows of the group, and NaN in a group without any; the row itself gets that of its group, too.

    Args:
        index: Group number of each row, ``(N,)``, from 0.
        keys: The key of each group.
    """

    index: NDArray[np.intp]
    """Group number of each row, ``(N,)``, from 0 in the order in which keys first occur."""
    keys: list[Hashable]
    """The key of each group."""
    count: NDArray[np.intp]
    """Number of rows in the group of each row, ``(N,)``."""

    def __init__(self, index: NDArray[np.intp], keys: list[Hashable]) -> None:
        self.index, self.keys = index, keys
        self._sizes = np.bincount(index, minlength=len(keys))
        self.count = self._sizes[index]

    def __repr__(self) -> str:
        return f"Groups({len(self)} groups of {len(self.index)} rows)"

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.keys)

    def mean(self, x: X, *, nan: Nan = "error") -> X:
        """Return the mean over the group of each row.

        Raises:
            LeafError: ``x`` is neither an array of numbers nor a tensor, or some of its values are masked or NaN.
            StructureError: ``x`` has a different number of rows.
            SettingError: ``nan`` is neither ``"error"`` nor ``"skip"``.
        """
        wide, there = self._known(x, nan)
        mean: X = self._of_rows(_to_dtype_of(x, _ratio(self._sums(wide), self._counts(wide, there))))
        return mean

    def std(self, x: X, *, nan: Nan = "error") -> X:
        """Return the standard deviation over the group of each row, divided by n - 1 as in ``torch.std`` and GRPO.

        In a group of one row it is 0, so that ``(x - mean) / (std + eps)`` is 0 there. Errors are those of
        :meth:`mean`.
        """
        wide, there = self._known(x, nan)
        count = self._counts(wide, there)
        apart = wide - self._of_rows(_ratio(self._sums(wide), count))
        apart = apart if there is None else _without(apart, ~there)
        variance = self._sums(apart * apart) / (count - 1 + (count == 1))
        std: X = self._of_rows(_to_dtype_of(x, _ratio(variance**0.5, count > 0)))
        return std

    def leave_one_out(self, x: X, *, nan: Nan = "error") -> X:
        """Return the mean over the other rows in the group of each row, which is the baseline of RLOO.

        Where no other row has a value that is not NaN, the result is NaN. Errors are those of :meth:`mean`, and:

        Raises:
            SizeError: a group has only one row.
        """
        wide, there = self._known(x, nan)
        if len(alone := np.flatnonzero(self.count == 1)):
            key = self.keys[self.index[alone[0]]]
            raise SizeError(
                f"leave_one_out() needs two rows in each group, but group {key!r} has only row {int(alone[0])}; "
                "leave such rows out, as with batch[groups.count > 1]"
            )
        # The sum of all rows minus the row itself would not do, because a large or infinite row swallows the others.
        order = np.argsort(self.index, kind="stable")  # puts the rows of each group next to each other
        before = position_ids(self._sizes)
        after = self.count[order] - 1 - before
        ordered, lib = wide[order], np if kind_of(wide) is ARRAY else torch_side().torch
        sums = _sums_before(ordered, before, lib)
        sums = sums + lib.flip(_sums_before(lib.flip(ordered, (0,)), after[::-1].copy(), lib), (0,))
        others = self._of_rows(self._counts(wide, there)) - (1 if there is None else _as(wide, there))
        mean: X = _to_dtype_of(x, _ratio(sums[np.argsort(order)], others))
        return mean

    def best(self, x: NDArray[Any] | Tensor) -> NDArray[np.intp]:
        """Return the row with the largest value in each group, ``(K,)``, in the order of ``keys``.

        Of equal values the first row is taken, and NaN is less than any number: ``batch[groups.best(batch.rewards)]``.

        Raises:
            LeafError: ``x`` is neither an array of numbers nor a tensor, or some of its values are masked.
            StructureError: ``x`` does not have one value for each row.
        """
        return self._ordered(x)[0]

    def pairs(
        self, x: NDArray[Any] | Tensor, *, margin: float = 0.0, nan: Nan = "error"
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return a better and a worse row of each group that has two: the rows with its largest and smallest value.

        Args:
            x: A number for each row, ``(N,)``, such as rewards.
            margin: Difference that a group must exceed.
            nan: Treatment of NaN; with ``"skip"``, no pair has such a row.

        Returns:
            Row numbers of the better and of the worse, of the groups that have such a pair, in the order of ``keys``.

        Raises:
            LeafError: ``x`` is neither an array of numbers nor a tensor, or some of its values are masked.
            StructureError: ``x`` does not have one value for each row.
            LeafError: Some values are NaN, and ``nan`` is ``"error"``.
        """
        self._known(x, nan)
        better, worse, values = self._ordered(x)
        apart = values[better] - values[worse] > margin
        return better[apart], worse[apart]

    def _ordered(self, x: Any) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
        """Return the first row with the largest value of each group, the first with the smallest, and all values."""
        values: NDArray[np.float64] = np.asarray(leaf_to_numpy(self._wide(x)), np.float64)
        if values.ndim != 1:
            raise StructureError(f"groups are ordered by one value for each row, got {describe(x)}")
        rows = np.arange(len(values))
        descending = np.lexsort((rows, np.where(np.isnan(values), np.inf, -values), self.index))
        ascending = np.lexsort((rows, values, self.index))  # NaN comes last.
        starts = np.searchsorted(self.index[descending], np.arange(len(self)))
        return descending[starts], ascending[starts], values

    def _wide(self, x: Any) -> Any:
        """Return the values in a dtype in which sums are precise."""
        kind = kind_of(x)
        is_numbers = x.dtype.kind in "biuf" if kind is ARRAY else kind is TENSOR and not (x.is_complex() or x.is_nested)
        if not is_numbers:
            raise LeafError(f"statistics over groups take an array of numbers or a tensor, got {describe(x)}")
        if tuple(x.shape[:1]) != self.index.shape:
            raise StructureError(f"the groups have {len(self.index)} rows, got {describe(x)}")
        if obstacle := mask_obstacle(x):
            raise LeafError(f"statistics over groups count every row, but in {describe(x)} {obstacle}")
        if kind is ARRAY:
            return np.asarray(x).astype(np.result_type(x.dtype, np.float64))
        return x.double() if x.device.type != "mps" else x.float()  # Apple's GPUs have no float64

    def _known(self, x: Any, nan: Nan) -> tuple[Any, Any]:
        """Return the values with 0 in place of NaN, and where they are not NaN; None if none is."""
        if nan not in ("error", "skip"):
            raise SettingError(f"nan= must be 'error' or 'skip', got {nan!r}")
        wide = self._wide(x)
        absent = wide != wide  # of arrays and tensors alike
        if not bool(absent.any()):
            return wide, None
        if nan == "error":
            row = int(np.flatnonzero(np.asarray(leaf_to_numpy(absent)).reshape(len(absent), -1).any(1))[0])
            text = f"the value of row {row}, in group {self.keys[self.index[row]]!r}, is NaN"
            raise LeafError(f"{text}; nan='skip' takes statistics of the others, as for a reward that abstains")
        return _without(wide, absent), ~absent

    def _counts(self, x: Any, there: Any = None) -> Any:
        """Return the number of rows of each group, with the dtype and number of dimensions of ``x``, or of some."""
        if there is not None:
            return self._sums(_as(x, there))
        sizes = self._sizes.reshape(-1, *[1] * (x.ndim - 1))
        return sizes.astype(x.dtype) if kind_of(x) is ARRAY else torch_side().to_tensor(sizes).to(x)

    def _sums(self, x: Any) -> Any:
        """Return the sum over each group."""
        if kind_of(x) is TENSOR:
            return x.new_zeros(len(self), *x.shape[1:]).index_add(0, self._index_on(x.device), x)
        if x.ndim == 1 and x.dtype == np.float64:
            return np.bincount(self.index, x, len(self))
        sums = np.zeros((len(self), *x.shape[1:]), x.dtype)
        np.add.at(sums, self.index, x)
        return sums

    def _of_rows(self, x: Any) -> Any:
        """Return for each row the value of its group."""
        return x[self.index] if kind_of(x) is ARRAY else x.index_select(0, self._index_on(x.device))

    def _index_on(self, device: Any) -> Any:
        return torch_side().to_tensor(self.index).to(device)


def _as(x: Any, flags: Any) -> Any:
    """Return flags as numbers of the dtype of ``x``."""
    return flags.astype(x.dtype) if kind_of(x) is ARRAY else flags.to(x.dtype)


def _without(x: Any, flags: Any) -> Any:
    """Return values with 0 where flags are true."""
    return np.where(flags, 0, x) if kind_of(x) is ARRAY else x.masked_fill(flags, 0)


def _ratio(sums: Any, counts: Any) -> Any:
    """Return quotients, and NaN where a count is 0."""
    is_empty = counts == 0
    quotients = sums / (counts + is_empty)
    if bool(is_empty.any()):
        quotients[is_empty] = np.nan
    return quotients


def _sums_before(x: Any, before: NDArray[np.intp], lib: Any) -> Any:
    """Return, for each row, the sum over the ``before`` rows directly before it, which are those of its group."""
    counts = before.reshape(-1, *[1] * (x.ndim - 1))
    if lib is not np:
        counts = torch_side().to_tensor(counts).to(x.device)
    sums = lib.where(counts >= 1, lib.roll(x, 1, 0), 0.0)
    step = 1
    while step <= before.max(initial=0):  # each pass doubles the number of rows that a sum covers
        sums = sums + lib.where(counts >= step, lib.roll(sums, step, 0), 0.0)
        step *= 2
    return sums


def _to_dtype_of(x: Any, result: Any) -> Any:
    """Return the result in the dtype of ``x`` if that is single or double precision."""
    if kind_of(x) is ARRAY:
        return result.astype(x.dtype) if x.dtype.kind == "f" and x.dtype.itemsize > 2 else result
    return result.to(x.dtype) if x.is_floating_point() and x.element_size() > 2 else result.float()


def groups(batch: BatchProtocol, by: str, *, size: int | None = None) -> Groups:
    """Group the rows that have the same value in a field, such as ``"uid"``.

    ``advantage = reward - groups(batch, "uid").mean(reward)``. Keys on a GPU are copied to the CPU once; nothing else
    leaves the GPU.

    Args:
        batch: N rows in any order.
        by: Name of a field with one text, number or other hashable object for each row.
        size: Required number of rows in each group, or None for any number. A baseline over a group of one row teaches
            nothing, and groups by a wrong key, or groups that were torn apart, are not noticed otherwise.

    Raises:
        MissingFieldError: the batch has no such field.
        SizeError: a group has more or fewer rows than ``size``.
        StructureError: the field does not have one value for each row, some values are masked or not hashable (lists,
            for example), or the fields have different lengths.
    """
    tree = require_tree(batch, "groups()")
    rows = rows_to_take(tree)
    index, keys = group_numbers(values_of(tree.__dict__, by, rows, "groups"), by)
    found = Groups(index, keys)
    if size is not None and len(wrong := np.flatnonzero(found.count != size)):
        key, count = keys[index[wrong[0]]], found.count[wrong[0]]
        raise SizeError(f"each group must have {size} rows, but group {key!r} has {count}", by)
    return found
