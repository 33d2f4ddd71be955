"""Types that annotations share, without importing torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from torch.distributions import Distribution as Distribution

    class TensorLike(Protocol):
        """A torch tensor, named by what only tensors have."""

        def detach(self) -> Any: ...
        def index_select(self, dim: Any, index: Any) -> Any: ...

    class Missing:
        """What a protocol finds, under the mypy plugin, in place of a field that a batch does not have."""

    class More:
        """Stands, under the mypy plugin, in the type of a batch that may have other fields than those listed."""

    class Declared:
        """Stands, under the mypy plugin, in the type of a batch that was declared as ``Batch`` and written to since."""

else:

    class Distribution:
        """Stands for ``torch.distributions.Distribution`` in annotations that are read at run time."""

    TensorLike = Any


class ArrayOrTensor(Protocol):
    """An array or tensor of whatever library, which is the bound of the first parameter of every protocol and record.

    A generic record of your own needs a type variable with this bound. Text, numbers and ``None`` are refused.
    """

    @property
    def shape(self) -> Any:
        """The sizes of its dimensions."""
        ...

    @property
    def dtype(self) -> Any:
        """What its elements are."""
        ...


Array: TypeAlias = NDArray[Any]

IndexPart: TypeAlias = int | np.integer[Any] | slice | EllipsisType | NDArray[Any] | TensorLike | Sequence[int] | None
Index: TypeAlias = IndexPart | Sequence[bool] | tuple[IndexPart, ...]
"""What selects rows: integers, slices, ``...``, ``None``, lists, masks, arrays, tensors, and tuples of these."""

K_co = TypeVar("K_co", covariant=True, bound=ArrayOrTensor, default=NDArray[Any])
"""What kind of array the fields hold: numpy's unless said otherwise."""

Obs_co = TypeVar("Obs_co", covariant=True, default=K_co)
"""What an observation is: an array of that kind, or a nested record or protocol."""

Act_co = TypeVar("Act_co", covariant=True, default=K_co)
"""What an action is: an array of that kind, or a nested record or protocol."""


def with_defaults(cls: Any, args: Any) -> tuple[Any, ...]:
    """The arguments of ``cls[args]``, with the defaults of the parameters that were left out.

    A default that is another parameter becomes the argument of that one: ``RolloutBatch[T]`` means
    ``RolloutBatch[T, T, T]``. typing itself would leave the other parameters' variables in, and then ask a class that
    inherits from it to list them.
    """
    given = args if isinstance(args, tuple) else (args,)
    parameters = getattr(cls, "__parameters__", ())
    full = dict(zip(parameters, given, strict=False))
    for parameter in parameters[len(given) :]:
        default = getattr(parameter, "__default__", parameter)
        full[parameter] = full.get(default, default)
    return (*full.values(), *given[len(parameters) :])
