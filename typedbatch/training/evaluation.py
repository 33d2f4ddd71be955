"""``evaluate``, which runs whole episodes and returns their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from typedbatch.protocols import ActBatchProtocol
from typedbatch.training.collector import Collector
from typedbatch.training.env_vector import AnyEnvs
from typedbatch.training.policy import Policy
from typedbatch.training.stats import CollectStats


def evaluate(
    envs: AnyEnvs | Callable[[], AnyEnvs],
    policy: Policy[ActBatchProtocol[Any, Any]],
    n_episode: int,
    *,
    seed: int | None = None,
    infos: Sequence[str] = (),
) -> CollectStats:
    """Reset environments, run ``n_episode`` whole episodes and return their returns and lengths.

    Each environment contributes an equal share, so short episodes are not overrepresented. A Collector of the same
    environments begins new episodes at its next call.

    Args:
        envs: Vector of environments, a single one, or a function that creates either.
        policy: Policy that chooses the actions; it is called without gradients.
        n_episode: Number of episodes.
        seed: Seed of the first environment; the others get ``seed + 1`` and so on.
        infos: Names in the info of the environments that the policy gets in ``batch.info``.

    Raises:
        SizeError: ``n_episode`` is below 1.
        EnvironmentFailedError: an environment has raised an error.
    """
    return Collector(envs, policy, infos=infos).evaluate(n_episode, seed)
