"""n-step returns and generalized advantages, over the rows of a buffer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import leaf_to_numpy, no_grad, to_numpy, to_torch_as
from typedbatch._ops.copying import shallow
from typedbatch._tree.leaves import TENSOR, describe, kind_of
from typedbatch._tree.rows import at_least
from typedbatch.buffers.guard import in_whole
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.selection import as_slots
from typedbatch.buffers.settings import number_of
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import SettingError, StructureError
from typedbatch.protocols import BatchWithReturnsProtocol, RolloutBatchProtocol

if TYPE_CHECKING:
    from typedbatch._typing import ArrayOrTensor

K = TypeVar("K", bound="ArrayOrTensor")
Q = TypeVar("Q", bound="ArrayOrTensor")
Obs = TypeVar("Obs")
Act = TypeVar("Act")

Buffer = ReplayBuffer[Any, Any]
Floats = NDArray[np.floating[Any]]


def compute_nstep_return(
    batch: RolloutBatchProtocol[K, Obs, Act],
    buffer: Buffer,
    indices: NDArray[np.integer[Any]],
    target_q_fn: Callable[[Buffer, NDArray[np.intp]], Q],
    gamma: float = 0.99,
    n_step: int = 1,
) -> BatchWithReturnsProtocol[K | Q, Obs, Act]:
    """The batch with ``returns``, the targets of Q-learning over ``n_step`` steps.

    ``returns[t] = rew[t] + gamma * rew[t + 1] + ... + gamma**m * target_q[t + m] * ~terminated[t + m - 1]``,
    where m is ``n_step``, or less where the episode, or what is stored of it, ends before.

    Args:
        batch: ``buffer[indices]``; it stays as it is.
        buffer: where the following rows are read from.
        indices: slots of the rows, ``(N,)``.
        target_q_fn: takes the buffer and slots, and gives the value of the ``obs_next`` of those, ``(N,)`` or
            ``(N, heads)``, array or tensor; called without gradients.
        gamma: discount per step, in [0, 1].
        n_step: steps, 1 or more.

    Returns:
        A new batch that shares the fields of ``batch``; ``returns`` has the shape, dtype, kind and device of what
        ``target_q_fn`` gives. Where that is a tensor, ``weight`` becomes one too, as in Tianshou.

    Raises:
        StructureError: ``batch``, ``indices`` or what ``target_q_fn`` gives have different lengths.
        SizeError: ``n_step`` is below 1.
        SettingError: ``gamma`` is not from 0 to 1.
        RowIndexError: a slot that does not exist, or holds no row.
    """
    at_least(1, n_step, "n_step")
    gamma = number_of(gamma, "gamma", 0, 1)
    state = state_of(buffer)
    ahead, earned, terminated = in_whole(state, lambda: _read_ahead(state, indices, n_step), indices)
    slots = ahead[0]
    if len(slots) != len(batch):
        raise StructureError(f"{len(slots)} indices for a batch of {len(batch)} rows")
    with no_grad():
        target_q: Any = target_q_fn(buffer, ahead[-1])
    values = np.asarray(to_numpy(target_q))
    if values.shape[:1] != slots.shape:
        raise StructureError(f"target_q_fn gives {describe(target_q)} for {len(slots)} slots")
    flat = values.ndim == earned[0].ndim == 1
    total = _by_columns(values.astype(np.float64), flat)
    total[terminated] = 0
    last = len(earned) - 1
    for step in range(last, -1, -1):
        rewards = _by_columns(earned[step], flat)
        if rewards.shape[1:] not in ((), (1,), total.shape[1:]):
            raise StructureError(f"target_q_fn gives {describe(target_q)} for rewards {list(earned[0].shape[1:])}")
        more = rewards + gamma * total
        if step == last:
            total = more
        else:
            goes_on = ahead[step + 1] != ahead[step]
            total = np.where(goes_on if total.ndim == 1 else goes_on[:, None], more, total)
    given: Any = batch
    out: Any = shallow(given)
    out.__dict__["returns"] = _like(total.reshape(values.shape), target_q)
    if "weight" in out.__dict__ and kind_of(target_q) is TENSOR:
        out.__dict__["weight"] = to_torch_as(out.__dict__["weight"], target_q)
    result: BatchWithReturnsProtocol[K | Q, Obs, Act] = out
    return result


def _read_ahead(state: State, indices: Any, steps: int) -> tuple[list[Slots], list[Floats], NDArray[np.bool_]]:
    """The slots of each step, the last ones again where episodes end before; their rewards; the flags of the last."""
    ahead = [as_slots(state.rings, indices)]
    done = state.flags()
    while len(ahead) < steps:
        following = state.rings.next(ahead[-1], done)
        if (following == ahead[-1]).all():  # every episode has ended, and more steps would add nothing
            break
        ahead.append(following)
    return ahead, [_rewards(state, slots) for slots in ahead], leaf_to_numpy(state.column("terminated")).take(ahead[-1])


def _rewards(state: State, slots: NDArray[np.intp]) -> Floats:
    """As they are sampled, which in a hindsight buffer is not as they are stored."""
    stored = state.read("rew", state.columns.__dict__["rew"], slots)
    rewards: Floats = leaf_to_numpy(stored)
    return rewards


def _by_columns(values: Floats, flat: bool) -> Floats:
    """One column for each number of a row, ``(N, heads)``; ``(N,)`` where all have one number a row, as is faster."""
    return values if flat else values.reshape(len(values), math.prod(values.shape[1:]))


def compute_episodic_return(
    batch: RolloutBatchProtocol[K, Obs, Act],
    buffer: Buffer | None = None,
    indices: NDArray[np.integer[Any]] | None = None,
    v_s_: ArrayOrTensor | None = None,
    v_s: ArrayOrTensor | None = None,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
) -> tuple[K, K]:
    """Returns and generalized advantages (arXiv:1506.02438) of episodes in the order of time.

    ``adv[t] = delta[t] + gamma * gae_lambda * adv[t + 1]`` with ``delta[t] = rew[t] + gamma * v_s_[t] - v_s[t]``, up to
    the end of each episode, and ``adv[t] + v_s[t]`` for the returns. Where an episode was truncated, or goes on, the
    value of its last ``obs_next`` counts; where it was terminated, 0 does. Without values and with a ``gae_lambda`` of
    1 the returns are the discounted sums of rewards.

    Args:
        batch: rows in the order of time, several episodes after each other.
        buffer: where ``indices`` are slots of; its unfinished episodes end with their last row. Without one, an episode
            that the batch does not finish ends with the batch.
        indices: ``batch`` is ``buffer[indices]``.
        v_s_: value of ``obs_next``, ``(N,)``, array or tensor; None for zeros.
        v_s: value of ``obs``; None for ``v_s_`` one row later, which is right inside episodes alone.
        gamma: discount per step, in [0, 1].
        gae_lambda: from 0, the one-step error, to 1, the whole of the episode.

    Returns:
        Returns and advantages, ``(N,)``: float64 arrays for a ``rew`` that is an array, else tensors of its kind.

    Raises:
        StructureError: values, ``indices`` or rewards of different lengths; ``buffer`` without ``indices``.
        SettingError: ``gamma`` or ``gae_lambda`` is not from 0 to 1; or no ``v_s_`` is given, though
            ``gae_lambda`` is not 1 (an ``AssertionError`` in Tianshou).
    """
    gamma, gae_lambda = number_of(gamma, "gamma", 0, 1), number_of(gae_lambda, "gae_lambda", 0, 1)
    given: Any = batch
    rew = np.asarray(leaf_to_numpy(given.rew))
    terminated = np.asarray(leaf_to_numpy(given.terminated), bool)
    ends = terminated | np.asarray(leaf_to_numpy(given.truncated), bool)
    ends |= _open_ends(buffer, indices, len(rew))
    if v_s_ is None and not np.isclose(gae_lambda, 1.0):
        raise SettingError(
            f"v_s_= is the value of obs_next; without it gae_lambda=1 gives sums of rewards, got {gae_lambda!r}"
        )
    after = np.zeros(rew.shape) if v_s_ is None else np.where(_by_row(terminated, rew), 0.0, _values(v_s_, "v_s_", rew))
    now = np.roll(after, 1, 0) if v_s is None else _values(v_s, "v_s", rew)
    errors = rew + gamma * after - now
    advantages = sums_ahead(errors, np.where(ends, 0.0, gamma * gae_lambda))
    returns = advantages + now
    return _like(returns, given.rew, keep=True), _like(advantages, given.rew, keep=True)


def sums_ahead(values: Floats, factors: Floats) -> Floats:
    """``y[t] = values[t] + factors[t] * y[t + 1]``, with 0 behind the end; ``(N, ...)`` and ``(N,)``.

    In rounds that double how far each row has looked, so that n rows take about log2 n operations on all of them.
    """
    total, reach, ahead = values.astype(np.float64), factors.astype(np.float64), 1
    reach[len(reach) - 1 :] = 0
    while ahead < len(total) and reach.any():
        more = _by_row(reach[:-ahead], total) * total[ahead:]
        more[reach[:-ahead] == 0] = 0  # even if it is not a number that stands behind the end of an episode
        total[:-ahead] += more
        reach[:-ahead] *= reach[ahead:]
        reach[len(reach) - ahead :] = 0
        ahead *= 2
    return total


def _open_ends(buffer: Buffer | None, indices: Any, rows: int) -> NDArray[np.bool_]:
    """The rows after which an unfinished episode is not known to go on."""
    if (buffer is None) != (indices is None):
        raise StructureError("buffer and indices are given together, or not at all")
    ends = np.zeros(rows, bool)
    ends[rows - 1 :] = buffer is None
    if buffer is None:
        return ends
    if len(indices) != rows:
        raise StructureError(f"{len(indices)} indices for a batch of {rows} rows")
    return np.isin(indices, in_whole(state_of(buffer), buffer.unfinished_index, indices))


def _values(values: Any, name: str, rew: NDArray[Any]) -> Floats:
    array = np.asarray(leaf_to_numpy(values), np.float64)
    if array.size != rew.size:
        raise StructureError(f"{name} has shape {list(array.shape)}, rewards have {list(rew.shape)}")
    return array.reshape(rew.shape)


def _by_row(values: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    """One value per row, so that it broadcasts over the other dimensions."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _like(values: Floats, given: Any, *, keep: bool = False) -> Any:
    """As a tensor like ``given``, or as an array: of its dtype if that is floating, unless doubles are to be kept."""
    if kind_of(given) is TENSOR:
        return to_torch_as(values, given if given.is_floating_point() else given.double())
    given = np.asarray(given)
    return values if keep or given.dtype.kind != "f" else values.astype(given.dtype, copy=False)
