"""n-step returns and generalized advantages of the rows of a buffer."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import TENSOR, describe, kind_of
from typedbatch._core.lengths import require_at_least
from typedbatch._ops.conversion import leaf_to_numpy, no_grad, to_numpy, to_torch_as
from typedbatch._ops.copying import shallow
from typedbatch._typing import ArrayOrTensor
from typedbatch.buffers.arguments import as_slots, number_of
from typedbatch.buffers.guard import call_locked
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import SettingError, StructureError
from typedbatch.protocols import BatchWithReturnsProtocol, RolloutBatchProtocol

K = TypeVar("K", bound="ArrayOrTensor")
Q = TypeVar("Q", bound="ArrayOrTensor")
Obs = TypeVar("Obs")
Act = TypeVar("Act")

Buffer = ReplayBuffer[Any, Any]
Floats = NDArray[np.floating[Any]]
_GET = ReplayBuffer.get  # a class may read fields in a way of its own


def compute_nstep_return(
    batch: RolloutBatchProtocol[K, Obs, Act],
    buffer: Buffer,
    indices: NDArray[np.integer[Any]],
    target_q_fn: Callable[[Buffer, NDArray[np.intp]], Q],
    gamma: float = 0.99,
    n_step: int = 1,
) -> BatchWithReturnsProtocol[K | Q, Obs, Act]:
    """Return the batch with a field ``returns``, the targets of Q-learning over ``n_step`` steps.

    ``returns[t] = rew[t] + gamma * rew[t + 1] + ... + gamma**m * target_q[t + m] * ~terminated[t + m - 1]``,
    where m is ``n_step``, or less if the episode, or its stored part, ends before.

    Args:
        batch: Rows of the buffer, ``buffer[indices]``; not modified.
        buffer: Buffer that the following rows are read from.
        indices: Slots of the rows, ``(N,)``.
        target_q_fn: Function that takes the buffer and slots, and returns the value of ``obs_next`` in these slots,
            ``(N,)`` or ``(N, heads)`` with several heads, array or tensor; called without gradients.
        gamma: Discount per step, in [0, 1].
        n_step: Number of steps, at least 1.

    Returns:
        A new batch that shares the fields of ``batch``. ``returns`` has the shape, dtype, kind and device of the
        result of ``target_q_fn``; those of several heads are not one number per step, and need a protocol of your
        own. If that is a tensor, ``weight`` becomes a tensor too, as in Tianshou.

    Raises:
        StructureError: ``batch``, ``indices`` and the result of ``target_q_fn`` differ in length; or the result is
            ``(N, 1)``, which is not flattened, for rewards of ``(N,)``.
        SizeError: ``n_step`` is below 1.
        SettingError: ``gamma`` is not in [0, 1].
        RowIndexError: A slot does not exist, or holds no row, or another one than when it was sampled.
    """
    n_step, gamma = require_at_least(1, n_step, "n_step"), number_of(gamma, "gamma", 0, 1)
    ahead = look_ahead(batch, buffer, indices, n_step, len(batch))
    with no_grad():
        target_q: Any = state_of(buffer).call_for_rows(partial(target_q_fn, buffer, ahead.last), ahead.last, ahead.rows)
    targets = nstep_targets(ahead, target_q, gamma)
    given: Any = batch
    out: Any = shallow(given)
    out.__dict__["returns"] = _like(targets, target_q)
    if "weight" in out.__dict__ and kind_of(target_q) is TENSOR:
        out.__dict__["weight"] = to_torch_as(out.__dict__["weight"], target_q)
    result: BatchWithReturnsProtocol[K | Q, Obs, Act] = out
    return result


class Ahead(NamedTuple):
    """The steps that rows look ahead to. After the end of an episode, its last slot is repeated."""

    rows: Slots
    """Slots of the rows."""
    last: Slots
    """Slots of the last step."""
    continues: list[NDArray[np.bool_]]
    """Masks of the rows whose episode goes on after the step, for each step but the last."""
    rew: list[Floats]
    """Rewards of each step."""
    terminated: NDArray[np.bool_]
    """Flags of the last step."""
    obs_next: Any
    """Observations after the last step, with stacked frames, or None if they were not asked for."""


def look_ahead(batch: Any, buffer: Buffer, indices: Any, steps: int, rows: int, *, obs_next: bool = False) -> Ahead:
    """Return the steps of the rows and those after them, ``steps`` in all, or fewer if every episode ends before."""
    state = state_of(buffer)
    get: Any = buffer.get
    by_get = obs_next and state.save_obs_next and getattr(get, "__func__", None) is not _GET
    ahead = call_locked(state, lambda: _read_ahead(state, indices, steps, obs_next and not by_get), indices)
    if len(ahead.last) != rows:
        raise StructureError(f"one index for each of {rows} rows is expected, got {len(ahead.last)}")
    if not by_get:
        return ahead
    obs = state.call_for_rows(partial(get, ahead.last, "obs_next"), ahead.last, ahead.rows)
    return ahead._replace(obs_next=obs)


def _read_ahead(state: State, indices: Any, steps: int, obs_next: bool) -> Ahead:
    rows = as_slots(state.rings, indices)
    slots, continues = state.ahead(rows, steps)
    rew = state.columns.__dict__["rew"]
    # In a hindsight buffer, read() returns rewards and flags for the goals of the rows.
    earned = [leaf_to_numpy(state.read("rew", rew, each, rows)) for each in slots]
    last = slots[-1]
    terminated = leaf_to_numpy(state.read("terminated", state.column("terminated"), last, rows))
    return Ahead(rows, last, continues, earned, terminated, state.obs_next(last, rows) if obs_next else None)


def nstep_targets(ahead: Ahead, target_q: Any, gamma: float) -> Floats:
    """Return the targets of :func:`compute_nstep_return` as an array."""
    _, _, continues, earned, terminated, _ = ahead
    values = target_q if type(target_q) is ndarray else np.asarray(to_numpy(target_q))
    if values.shape[:1] != terminated.shape:
        text = f"target_q_fn must return a value for each of {len(terminated)} slots, got {describe(target_q)}"
        raise StructureError(text)
    if values.shape == (*earned[0].shape, 1):
        raise StructureError(
            f"target_q_fn must return one value for each reward, shape {[*earned[0].shape]}, or one for each of "
            f"several heads, got {describe(target_q)}; squeeze(-1) removes the last axis"
        )
    total = values
    if values.ndim > 1 or earned[0].ndim > 1:
        total, terminated = _by_columns(values), terminated[:, None]
        earned, continues = [_by_columns(rew) for rew in earned], [mask[:, None] for mask in continues]
        if earned[0].shape[1:] not in ((1,), total.shape[1:]):
            raise StructureError(
                f"target_q_fn must return values that fit rewards of shape {list(ahead.rew[0].shape)}, "
                f"got {describe(target_q)}"
            )
    total = earned[-1] + gamma * np.where(terminated, np.float64(0), total)
    for rew, go_on in zip(reversed(earned[:-1]), reversed(continues), strict=True):
        total = np.where(go_on, rew + gamma * total, total)
    return total.reshape(values.shape)


def _by_columns(values: Floats) -> Floats:
    """Reshape values to ``(N, heads)``."""
    return values.reshape(len(values), math.prod(values.shape[1:]))


def compute_episodic_return(
    batch: RolloutBatchProtocol[K, Obs, Act],
    buffer: Buffer | None = None,
    indices: NDArray[np.integer[Any]] | None = None,
    v_s_: ArrayOrTensor | None = None,
    v_s: ArrayOrTensor | None = None,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
) -> tuple[K, K]:
    """Return returns and generalized advantages (arXiv:1506.02438) of episodes in time order.

    ``adv[t] = delta[t] + gamma * gae_lambda * adv[t + 1]`` with ``delta[t] = rew[t] + gamma * v_s_[t] - v_s[t]``, up to
    the end of each episode; the returns are ``adv[t] + v_s[t]``. If an episode was truncated or is unfinished, the
    value of its last ``obs_next`` counts; if it was terminated, that value is 0. Without values and with
    ``gae_lambda=1``, the returns are the discounted sums of rewards.

    Args:
        batch: Rows in time order, one episode after another.
        buffer: Buffer of ``indices``; its unfinished episodes end with their last row. Without a buffer, an unfinished
            episode ends with the batch.
        indices: Slots of ``batch``, which is ``buffer[indices]``.
        v_s_: Value of ``obs_next``, of the shape of ``rew``, array or tensor; None for zeros.
        v_s: Value of ``obs``; None for ``v_s_`` of the row before, which is right only inside of episodes.
        gamma: Discount per step, in [0, 1].
        gae_lambda: Weight of later steps, from 0 (one-step errors) to 1 (whole episodes).

    Returns:
        Returns and advantages, of the shape of ``rew``: float64 arrays if that is an array, else tensors like it.

    Raises:
        StructureError: Values and rewards differ in shape, as ``(N, 1)`` and ``(N,)`` do; or ``indices`` and rewards in
            length; or only one of ``buffer`` and ``indices`` is passed.
        RowIndexError: A slot does not exist, or holds no row, or another one than when it was sampled.
        SettingError: ``gamma`` or ``gae_lambda`` is not in [0, 1]; or ``v_s_`` is missing, although ``gae_lambda`` is
            not 1 (an ``AssertionError`` in Tianshou).
    """
    gamma, gae_lambda = number_of(gamma, "gamma", 0, 1), number_of(gae_lambda, "gae_lambda", 0, 1)
    given: Any = batch
    rew = np.asarray(leaf_to_numpy(given.rew))
    terminated = np.asarray(leaf_to_numpy(given.terminated), bool)
    ends = terminated | np.asarray(leaf_to_numpy(given.truncated), bool)
    if (buffer is None) != (indices is None):
        raise StructureError("buffer and indices must be passed together, got only one of them")
    if buffer is None or indices is None:
        ends |= np.arange(len(rew)) == len(rew) - 1
    elif len(indices) != len(rew):
        raise StructureError(f"one index for each of {len(rew)} rows is expected, got {len(indices)}")
    else:
        state = state_of(buffer)
        with state.guard.lock:
            call_locked(state, lambda: as_slots(state.rings, indices), indices)  # raises if rows were overwritten
            ends |= np.isin(indices, call_locked(state, buffer.unfinished_index, indices))
    if v_s_ is None and not np.isclose(gae_lambda, 1.0):
        text = f"without v_s_=, the value of obs_next, gae_lambda must be 1, got {gae_lambda!r}; pass v_s_="
        raise SettingError(text)
    after = np.zeros(rew.shape) if v_s_ is None else _values(v_s_, "v_s_", rew).copy()
    after[terminated] = 0
    now = np.roll(after, 1, 0) if v_s is None else _values(v_s, "v_s", rew)
    errors = rew + gamma * after - now
    advantages = sums_ahead(errors, np.where(ends, 0.0, gamma * gae_lambda))
    returns = advantages + now
    return _like(returns, given.rew, keep=True), _like(advantages, given.rew, keep=True)


def sums_ahead(values: Floats, factors: Floats) -> Floats:
    """Return ``y`` with ``y[t] = values[t] + factors[t] * y[t + 1]``, where ``y`` is 0 after the end.

    Values are ``(N, ...)``, factors ``(N,)``. Each round doubles the number of rows that a sum reaches ahead, so n rows
    take about log2 n vector operations.
    """
    total, reach, ahead = values.astype(np.float64), factors.astype(np.float64), 1
    reach[len(reach) - 1 :] = 0
    while ahead < len(total) and reach.any():
        more = reach[:-ahead].reshape(-1, *[1] * (total.ndim - 1)) * total[ahead:]
        more[reach[:-ahead] == 0] = 0  # a NaN or infinity of another episode must not leak as 0 * NaN
        total[:-ahead] += more
        reach[:-ahead] *= reach[ahead:]
        reach[len(reach) - ahead :] = 0
        ahead *= 2
    return total


def _values(values: Any, name: str, rew: NDArray[Any]) -> Floats:
    """Return values as a float64 array of the shape of the rewards."""
    array = np.asarray(leaf_to_numpy(values), np.float64)
    if array.shape != rew.shape:
        hint = f"; {name}.squeeze(-1) has it" if array.shape == (*rew.shape, 1) else ""
        raise StructureError(f"{name} must have shape {[*rew.shape]}, as rewards have, got {[*array.shape]}{hint}")
    return array


def _like(values: Floats, given: Any, *, keep: bool = False) -> Any:
    """Convert values to the kind, device and floating dtype of ``given``; ``keep`` leaves an array float64."""
    if kind_of(given) is TENSOR:
        return to_torch_as(values, given if given.is_floating_point() else given.double())
    given = np.asarray(given)
    return values if keep or given.dtype.kind != "f" else values.astype(given.dtype, copy=False)


def per_row(values: Any, rew: Any, who: str) -> NDArray[Any]:
    """Return values, one for each reward, as an array of the shape of the rewards, without a last axis of 1."""
    array = np.asarray(leaf_to_numpy(values))
    shape = tuple(rew.shape)
    if array.shape == shape:
        return array
    if array.shape != (*shape, 1):
        raise StructureError(f"{who} must return one value for each reward, shape {[*shape]}, got {describe(values)}")
    return array.reshape(shape)
