"""Markers in ``Annotated``: one number per step, axes of the steps first, no gradient, and the role of a field.

The shipped protocols and records carry them::

    rew: Annotated[K_co, PerStep]
    terminated: Annotated[K_co, Flag]
    obs: Annotated[Obs_co, StepsFirst]
    adv: Annotated[K_co, PerStep, NoGradient]
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class PerStep:
    """Marker in ``Annotated`` for a field with one number per step, as ``rew``.

    All such fields of a batch have one shape: ``(N,)``, or ``(T, N)`` or ``(N, T)`` with an axis of time. So ``(N, 1)``
    beside ``(N,)`` is refused, which would otherwise broadcast to ``(N, N)`` in a loss.

    A field with several numbers per step, as the rewards of several objectives, is declared again without the marker::

        class VectorRollout(RolloutBatch):
            rew: NDArray[Any]
    """


class Flag(PerStep):
    """Marker in ``Annotated`` for a field with one flag per step, of dtype bool, as ``terminated``.

    A kind of array that declares its dtype, as ``RolloutBatch[NDArray[np.float32]]``, keeps that dtype.
    """


class StepsFirst:
    """Marker in ``Annotated`` for a field whose shape begins with that of one number per step, as ``obs``.

    The same holds for each leaf of a nested batch.
    """


class Steps(Enum):
    """The relation of a field to the steps."""

    NONE = "unmarked"
    ONE = "one number per step"
    FIRST = "begins with the axes of the steps"


def steps_in(metadata: Iterable[object]) -> tuple[Steps, bool]:
    """Return the relation of a field to the steps by the metadata of its annotation, and whether it holds flags."""
    marks = [mark if isinstance(mark, type) else type(mark) for mark in metadata]
    if any(issubclass(mark, PerStep) for mark in marks):
        return Steps.ONE, any(issubclass(mark, Flag) for mark in marks)
    return (Steps.FIRST if any(issubclass(mark, StepsFirst) for mark in marks) else Steps.NONE), False


class Role(Enum):
    """Marker in ``Annotated`` for what a field is, whatever its name: ``Annotated[K_co, Role.ADVANTAGE]``.

    Audits ask for it. A field without one has the role of its name, as ``adv``, ``advantages`` and ``advs`` have.
    """

    OBS = "obs"
    NEXT_OBS = "next_obs"
    ACTION = "action"
    REWARD = "reward"
    SCORE = "score"
    TERMINATED = "terminated"
    TRUNCATED = "truncated"
    RETURN = "return"
    ADVANTAGE = "advantage"
    OLD_LOGP = "old_logp"
    ROLLOUT_LOGP = "rollout_logp"
    REF_LOGP = "ref_logp"
    WEIGHT = "weight"
    GROUP = "group"
    LOSS_MASK = "loss_mask"
    RESPONSE_MASK = "response_mask"
    RESPONSE_IDS = "response_ids"


def role_in(metadata: Iterable[object]) -> Role | None:
    """Return the first role in the metadata of an annotation, or None."""
    return next((mark for mark in metadata if isinstance(mark, Role)), None)


class NoGradient:
    """Marker in ``Annotated`` for a field whose tensors carry no gradient, as ``adv``.

    Such a field is a target, or a weight, that a loss must not change to become smaller: returns, advantages, the
    log-probabilities of the sampling policy. ``validate`` refuses a tensor that requires a gradient.
    """


def has_no_gradient(metadata: Iterable[object]) -> bool:
    """Return whether the metadata of an annotation has the marker ``NoGradient``."""
    return any(mark is NoGradient or type(mark) is NoGradient for mark in metadata)
