"""What gymnasium's environments give, single or in a vector, as batches. Memory is shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from typedbatch._spaces import nested, with_final
from typedbatch._tree.depth import require_depth
from typedbatch._tree.leaves import TENSOR, describe, kind_of
from typedbatch.batch import Batch
from typedbatch.errors import LeafError
from typedbatch.records import ObsBatch, RolloutBatch

_FINAL = ("final_obs", "_final_obs")


def observations(reset: Any) -> ObsBatch:
    """What ``env.reset()`` returns.

    Args:
        reset: the observation and the info. A dict or tuple of arrays becomes a nested batch, fields of a tuple are
            called ``"0"``, ``"1"``, .... A vector gives observations that it cannot stack, as texts and graphs, in a
            tuple too: put them into an object array before.

    Raises:
        LeafError: something else, or values that no batch holds.
        StructureError: dicts and tuples that are nested more than 100 deep.
    """
    if not isinstance(reset, tuple) or len(reset) != 2 or not isinstance(reset[1], Mapping):
        raise LeafError(f"env.reset() returns (obs, info), got {describe(reset)}")
    obs, info = reset
    return ObsBatch(obs=nested(obs), info=_info(info))


def transitions(obs: Any, act: Any, step: Any) -> RolloutBatch:
    """What ``env.step(act)`` returns, beside the observation that the action was for: one row per environment.

    Where the vector resets environments within the step (``AutoresetMode.SAME_STEP``), ``obs_next`` is the last
    observation of the episode that has ended, which gymnasium hides in the info, and not the first of the next one. In
    ``AutoresetMode.NEXT_STEP`` the step after an end is none of the environment: leave its rows out, with
    ``batch[~(before.terminated | before.truncated)]``.

    Args:
        obs: what the action was chosen for.
        act: the action.
        step: ``(obs_next, rew, terminated, truncated, info)``.

    Returns:
        A record whose arrays are those that were given; ``obs_next`` is a copy if something was put into it.

    Raises:
        LeafError: ``step`` is something else, or holds values that no batch holds.
        StructureError: an environment has ended, and there is no last observation of it where one is announced;
            or dicts and tuples that are nested more than 100 deep.
    """
    if not isinstance(step, tuple) or len(step) != 5 or not isinstance(step[4], Mapping):
        raise LeafError(f"env.step() returns (obs, reward, terminated, truncated, info), got {describe(step)}")
    obs_next, rew, terminated, truncated, info = step
    return RolloutBatch(
        obs=nested(obs),
        act=nested(act),
        rew=_numbers("rew", rew),
        terminated=_numbers("terminated", terminated),
        truncated=_numbers("truncated", truncated),
        obs_next=with_final(nested(obs_next), info),
        info=_info({name: value for name, value in info.items() if name not in _FINAL}),
    )


def _info(info: Mapping[str, Any]) -> Batch:
    require_depth(info, lambda value: value if isinstance(value, Mapping) else None)
    return Batch(dict(info))


def _numbers(name: str, value: Any) -> Any:
    if kind_of(value) is TENSOR:
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise LeafError(f"{describe(value)} is not an array: {error}", name) from error
