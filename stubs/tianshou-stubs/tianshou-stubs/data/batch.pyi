"""``tianshou.data.batch`` as checkers see it: a protocol has the fields that it declares, and no others.

Three things differ from the module's own annotations:

* ``BatchProtocol`` has no ``__getattr__`` and ``__setattr__``. ``Batch`` has them, here too; of a value whose type is a
  protocol they would hide what the protocol is there to say.
* ``BatchProtocol`` has ``keys``, ``values``, ``items`` and ``in``, which every batch has at run time.
* ``BatchProtocol.to_dict`` is two overloads, by position and by name. Together they are the one signature of run time.
  ``Batch`` names that parameter otherwise, and so is none of the protocols by its structure, whatever its
  ``__getattr__`` promises; mypy reads the name in this form alone, other checkers in any.
"""

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from logging import Logger
from numbers import Number
from types import EllipsisType
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar, overload, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import Distribution

_SingleIndexType: TypeAlias = slice | int | EllipsisType
IndexType: TypeAlias = NDArray[Any] | _SingleIndexType | Sequence[_SingleIndexType]
TBatch = TypeVar("TBatch", bound=BatchProtocol)
TDistribution = TypeVar("TDistribution", bound=Distribution)
T = TypeVar("T")
TArr: TypeAlias = torch.Tensor | NDArray[Any]
TObsArr: TypeAlias = torch.Tensor | NDArray[Any]

# For a checker an int is no Number, and a batch times two is what these are there for.
_Number: TypeAlias = complex | Number | np.number[Any]
# Its keys are strings; but dict is invariant, and a dictionary with keys of a Literal type is no dict[str, Any].
_Dict: TypeAlias = dict[Any, Any]
_Device: TypeAlias = str | int | torch.device

log: Logger

def _is_batch_set(obj: Any) -> bool: ...
def _is_scalar(value: Any) -> bool: ...
def _is_number(value: Any) -> bool: ...
def _to_array_with_correct_type(obj: Any) -> NDArray[Any]: ...
def create_value(inst: Any, size: int, stack: bool = True) -> Batch | NDArray[Any] | torch.Tensor: ...
def _assert_type_keys(keys: Iterable[str]) -> None: ...
def _parse_value(obj: Any) -> Batch | NDArray[Any] | torch.Tensor | None: ...
def alloc_by_keys_diff(meta: BatchProtocol, batch: BatchProtocol, size: int, stack: bool = True) -> None: ...

class ProtocolCalledException(Exception): ...

def get_sliced_dist(dist: TDistribution, index: IndexType) -> TDistribution: ...
def get_len_of_dist(dist: Distribution) -> int: ...
def dist_to_atleast_2d(dist: TDistribution) -> TDistribution: ...

