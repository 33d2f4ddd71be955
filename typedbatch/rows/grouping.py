"""Rows with the same key, as the answers to one prompt: ``groups``."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import torch_side
from typedbatch._tree.leaves import ARRAY, TENSOR, describe, kind_of, mask_obstacle
from typedbatch._tree.rows import require_tree, rows_to_take
from typedbatch.episodes import groups as rows_of_groups
from typedbatch.episodes import values_of
from typedbatch.errors import LeafError, SizeError, StructureError
from typedbatch.sequences import position_ids

if TYPE_CHECKING:
    from torch import Tensor

    from typedbatch.protocols import BatchProtocol

X = TypeVar("X", bound="NDArray[Any] | Tensor")


class Groups:
    """Which group each of N rows is in, and statistics over groups, spread to the rows: ``(N, ...)`` in and out.

    Made by :func:`groups`. A tensor stays on its device, where ``index_add`` does the sums, in float64. Results are
    new, and of the dtype of ``x``; for integers, flags and half precision float64, or float32 for tensors.

    Args:
        index: ``(N,)``, for each row the number of its group, from 0.
        keys: the key of each group.
    """

    index: NDArray[np.intp]
    """``(N,)``: for each row the number of its group, from 0 in the order in which keys are first seen."""
    keys: list[Hashable]
    """The key of each group."""
    count: NDArray[np.intp]
    """``(N,)``: for each row how many rows its group has."""

    def __init__(self, index: NDArray[np.intp], keys: list[Hashable]) -> None:
        self.index, self.keys = index, keys
        self.count = np.bincount(index, minlength=len(keys))[index]

    def __repr__(self) -> str:
        return f"Groups({len(self)} groups of {len(self.index)} rows)"

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.keys)

    def mean(self, x: X) -> X:
        """For each row the mean over its group.

        Raises:
            LeafError: ``x`` is neither an array of numbers nor a tensor, or some of it is masked.
            StructureError: it has another number of rows.
        """
        wide = self._wide(x)
        mean: X = _narrowed(self._sum(wide) / self._count(wide), x)
        return mean

    def std(self, x: X) -> X:
        """For each row the standard deviation over its group, with n - 1 below, as ``torch.std`` and GRPO have it.

        In a group of one it is 0, so that ``(x - mean) / (std + eps)`` is 0 there.

        Raises:
            LeafError: ``x`` is neither an array of numbers nor a tensor, or some of it is masked.
            StructureError: it has another number of rows.
        """
        wide = self._wide(x)
        count = self._count(wide)
        variance = self._sum((wide - self._sum(wide) / count) ** 2) / (count - 1 + (count == 1))
        root: X = _narrowed(variance**0.5, x)
        return root

    def leave_one_out(self, x: X) -> X:
        """For each row the mean over the others of its group, the baseline of RLOO.

        Raises:
            SizeError: a group has one row, so there are no others.
            LeafError: ``x`` is neither an array of numbers nor a tensor, or some of it is masked.
            StructureError: it has another number of rows.
        """
        wide = self._wide(x)
        if len(alone := np.flatnonzero(self.count == 1)):
            key = self.keys[self.index[alone[0]]]
            raise SizeError(
                f"group {key!r} has one row, {int(alone[0])}, and so no others to take the mean of; "
                "leave such rows out, as with batch[groups.count > 1]"
            )
        others: X = _narrowed(self._sum_of_others(wide) / (self._count(wide) - 1), x)
        return others

    def _wide(self, x: Any) -> Any:
        """The values in a dtype that sums are precise in."""
        kind = kind_of(x)
        is_numbers = x.dtype.kind in "biuf" if kind is ARRAY else kind is TENSOR and not (x.is_complex() or x.is_nested)
        if not is_numbers:
            raise LeafError(f"statistics over groups are of an array of numbers or a tensor, got {describe(x)}")
        if tuple(x.shape[:1]) != self.index.shape:
            raise StructureError(f"{len(self.index)} rows are in groups, got {describe(x)}")
        if obstacle := mask_obstacle(x):
            raise LeafError(f"statistics over groups count every row, and of {describe(x)} {obstacle}")
        if kind is ARRAY:
            return np.asarray(x).astype(np.result_type(x.dtype, np.float64))
        return x.double() if x.device.type != "mps" else x.float()  # Apple's GPUs have no float64

    def _count(self, x: Any) -> Any:
        """How many rows the group of each row has, of the kind and dtype of ``x``, one dimension for each of its."""
        count = self.count.reshape(-1, *[1] * (x.ndim - 1))
        return count.astype(x.dtype) if kind_of(x) is ARRAY else torch_side().to_tensor(count).to(x)

    def _sum(self, x: Any) -> Any:
        """For each row the sum over its group."""
        if kind_of(x) is ARRAY:
            sums = np.zeros((len(self), *x.shape[1:]), x.dtype)
            np.add.at(sums, self.index, x)
            return sums[self.index]
        index = torch_side().to_tensor(self.index).to(x.device)
        return x.new_zeros(len(self), *x.shape[1:]).index_add(0, index, x)[index]

    def _sum_of_others(self, x: Any) -> Any:
        """For each row the sum over the others of its group.

        Never the sum of all minus the row: of a large row, or of an infinite one, nothing would be left of the others.
        """
        order = np.argsort(self.index, kind="stable")  # the rows of each group next to each other
        before = position_ids(np.bincount(self.index, minlength=len(self)))
        after = self.count[order] - 1 - before
        ordered, lib = x[order], np if kind_of(x) is ARRAY else torch_side().torch
        sums = _sums_before(ordered, before, lib)
        sums = sums + lib.flip(_sums_before(lib.flip(ordered, (0,)), after[::-1].copy(), lib), (0,))
        return sums[np.argsort(order)]


def _sums_before(x: Any, before: NDArray[np.intp], lib: Any) -> Any:
    """For each row the sum over the rows of its group before it, of which there are ``before``, directly before it."""
    places = before.reshape(-1, *[1] * (x.ndim - 1))
    if lib is not np:
        places = torch_side().to_tensor(places).to(x.device)
    sums = lib.where(places >= 1, lib.roll(x, 1, 0), 0.0)
    step = 1
    while step <= before.max(initial=0):  # each sum reaches twice as far back as the one before
        sums = sums + lib.where(places >= step, lib.roll(sums, step, 0), 0.0)
        step *= 2
    return sums


def _narrowed(result: Any, x: Any) -> Any:
    """A result in the dtype of what it was made of, if that is precise enough."""
    if kind_of(x) is ARRAY:
        return result.astype(x.dtype) if x.dtype.kind == "f" and x.dtype.itemsize > 2 else result
    return result.to(x.dtype) if x.is_floating_point() and x.element_size() > 2 else result.float()


def groups(batch: BatchProtocol, by: str, *, size: int | None = None) -> Groups:
    """The groups of rows that have the same value in a field, as ``"uid"``.

    ``advantage = reward - groups(batch, "uid").mean(reward)``. Keys on a GPU are read once; nothing else leaves it.

    Args:
        batch: N rows in any order.
        by: the field: text, numbers or other hashable objects, one for each row.
        size: how many rows each group must have; None for any. A baseline over a group of one row teaches nothing, and
            groups that were made by a wrong key, or torn apart, are not noticed otherwise.

    Raises:
        MissingFieldError: there is no such field.
        SizeError: a group has more rows than ``size``, or fewer.
        StructureError: it has not one value for each row, some are masked, they cannot be told apart (lists, for one),
            or the fields have different lengths.
    """
    tree = require_tree(batch, "groups()")
    rows = rows_to_take(tree)
    values = values_of(tree.__dict__, by, rows, "groups")
    index = np.zeros(rows, np.intp)
    keys: list[Hashable] = []
    for number, own in enumerate(rows_of_groups(values, by)):
        index[own] = number
        keys.append(values[own[:1]].tolist()[0])
        if size is not None and len(own) != size:
            raise SizeError(f"the group of {keys[-1]!r} has {len(own)} rows, and each is to have {size}", by)
    return Groups(index, keys)
