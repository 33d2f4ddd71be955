"""Types that annotations share, without importing torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from typing import Protocol

    from torch.distributions import Distribution as Distribution

    class TensorLike(Protocol):
        """A torch tensor, named by what only tensors have."""

        def detach(self) -> Any: ...
        def index_select(self, dim: Any, index: Any) -> Any: ...

else:

    class Distribution:
        """Stands for ``torch.distributions.Distribution`` in annotations that are read at run time."""

    TensorLike = Any

Array: TypeAlias = NDArray[Any]

IndexPart: TypeAlias = int | np.integer[Any] | slice | EllipsisType | NDArray[Any] | TensorLike | Sequence[int] | None
Index: TypeAlias = IndexPart | Sequence[bool] | tuple[IndexPart, ...]
"""What selects rows: integers, slices, ``...``, ``None``, lists, masks, arrays, tensors, and tuples of these."""

K_co = TypeVar("K_co", covariant=True, default=NDArray[Any])
"""The stage: what kind of array the fields hold. numpy unless said otherwise."""

Obs_co = TypeVar("Obs_co", covariant=True, default=K_co)
"""What an observation is: the stage's array, or a nested record or protocol."""

Act_co = TypeVar("Act_co", covariant=True, default=K_co)
"""What an action is: the stage's array, or a nested record or protocol."""

# Records can be written to, so theirs are invariant. With covariant ones mypy 2.4 also rejects a record that is made
# right where a protocol is asked for, as in ``update(ObsBatch(obs=x, info=Batch()))``.
K = TypeVar("K", default=NDArray[Any])
Obs = TypeVar("Obs", default=K)
Act = TypeVar("Act", default=K)