@runtime_checkable
class BatchProtocol(Protocol):
    """What every batch has. A protocol derived from it adds fields, and those alone can be read and written by dot."""

    @property
    def shape(self) -> list[int]: ...
    def __iter__(self) -> Iterator[Self]: ...
    def __contains__(self, key: str) -> bool: ...
    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: IndexType) -> Self: ...
    def __setitem__(self, index: str | IndexType, value: Any) -> None: ...
    def __iadd__(self, other: BatchProtocol | _Number) -> Self: ...
    def __add__(self, other: BatchProtocol | _Number) -> Self: ...
    def __imul__(self, value: _Number) -> Self: ...
    def __mul__(self, value: _Number) -> Self: ...
    def __itruediv__(self, value: _Number) -> Self: ...
    def __truediv__(self, value: _Number) -> Self: ...
    def __eq__(self, other: object) -> bool: ...
    def to_numpy(self) -> Self:
        """A new batch in which every tensor is an array."""
    def to_numpy_(self) -> None:
        """Make every tensor an array, in place."""
    def to_torch(self, dtype: torch.dtype | None = None, device: _Device = "cpu") -> Self:
        """A new batch in which every array is a tensor; ``dtype`` is heeded only by what is a tensor already."""
    def to_torch_(self, dtype: torch.dtype | None = None, device: _Device = "cpu") -> None:
        """Make every array a tensor, in place; ``dtype`` is heeded only by what is a tensor already."""
    def cat_(self, batches: BatchProtocol | Sequence[_Dict | BatchProtocol]) -> None:
        """Put the rows of other batches of the same structure behind those of this one."""
    @overload
    @staticmethod
    def cat(batches: Sequence[_Dict]) -> Batch:
        """The rows of several batches of the same structure, one behind the other, in a new batch."""
    @overload
    @staticmethod
    def cat(batches: Sequence[TBatch]) -> TBatch: ...  # type: ignore[overload-overlap] # both are batches
    @overload
    @staticmethod
    def cat(batches: Sequence[_Dict | BatchProtocol]) -> Batch: ...
    def stack_(self, batches: Sequence[_Dict | BatchProtocol], axis: int = 0) -> None:
        """Put other batches beside this one, along a new axis."""
    @overload
    @staticmethod
    def stack(batches: Sequence[_Dict], axis: int = 0) -> Batch:
        """Several batches side by side in a new batch; what one of them lacks is zero, None or empty."""
    @overload
    @staticmethod
    def stack(batches: Sequence[TBatch], axis: int = 0) -> TBatch: ...  # type: ignore[overload-overlap] # both are batches
    @overload
    @staticmethod
    def stack(batches: Sequence[_Dict | BatchProtocol], axis: int = 0) -> Batch: ...
    def empty_(self, index: IndexType | None = None) -> Self:
        """Set all rows, or those of ``index``, to zero or None in place, and return this batch."""
    @staticmethod
    def empty(batch: TBatch, index: IndexType | None = None) -> TBatch:
        """A copy in which all rows, or those of ``index``, are zero or None."""
    def update(self, batch: _Dict | BatchProtocol | None = None, **kwargs: Any) -> None:
        """Take over the values of another batch or dictionary, and those given by name."""
    def __len__(self) -> int: ...
    def split(self, size: int, shuffle: bool = True, merge_last: bool = False) -> Iterator[Self]:
        """Minibatches of ``size`` rows, -1 for one of all rows; ``merge_last`` puts the rest into the last full one."""
    @overload
    def to_dict(self, recurse: bool = True, /) -> dict[str, Any]: ...
    @overload
    def to_dict(self, *, recurse: bool) -> dict[str, Any]: ...
    def to_list_of_dicts(self) -> list[dict[str, Any]]: ...
    def get_keys(self) -> KeysView[str]: ...
    def keys(self) -> KeysView[str]: ...
    def values(self) -> ValuesView[Any]: ...
    def items(self) -> ItemsView[str, Any]: ...
    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: IndexType | None = None, default_value: float | None = None
    ) -> None:
        """Set a field, or its rows of ``index``; the other rows of a new field get ``default_value``."""
    def isnull(self) -> Self:
        """A batch of the same structure that is true where a value is missing."""
    def hasnull(self) -> bool: ...
    def dropnull(self) -> Self:
        """The rows in which no value is missing."""
    @overload
    def apply_values_transform(self, values_transform: Callable[[Any], Any], inplace: Literal[False] = False) -> Self:
        """Replace each value, also those of nested batches, by what a function makes of it."""
    @overload
    def apply_values_transform(self, values_transform: Callable[[Any], Any], inplace: Literal[True]) -> None: ...
    @overload
    def apply_values_transform(self, values_transform: Callable[[Any], Any], inplace: bool) -> Self | None: ...
    def get(self, key: str, default: Any | None = None) -> Any: ...
    def pop(self, key: str, default: Any | None = None) -> Any: ...
    def to_at_least_2d(self) -> Self:
        """The same values, each with two dimensions or more."""

class Batch(BatchProtocol):
    """Named arrays, tensors, objects, distributions and batches.

    Which fields a plain batch has is not known to a checker, so all can be read and written; ``cast`` gives it a type.
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(
        self,
        batch_dict: _Dict | BatchProtocol | Sequence[_Dict | BatchProtocol] | NDArray[Any] | None = None,
        copy: bool = False,
        **kwargs: Any,
    ) -> None: ...
    def __getattr__(self, key: str) -> Any: ...
    def __setattr__(self, key: str, value: Any) -> None: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...
    # `recurse` and `seq` above: by name, a batch takes another argument than its protocol says.
    def to_dict(self, recursive: bool = True) -> dict[str, Any]: ...  # type: ignore[override]
    def set_array_at_key(
        self, arr: NDArray[Any], key: str, index: IndexType | None = None, default_value: float | None = None
    ) -> None: ...
    def replace_empty_batches_by_none(self) -> None:
        """Replace each empty batch, also in nested batches, by None, in place."""

def _apply_batch_values_func_recursively(
    batch: TBatch, values_transform: Callable[[Any], Any], inplace: bool = False
) -> TBatch | None: ...
