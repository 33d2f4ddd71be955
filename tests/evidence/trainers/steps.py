"""Steps of several environments, as the PPO of robots and games collects them, and the audits of such a trainer."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

LENGTH, ENVS, FEATURES, GAMMA, LAM = 32, 2, 4, 0.99, 0.95


def steps(**columns: Any) -> Any:
    """Return steps ``(LENGTH, ENVS)`` with episodes that are terminated or truncated, and more columns of numbers."""
    generator = torch.Generator().manual_seed(0)
    obs, after = torch.randn(2, LENGTH, ENVS, FEATURES, generator=generator)
    chance, rew = torch.rand(LENGTH, ENVS, generator=generator), torch.randn(LENGTH, ENVS, generator=generator)
    terminated, truncated = chance < 0.1, chance > 0.85
    terminated[-1], truncated[-1] = False, False
    after[:-1] = torch.where((terminated | truncated)[:-1, :, None], after[:-1], obs[1:])
    more = {name: value.reshape(LENGTH, ENVS) for name, value in columns.items()}
    return Batch(obs=obs, obs_next=after, rew=rew, terminated=terminated, truncated=truncated, **more)


def flat(batch: Any) -> Any:
    """Return a batch with a row for each step of each environment."""
    return Batch({name: value.flatten(0, 1) for name, value in batch.items()})


def reports_of(make: Callable[[], Any]) -> Iterator[tuple[str, Report]]:
    """Yield the reports of a PPO: of its advantages by the values that steps have, of its update alone, and of both.

    Some normalize advantages at once, and none the returns.
    """
    ppo, settings = make(), {"gamma": GAMMA, "lam": LAM}
    batch = ppo.rollout()
    yield "advantages", audit_stage(lambda one: ppo.graded(one).returns - one.v_s, batch, like="gae", settings=settings)
    yield "update", audit(ppo.update, flat(ppo.graded(batch)), on_policy=True, like="ppo_clip")
    ppo = make()
    yield "advantages and update", audit(ppo.grade_and_update, ppo.rollout(), on_policy=True)
