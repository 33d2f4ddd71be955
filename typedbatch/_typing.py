"""Types for annotations, defined without an import of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Literal, Never, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from torch.distributions import Distribution as Distribution

    class TensorLike(Protocol):
        """A torch tensor, recognized by methods that only tensors have."""

        # A Batch's shape is a list, so that it is not taken for a tensor.
        @property
        def shape(self) -> tuple[Any, ...]: ...
        def detach(self) -> Any: ...
        def index_select(self, dim: Any, index: Any) -> Any: ...

    TYPEDBATCH_PLUGIN: Final = False
    """True under the mypy plugin, which knows the fields of plain batches itself."""

    MYPY: Final = False  # which mypy and zuban take for true
    if MYPY:
        Settable: TypeAlias = Any  # pyright: ignore[reportRedeclaration]  # one of the two is for mypy
    else:
        Settable: TypeAlias = object  # pyright: ignore[reportRedeclaration]
    """Type of what a field of a plain batch is set to.

    pyright would take a list that is set for a list that is read, unless this is another type than that of a read.
    """

    ForNumpy: TypeAlias = NDArray[np.object_] | Any
    """Result of ``__array__``, by which numpy's types take ``np.mean(batch)``; what comes back is often ``Any``."""

    class Validated:
        """Marker of batches with declared fields."""

    class Unvalidated:
        """Marker of plain batches, whose fields type checkers do not know."""

    class NoSuchField:
        """Type of an undeclared field of a record; nothing can be done with it."""

    # pyright and ty show the literal, and would show the name of an alias instead.
    Closed: TypeAlias = Callable[[Never, Literal["a declared field; batch[name] takes any other"]], NoSuchField]
    """Type of ``__getattr__`` and ``__delattr__`` in records. They take no name, so undeclared fields are errors."""

    ClosedToWriting: TypeAlias = Callable[
        [Never, Literal["a declared field; batch[name] takes any other"], Any], NoSuchField
    ]
    """Type of ``__setattr__`` in records, likewise."""

    class Missing:
        """Type, under the mypy plugin, of a field that a batch lacks, for protocols."""

    class More:
        """Marker, under the mypy plugin, in the type of a batch that may have more fields than those listed."""

    class Declared:
        """Marker, under the mypy plugin, in the type of a batch that was declared as ``Batch`` and then written to."""

else:

    class Distribution:
        """Stand-in for ``torch.distributions.Distribution`` in annotations that are read at run time."""

    TensorLike = Any


class ArrayOrTensor(Protocol):
    """An array or tensor of any library; the bound of the first parameter of every protocol and record.

    A generic record of your own needs a type variable with this bound. Text, numbers and ``None`` do not match it.
    """

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes of the dimensions."""
        ...

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        ...


Array: TypeAlias = NDArray[Any]

IndexPart: TypeAlias = int | np.integer[Any] | slice | EllipsisType | NDArray[Any] | TensorLike | Sequence[int] | None
Index: TypeAlias = IndexPart | Sequence[bool] | tuple[IndexPart, ...]
"""Index of rows: integers, slices, ``...``, ``None``, lists, masks, arrays, tensors, and tuples of these."""

K_co = TypeVar("K_co", covariant=True, bound=ArrayOrTensor, default=NDArray[Any])
"""Kind of array in the fields; by default numpy's."""

Obs_co = TypeVar("Obs_co", covariant=True, default=K_co)
"""Type of observations: arrays of that kind, or a nested record or protocol."""

Act_co = TypeVar("Act_co", covariant=True, default=K_co)
"""Type of actions: arrays of that kind, or a nested record or protocol."""


def with_defaults(cls: Any, args: Any) -> tuple[Any, ...]:
    """Return the arguments of ``cls[args]``, with the defaults of the parameters that were left out.

    A default that is another parameter becomes the argument of that one: ``RolloutBatch[T]`` means
    ``RolloutBatch[T, T, T]``. typing itself would leave the variables of the other parameters in, and then require a
    subclass to list them.
    """
    given = args if isinstance(args, tuple) else (args,)
    parameters = getattr(cls, "__parameters__", ())
    full = dict(zip(parameters, given, strict=False))
    for parameter in parameters[len(given) :]:
        default = getattr(parameter, "__default__", parameter)
        full[parameter] = full.get(default, default)
    return (*full.values(), *given[len(parameters) :])
