"""Policies: what chooses actions for observations."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol

from gymnasium.vector import VectorEnv
from typing_extensions import TypeVar

from typedbatch._ops.conversion import no_grad, to_numpy
from typedbatch._spaces import nested, unnested
from typedbatch.batch import Batch
from typedbatch.protocols import ActBatchProtocol, ActStateBatchProtocol
from typedbatch.records import ActBatch, ObsBatch

A_co = TypeVar("A_co", bound=ActBatchProtocol[Any, Any], covariant=True)
AS_co = TypeVar("AS_co", bound=ActStateBatchProtocol[Any, Any], covariant=True)


class ObsStateBatch(ObsBatch):
    """Observations with the state that a recurrent policy has kept of the steps before."""

    state: Any
    """What the policy gave as ``state`` one step before, ``(N, ...)``; where an episode begins, the first state."""


class Policy(Protocol[A_co]):
    """What chooses actions: a function, or a method of an object, from observations to a batch with ``act``.

    It has a ``__name__``, as functions and methods have. A torch module is not one: its ``__call__`` takes and gives
    anything, and nothing could be checked; hand on a method of it.
    """

    @property
    def __name__(self) -> str: ...
    def __call__(self, batch: ObsBatch[Any, Any], /) -> A_co: ...


class RecurrentPolicy(Protocol[AS_co]):
    """A policy that gives a ``state`` besides, and is handed it in the next step, as ``batch.state``."""

    @property
    def __name__(self) -> str: ...
    def __call__(self, batch: ObsStateBatch, /) -> AS_co: ...


def random_policy(envs: VectorEnv[Any, Any, Any], seed: int | None = None) -> Policy[ActBatch]:
    """Actions of environments, each as likely as the other where the space has bounds.

    Args:
        envs: what the actions are for.
        seed: of the actions; None for different ones each time.
    """
    spaces = [deepcopy(envs.single_action_space) for _ in range(envs.num_envs)]
    for number, space in enumerate(spaces):
        space.seed(None if seed is None else seed + number)

    def draw(batch: ObsBatch[Any, Any]) -> ActBatch:
        rows = Batch.stack([Batch(act=nested(space.sample())) for space in spaces])
        return ActBatch(act=rows["act"])

    return draw


def compute_action(policy: Policy[ActBatchProtocol[Any, Any]], obs: Any, info: dict[str, Any] | None = None) -> Any:
    """The action for a single observation, as one environment takes it.

    Args:
        policy: what chooses.
        obs: an observation without a row dimension, as ``env.step()`` gives it: an array, a dict or a tuple of these.
        info: what came with it.

    Returns:
        An array without a row dimension, a numpy scalar, a dict or a tuple of these.
    """
    row = Batch.stack([Batch(obs=nested(obs))])
    with no_grad():
        out = policy(ObsBatch(obs=row["obs"], info=Batch() if not info else Batch.stack([Batch(info)])))
    return unnested(to_numpy(Batch(act=out.act))[0]["act"])
