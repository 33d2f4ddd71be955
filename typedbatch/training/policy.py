"""Policies: protocols for functions that choose actions, a random policy, and actions for single observations."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol, TypeAlias, overload

from gymnasium.vector import VectorEnv
from typing_extensions import TypeVar

from typedbatch._ops.conversion import no_grad, to_numpy
from typedbatch._space_values import nested, unnested
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
    """Observations with the state of a recurrent policy."""

    state: Any
    """The ``state`` that the policy returned in the previous step, ``(N, ...)``; the initial state in new episodes."""


class Policy(Protocol[A_co, Obs_contra]):
    """A function or method that chooses actions: it takes observations, and returns a batch with ``act``.

    The second type parameter is the type of its argument, an ``ObsBatch``. If that declares nested observations, so do
    the rollouts that are collected with the policy.

    The protocol requires a ``__name__``, which functions and methods have. This excludes torch modules, whose
    ``__call__`` has no useful types, so that nothing could be checked. Pass a method of the module instead.
    """

    @property
    def __name__(self) -> str: ...
    def __call__(self, batch: Obs_contra, /) -> A_co: ...


ArrayPolicy: TypeAlias = Policy[A, ObsBatch[Array, Obs]] | Policy[A, ObsBatchProtocol[Array, Obs]]
"""A policy for numpy observations, which are arrays or nested batches; it may take the record or the protocol."""


class RecurrentPolicy(Protocol[AS_co]):
    """A policy that also returns a ``state``, which it gets back in the next step as ``batch.state``."""

    @property
    def __name__(self) -> str: ...
    def __call__(self, batch: ObsStateBatch, /) -> AS_co: ...


def random_policy(envs: VectorEnv[Any, Any, Any], seed: int | None = None) -> Policy[ActBatch]:
    """Return a policy that samples actions from the action space, uniformly if the space is bounded.

    Args:
        envs: Environments to act in.
        seed: Seed of the actions; None for different actions each time.
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
    """Compute the action for a single observation, in the form that a single environment takes.

    Args:
        policy: Policy to call.
        obs: Observation without a row dimension, as ``env.step()`` returns it: an array, or a dict or tuple of arrays.
        info: Info that came with the observation.
        state: State that a recurrent policy returned in the previous step, or its initial state, without a row
            dimension.

    Returns:
        The action, without a row dimension: an array, a numpy scalar, or a dict or tuple of these. With ``state``, a
        pair of the action and the state for the next step.
    """
    given = {"obs": nested(obs)} if state is None else {"obs": nested(obs), "state": state}
    row = Batch.stack([Batch(given)])
    infos = Batch() if not info else Batch.stack([Batch(info)])
    with_state = {} if state is None else {"state": row["state"]}
    with no_grad():
        out = policy((ObsBatch if state is None else ObsStateBatch)(obs=row["obs"], info=infos, **with_state))
    act = unnested(to_numpy(Batch(act=out.act))[0]["act"])
    return act if state is None else (act, Batch(state=out.state)[0]["state"])
