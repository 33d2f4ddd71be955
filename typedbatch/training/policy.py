"""Policies: what chooses actions for observations."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol, TypeAlias, overload

from gymnasium.vector import VectorEnv
from typing_extensions import TypeVar

from typedbatch._ops.conversion import no_grad, to_numpy
from typedbatch._spaces import nested, unnested
from typedbatch._typing import Array
from typedbatch.batch import Batch
from typedbatch.protocols import ActBatchProtocol, ActStateBatchProtocol, ObsBatchProtocol
from typedbatch.records import ActBatch, ObsBatch

A = TypeVar("A", bound=ActBatchProtocol[Any, Any])
A_co = TypeVar("A_co", bound=ActBatchProtocol[Any, Any], covariant=True)
Obs = TypeVar("Obs", default=Array)
Obs_contra = TypeVar("Obs_contra", contravariant=True, default=ObsBatch[Any, Any])
AS_co = TypeVar("AS_co", bound=ActStateBatchProtocol[Any, Any], covariant=True)


class ObsStateBatch(ObsBatch):
    """Observations with the state that a recurrent policy has kept of the steps before."""

    state: Any
    """What the policy gave as ``state`` one step before, ``(N, ...)``; where an episode begins, the first state."""


class Policy(Protocol[A_co, Obs_contra]):
    """What chooses actions: a function, or a method of an object, from observations to a batch with ``act``.

    The second parameter is what it takes: an ``ObsBatch``. Where that says which nested observations it has, so do the
    rollouts that are collected with it.

    It has a ``__name__``, as functions and methods have. A torch module is not one: its ``__call__`` takes and gives
    anything, and nothing could be checked; hand on a method of it.
    """

    @property
    def __name__(self) -> str: ...
    def __call__(self, batch: Obs_contra, /) -> A_co: ...


ArrayPolicy: TypeAlias = Policy[A, ObsBatch[Array, Obs]] | Policy[A, ObsBatchProtocol[Array, Obs]]
"""A policy for observations of numpy, arrays or nested batches of a type; it may ask for the record or the protocol."""


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


@overload
def compute_action(policy: Policy[ActBatchProtocol[Any, Any]], obs: Any, info: dict[str, Any] | None = ...) -> Any: ...
@overload
def compute_action(
    policy: RecurrentPolicy[ActStateBatchProtocol[Any, Any]], obs: Any, info: dict[str, Any] | None = ..., *, state: Any
) -> tuple[Any, Any]: ...
def compute_action(policy: Any, obs: Any, info: dict[str, Any] | None = None, *, state: Any = None) -> Any:
    """The action for a single observation, as one environment takes it.

    Args:
        policy: what chooses.
        obs: an observation without a row dimension, as ``env.step()`` gives it: an array, a dict or a tuple of these.
        info: what came with it.
        state: what a recurrent policy gave in the step before, or its state at the beginning of an episode: one row,
            without a row dimension.

    Returns:
        An array without a row dimension, a numpy scalar, a dict or a tuple of these. With ``state``, that and the
        state to be handed on in the next step.
    """
    given = {"obs": nested(obs)} if state is None else {"obs": nested(obs), "state": state}
    row = Batch.stack([Batch(given)])
    said = Batch() if not info else Batch.stack([Batch(info)])
    with no_grad():
        if state is None:
            out = policy(ObsBatch(obs=row["obs"], info=said))
        else:
            out = policy(ObsStateBatch(obs=row["obs"], info=said, state=row["state"]))
    act = unnested(to_numpy(Batch(act=out.act))[0]["act"])
    return act if state is None else (act, Batch(state=out.state)[0]["state"])
