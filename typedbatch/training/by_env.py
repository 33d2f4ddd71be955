"""``by_env``, which arranges the rows of a rollout by environment and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import describe
from typedbatch._core.lengths import require_tree, rows_to_take
from typedbatch._ops.padding import NO_ROW, take_or_zeros
from typedbatch._typing import ArrayOrTensor
from typedbatch.episodes import values_of
from typedbatch.errors import StructureError
from typedbatch.protocols import BatchProtocol
from typedbatch.sequences import padded_rows


class HasEnvId(BatchProtocol, Protocol):
    """A batch with the environment of each row."""

    @property
    def env_id(self) -> ArrayOrTensor:
        """Index of the environment of each row, ``(N,)``, integer."""
        ...


B_co = TypeVar("B_co", bound=HasEnvId, covariant=True)
B = TypeVar("B", bound=HasEnvId)
V = TypeVar("V", bound="ArrayOrTensor")


@dataclass(frozen=True, eq=False)
class ByEnv(Generic[B_co]):
    """Rows of a rollout by environment and time, as :func:`by_env` returns them."""

    batch: B_co
    """The rows, ``(E, T, ...)`` in every field, with zeros (``None`` for objects) at the end of shorter ones."""
    mask: NDArray[np.bool_]
    """True where there is a row, ``(E, T)``."""
    rows: NDArray[np.intp]
    """Index of each row in the rollout, ``(E, T)``; -1 where there is none."""

    def flat(self, values: V) -> V:
        """Return values as rows, in the order of the rollout: the inverse of :func:`by_env` for an array or a tensor.

        Args:
            values: Array or tensor, ``(E, T, ...)``. Gradients pass through.

        Returns:
            A copy, ``(N, ...)``.

        Raises:
            StructureError: the first two dimensions of ``values`` are not those of :attr:`mask`.
        """
        given: Any = values
        if tuple(given.shape[:2]) != self.mask.shape:
            expected = "[{}, {}, ...]".format(*self.mask.shape)
            raise StructureError(f"values of shape {expected} are expected, as batch has, got {describe(values)}")
        order = np.empty(self.mask.sum(), np.intp)
        order[self.rows[self.mask]] = np.flatnonzero(self.mask)
        flat: V = given.reshape(self.mask.size, *given.shape[2:])[order]
        return flat


def by_env(rollout: B) -> ByEnv[B]:
    """Return the rows of a rollout by environment and time, ``(E, T, ...)`` in every field.

    T is the number of rows of the environment with the most. Others may have fewer, since a step on which gymnasium
    resets an environment is not a row. A row of the result may contain several episodes.

    Args:
        rollout: Rows with their environments in ``env_id``, as a :class:`Collector` returns them if its ``rollout=``
            declares that. Rows of an environment must be in time order; they need not be consecutive.

    Returns:
        The rows of E environments, those that have any, in increasing order of ``env_id``; with a mask. Data is copied.

    Raises:
        MissingFieldError: the rollout has no ``env_id``.
        StructureError: ``env_id`` does not have one value for each row.
        LeafError: ``rollout`` is not a Batch.
    """
    tree = require_tree(rollout, "by_env()")
    env_id = values_of(tree.__dict__, "env_id", rows_to_take(tree), "environments")
    order = np.argsort(env_id, kind="stable")
    rows = padded_rows(np.unique(env_id, return_counts=True)[1], None)
    mask = rows != NO_ROW
    rows[mask] = order
    batch: B = take_or_zeros(tree, rows)
    return ByEnv(batch, mask, rows)
