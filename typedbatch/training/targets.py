"""Targets of learning: rollouts get their values, returns and advantages in one call, which owns the convention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import TENSOR, kind_of
from typedbatch._core.lengths import require_at_least
from typedbatch._ops.conversion import leaf_to_numpy, no_grad
from typedbatch._typing import ArrayOrTensor
from typedbatch._validation.validate import extend
from typedbatch.buffers import returns as returns_of
from typedbatch.buffers.arguments import number_of
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.protocols import RolloutBatchProtocol
from typedbatch.records import BatchWithAdvantages, BatchWithReturns

K = TypeVar("K", bound="ArrayOrTensor")
Obs = TypeVar("Obs")
Act = TypeVar("Act")

# made once, as a subscript takes time
_RETURNS: Any = BatchWithReturns[Any, Any, Any]
_ADVANTAGES: Any = BatchWithAdvantages[Any, Any, Any]


def add_gae(
    rollout: RolloutBatchProtocol[K, Obs, Act],
    critic: Callable[[Obs], ArrayOrTensor],
    *,
    gamma: float,
    lam: float,
) -> BatchWithAdvantages[K, Obs, Act]:
    """Return a rollout with ``v_s``, ``returns`` and generalized advantages ``adv`` (arXiv:1506.02438).

    The critic is asked for the values of ``obs`` and of ``obs_next``, without gradients. The value of the last
    ``obs_next`` of an episode counts where it was truncated, and is 0 where it was terminated.

    Args:
        rollout: Rows in time order, one episode after another, as :class:`Collector` gives them; not modified.
        critic: Function of ``rollout.obs`` that returns a value for each row, ``(N,)`` or ``(N, 1)``, array or tensor.
        gamma: Discount per step, in [0, 1].
        lam: Weight of later steps, from 0 (one-step errors) to 1 (whole episodes).

    Returns:
        A new batch that shares the fields of ``rollout``, those that are not declared too. The new fields have shape
        ``(N,)``, are arrays or tensors as ``rew`` is, of the floating dtype of the values, and carry no gradients.

    Raises:
        StructureError: The critic does not return one value for each row.
        SettingError: ``gamma`` or ``lam`` is not in [0, 1].
    """
    given: Any = rollout
    with no_grad():
        now = returns_of.per_row(critic(given.obs), given.rew, "critic")
        after = returns_of.per_row(critic(given.obs_next), given.rew, "critic")
    returns, adv = returns_of.compute_episodic_return(rollout, v_s_=after, v_s=now, gamma=gamma, gae_lambda=lam)
    fields = {"v_s": now, "returns": returns, "adv": adv}
    alike = {name: _alike(value, given.rew, now) for name, value in fields.items()}
    out: BatchWithAdvantages[K, Obs, Act] = extend(given, _ADVANTAGES, **alike)
    return out


def add_nstep(
    batch: RolloutBatchProtocol[K, Obs, Act],
    buffer: ReplayBuffer[Any, Any],
    slots: NDArray[np.integer[Any]],
    target: Callable[[Obs], ArrayOrTensor],
    *,
    gamma: float,
    n: int,
) -> BatchWithReturns[K, Obs, Act]:
    """Return sampled rows with ``returns``, the targets of Q-learning over ``n`` steps.

    The target is asked for the values of the last ``obs_next`` that a row looks ahead to, without gradients. That value
    is 0 where the episode was terminated.

    Args:
        batch: Rows of the buffer, ``buffer[slots]``; not modified.
        buffer: Buffer that the following rows are read from.
        slots: Slots of the rows, ``(N,)``.
        target: Function of ``obs_next`` that returns a value for each row, ``(N,)`` or ``(N, 1)``, array or tensor.
        gamma: Discount per step, in [0, 1].
        n: Number of steps, at least 1.

    Returns:
        A new batch that shares the fields of ``batch``. ``returns`` has shape ``(N,)``, is an array or a tensor as
        ``rew`` is, of the floating dtype of the values, and carries no gradients.

    Raises:
        StructureError: The target does not return one value for each row, or slots and rows differ in number.
        SizeError: ``n`` is below 1.
        SettingError: ``gamma`` is not in [0, 1].
        RowIndexError: A slot does not exist, or holds no row.
    """
    given: Any = batch
    n, gamma = require_at_least(1, n, "n_step"), number_of(gamma, "gamma", 0, 1)
    ahead = returns_of.look_ahead(batch, buffer, slots, n, len(given.rew), obs_next=True)
    with no_grad():
        values = returns_of.per_row(target(ahead.obs_next), given.rew, "target")
    targets = returns_of.nstep_targets(ahead, values, gamma)
    returns = _alike(targets, given.rew, values)
    out: BatchWithReturns[K, Obs, Act] = extend(given, _RETURNS, returns=returns)
    return out


def _alike(values: Any, rew: Any, like: NDArray[Any]) -> Any:
    """Convert values to arrays or tensors as the rewards are, of the floating dtype of others."""
    floats = like.dtype if like.dtype.kind == "f" else np.dtype(np.float64)
    array = np.asarray(leaf_to_numpy(values)).astype(floats, copy=False)
    if kind_of(rew) is not TENSOR:
        return array
    import torch

    return torch.from_numpy(array).to(rew.device)
