"""Conversion of what Gymnasium environments return, single or in a vector, to batches. Memory is shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from typedbatch._core.depth import require_depth
from typedbatch._core.kinds import TENSOR, describe, kind_of
from typedbatch._space_values import nested, with_final
from typedbatch.batch import Batch
from typedbatch.errors import LeafError
from typedbatch.records import ObsBatch, RolloutBatch


def observations(reset: Any) -> ObsBatch:
    """Convert the result of ``env.reset()`` to a batch.

    Args:
        reset: The observation and the info. A dict or tuple of arrays becomes a nested batch; the fields of a tuple are
            named ``"0"``, ``"1"``, .... A vector returns observations that it cannot stack, such as texts and graphs,
            in a tuple as well: convert these to an object array first.

    Raises:
        LeafError: ``reset`` is not such a pair, or has values that a batch cannot hold.
        StructureError: dicts and tuples are nested more than 100 deep.
    """
    if not isinstance(reset, tuple) or len(reset) != 2 or not isinstance(reset[1], Mapping):
        raise LeafError(f"observations() takes the (obs, info) that env.reset() returns, got {describe(reset)}")
    obs, info = reset
    return ObsBatch(obs=nested(obs), info=_info(info))


def transitions(obs: Any, act: Any, step: Any) -> RolloutBatch:
    """Convert the result of ``env.step(act)`` to a batch with one row per environment.

    If the vector resets environments within the step (``AutoresetMode.SAME_STEP``), ``obs_next`` is the last
    observation of the episode that has ended, which gymnasium puts into the info, and not the first observation of the
    next episode. With ``AutoresetMode.NEXT_STEP``, the step after an end is not a step of the environment: leave its
    rows out by ``batch[~(before.terminated | before.truncated)]``.

    Args:
        obs: The observation that the action was chosen for.
        act: The action.
        step: ``(obs_next, rew, terminated, truncated, info)``.

    Returns:
        A record that shares the arrays. ``obs_next`` is a copy if final observations were put into it.

    Raises:
        LeafError: ``step`` is not such a tuple, or has values that a batch cannot hold.
        StructureError: an environment has ended, but its final observation is missing although the info announces one;
            or dicts and tuples are nested more than 100 deep.
    """
    if not isinstance(step, tuple) or len(step) != 5 or not isinstance(step[4], Mapping):
        raise LeafError(
            "transitions() takes the (obs, reward, terminated, truncated, info) that env.step() returns, "
            f"got {describe(step)}"
        )
    obs_next, *numbers, info = step
    for i, name in enumerate(("rew", "terminated", "truncated")):
        try:
            numbers[i] = numbers[i] if kind_of(numbers[i]) is TENSOR else np.asarray(numbers[i])
        except (TypeError, ValueError) as error:
            raise LeafError(f"{describe(numbers[i])} is not an array: {error}", name) from error
    rew, terminated, truncated = numbers
    return RolloutBatch(
        obs=nested(obs),
        act=nested(act),
        rew=rew,
        terminated=terminated,
        truncated=truncated,
        obs_next=with_final(nested(obs_next), info),
        info=_info({name: value for name, value in info.items() if name not in ("final_obs", "_final_obs")}),
    )


def _info(info: Mapping[str, Any]) -> Batch:
    require_depth(info, lambda value: value if isinstance(value, Mapping) else None)
    return Batch(dict(info))
