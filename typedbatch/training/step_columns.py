"""``StepColumns``: storage for the values of several steps and environments, in the order of a rollout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy import ndarray

from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Tree, blank, describe, mask_obstacle, new_tree, short_dtype
from typedbatch._ops.construct import to_leaf
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, StructureError, TypedBatchError, for_each

_NOTHING: Final = object()
"""The storage of a field whose value has been ``None`` in every step."""


class StepColumns:
    """The values of a field, or of a batch of fields, in each step: ``(environments, steps, ...)``.

    The first step determines shapes and dtypes. Values are copied. If a later step needs a wider dtype, the column is
    converted. Values of a ``late`` column may first appear in a later step; they are zero before.
    """

    def __init__(self, name: str, envs: int, steps: int, *, late: bool = False) -> None:
        self.name: str = name
        """Name of the field, or an empty string."""
        self._envs, self._steps, self._late = envs, steps, late
        self._storage: Any = None
        self._rows: Any = None
        """The storage as rows, if it is an array."""
        self.by_step: Any = None
        """The storage as ``(steps, environments, ...)``, if it is an array."""
        self.dtype: np.dtype[Any] | None = None
        """Dtype of the storage, if it is an array. For a value of this dtype and of :attr:`shape`,
        ``by_step[step] = value`` does what :meth:`write` does, without a call."""
        self.shape: tuple[int, ...] = ()
        """Shape of the values of a step, if the storage is an array."""

    def write(self, step: int, value: Any) -> None:
        """Store the values of a step."""
        before = storage = self._storage
        if storage is None or (storage is _NOTHING and self._late):
            storage = self._allocate(value)
        storage = self._store(storage, step, value)
        if storage is before:
            return
        self._rows = self.dtype = None  # if anything interrupts the next lines, the storage alone counts
        self._storage = storage
        if type(storage) is ndarray:
            self._rows = storage.reshape(-1, *storage.shape[2:])
            self.by_step = storage.swapaxes(0, 1)
            self.shape = (self._envs, *storage.shape[2:])
            self.dtype = storage.dtype

    @property
    def laid_out(self) -> bool:
        """Whether any value other than None was written."""
        return self._storage is not None and self._storage is not _NOTHING

    def flat(self, steps: int, rows: Any = None) -> Any:
        """Return the values of the first ``steps`` steps as rows, or those with some indices."""
        if self._rows is not None and steps == self._steps:  # hot path
            return self._rows if rows is None else self._rows.take(rows, 0)
        return _flat(self._storage, steps, rows)

    def _allocate(self, value: Any) -> Any:
        """Return empty storage for values like this one."""
        if isinstance(value, (tuple, Mapping, Tree)):
            fields = for_each(dict(_parts(value)), self._allocate)
            return new_tree(type(value) if isinstance(value, Tree) else Batch, fields)
        leaf = to_leaf(value)
        kind = KINDS[type(leaf)]
        if kind is kinds.NONE:
            return _NOTHING
        if kind not in (kinds.ARRAY, kinds.TENSOR):
            raise LeafError(f"a row for each of {self._envs} environments is expected, got {describe(leaf)}")
        if not leaf.ndim or leaf.shape[0] != self._envs:
            raise StructureError(f"a row for each of {self._envs} environments is expected, got {describe(leaf)}")
        if obstacle := mask_obstacle(leaf):
            raise LeafError(obstacle)
        shape = (self._envs, self._steps, *leaf.shape[1:])
        if self._late:
            return blank(leaf, shape)
        return leaf.new_empty(shape) if kind is kinds.TENSOR else np.empty(shape, leaf.dtype)

    def _store(self, storage: Any, step: int, value: Any) -> Any:
        """Store the values of a step, and return the storage, which is a new one if the dtype had to be widened."""
        if isinstance(storage, Tree):
            self._write_parts(storage, step, value)
            return storage
        if type(value) is ndarray and type(storage) is ndarray and value.dtype is storage.dtype:
            require_same_shape((self._envs, *storage.shape[2:]), value)
            storage[:, step] = value
            return storage
        leaf = None if value is None or isinstance(value, (tuple, Mapping, Tree)) else to_leaf(value)
        if storage is _NOTHING and value is None:
            return storage
        if storage is _NOTHING or KINDS[type(leaf)] is not KINDS[type(storage)]:
            before = "None" if storage is _NOTHING else describe(storage[:, 0])
            raise StructureError(f"expected {before} as in the steps before, got {describe(value)}")
        require_same_shape((self._envs, *storage.shape[2:]), leaf)
        dtype = common_dtype(storage[:, :step], leaf)
        if dtype != storage.dtype:
            earlier: Any = storage
            is_tensor = KINDS[type(earlier)] is kinds.TENSOR
            storage = earlier.new_zeros(earlier.shape, dtype=dtype) if is_tensor else np.zeros(earlier.shape, dtype)
            storage[:, :step] = earlier[:, :step]
        storage[:, step] = leaf
        return storage

    def _write_parts(self, storage: Tree, step: int, value: Any) -> None:
        if not isinstance(value, (tuple, Mapping, Tree)):
            text = f"expected a batch of {', '.join(storage.__dict__)} as in the steps before, got {describe(value)}"
            raise StructureError(text)
        parts = dict(_parts(value))
        for name in storage.__dict__:
            if name not in parts:
                raise StructureError("it was there in the steps before, but is missing in this one", name)
        for name, part in parts.items():
            if name not in storage.__dict__ and not self._late:
                raise StructureError("it was not there in the steps before", name)
            try:
                if name not in storage.__dict__:
                    storage.__dict__[name] = self._allocate(part)
                storage.__dict__[name] = self._store(storage.__dict__[name], step, part)
            except TypedBatchError as error:
                raise error.under(name) from error.__cause__


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        value = {str(i): part for i, part in enumerate(value)}
    return iter((value.__dict__ if isinstance(value, Tree) else value).items())


def _flat(storage: Any, steps: int, rows: Any) -> Any:
    if KINDS[type(storage)] is kinds.BATCH:
        return new_tree(type(storage), {name: _flat(part, steps, rows) for name, part in storage.__dict__.items()})
    if storage is None or storage is _NOTHING:
        return None
    values = storage[:, :steps].reshape(storage.shape[0] * steps, *storage.shape[2:])
    return values if rows is None else values[rows]


def common_dtype(before: Any, value: Any) -> Any:
    """Return the narrowest dtype that holds earlier values and a new one unchanged, for two arrays or two tensors.

    If the earlier values are objects, it is ``object``. If no dtype holds all values unchanged, raise a LeafError.
    """
    if before.dtype in (value.dtype, object):
        return before.dtype
    candidates: list[Any] = []
    if KINDS[type(before)] is kinds.TENSOR:
        torch = sys.modules["torch"]
        usual = torch.promote_types(before.dtype, value.dtype)
        candidates = [usual, torch.complex128 if usual.is_complex else torch.float64]
    elif set(both := before.dtype.kind + value.dtype.kind) <= set("biufc") or both in ("mm", "MM"):
        candidates = [np.result_type(before.dtype, value.dtype)]
    for dtype in candidates:
        if _is_preserved(before, dtype) and _is_preserved(value, dtype):
            return dtype
    raise LeafError(
        f"expected {short_dtype(before)} as in the steps before, got {describe(value)}, and no dtype holds the "
        "values of both unchanged; use the same dtype in every step"
    )


def _is_preserved(values: Any, dtype: Any) -> bool:
    """Return whether each value is unchanged in a dtype that numpy or torch widens to."""
    if KINDS[type(values)] is kinds.TENSOR:
        torch = sys.modules["torch"]
        is_whole = not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)
        if not is_whole or not (dtype.is_floating_point or dtype.is_complex) or not values.numel():
            return True
        limit = round(2 / torch.finfo(dtype).eps)  # torch widens integers to floats as small as float16
        return bool(values.max().item() <= limit and values.min().item() >= -limit)
    if values.dtype.kind in "iu" and dtype.kind in "fc":  # numpy widens int64 to float64, which has 53 bits
        limit = 2 ** (np.finfo(dtype).nmant + 1)
        return not values.size or (int(values.max()) <= limit and int(values.min()) >= -limit)
    if values.dtype.kind in "mM":
        try:
            return bool(values.astype(dtype).astype(values.dtype).tobytes() == values.tobytes())
        except OverflowError:  # raised since numpy 2.5; before that, dates wrapped around
            return False
    return True


def require_same_shape(shape: tuple[int, ...], value: Any) -> None:
    """Raise an error unless the values of a step have the shape of those before, and are not masked."""
    if tuple(value.shape) != shape:
        raise StructureError(f"expected shape {list(shape)} as in the steps before, got {describe(value)}")
    if type(value) is not ndarray and (obstacle := mask_obstacle(value)):
        raise LeafError(obstacle)
