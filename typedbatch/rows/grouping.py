"""Rows with the same key, as the answers to one prompt: ``groups``."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import torch_side
from typedbatch._tree.leaves import ARRAY, TENSOR, describe, kind_of
from typedbatch._tree.rows import require_tree, rows_to_take
from typedbatch.episodes import groups as rows_of_groups
from typedbatch.episodes import values_of
from typedbatch.errors import LeafError, SizeError, StructureError

if TYPE_CHECKING:
    from torch import Tensor

    from typedbatch.protocols import BatchProtocol

X = TypeVar("X", bound="NDArray[Any] | Tensor")


class Groups:
    """Which group each of N rows is in, and statistics over groups, spread to the rows: ``(N, ...)`` in and out.

    Made by :func:`groups`. A tensor stays on its device, where ``index_add`` does the sums. Results are new, and of the
    dtype of ``x``; for integers, flags and half precision float64, or float32 for tensors.

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
            LeafError: ``x`` is neither an array of numbers nor a tensor.
            StructureError: it has another number of rows.
        """
        floats = self._floats(x)
        mean: X = self._sum(floats) / self._count(floats)
        return mean

    def std(self, x: X) -> X:
        """For each row the standard deviation over its group, with n - 1 below, as ``torch.std`` and GRPO have it.

        In a group of one it is 0, so that ``(x - mean) / (std + eps)`` is 0 there.

        Raises:
            LeafError: ``x`` is neither an array of numbers nor a tensor.
            StructureError: it has another number of rows.
        """
        floats = self._floats(x)
        count = self._count(floats)
        variance = self._sum((floats - self._sum(floats) / count) ** 2) / (count - 1 + (count == 1))
        root: X = variance**0.5
        return root

    def leave_one_out(self, x: X) -> X:
        """For each row the mean over the others of its group, the baseline of RLOO.

        Raises:
            SizeError: a group has one row, so there are no others.
            LeafError: ``x`` is neither an array of numbers nor a tensor.
            StructureError: it has another number of rows.
        """
        floats = self._floats(x)
        if len(alone := np.flatnonzero(self.count == 1)):
            key = self.keys[self.index[alone[0]]]
            raise SizeError(
                f"group {key!r} has one row, {int(alone[0])}, and so no others to take the mean of; "
                "leave such rows out, as with batch[groups.count > 1]"
            )
        others: X = (self._sum(floats) - floats) / (self._count(floats) - 1)
        return others

    def _floats(self, x: Any) -> Any:
        kind = kind_of(x)
        if kind is not TENSOR and not (kind is ARRAY and x.dtype.kind in "biuf"):
            raise LeafError(f"statistics over groups are of an array of numbers or a tensor, got {describe(x)}")
        if tuple(x.shape[:1]) != self.index.shape:
            raise StructureError(f"{len(self.index)} rows are in groups, got {describe(x)}")
        if kind is ARRAY:
            return x if x.dtype.kind == "f" and x.dtype.itemsize > 2 else x.astype(np.float64)
        return x if x.is_floating_point() and x.element_size() > 2 else x.float()

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
        StructureError: it has not one value for each row, they cannot be told apart (lists, for one), or the fields
            have different lengths.
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
