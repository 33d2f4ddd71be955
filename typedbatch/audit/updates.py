"""``audit``: a trace of one update, and replays of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from typedbatch.audit.objects import Objects
from typedbatch.audit.replays import Replays
from typedbatch.audit.report import Report
from typedbatch.audit.session import Audit, variables_in_call
from typedbatch.audit.snapshot import snapshot


def audit(
    update: Callable[..., Any],
    *args: Any,
    replay: bool = True,
    vary: Mapping[str, Sequence[Any]] | None = None,
    skip: Collection[str] = (),
    allow: Collection[str] = (),
) -> Report:
    """Run one update, and report which laws of it do not hold.

    The update runs once under a trace. It is then replayed from the state before it, on batches that differ in values
    outside masks, in padding, and in the next observations of truncated rows. Afterwards modules, optimizers and random
    states are as after one call. Buffers and environments that the update changes are not restored. In a test, write
    ``assert not audit(ppo.update, rollout).findings``.

    Args:
        update: Function that makes one update, with all its minibatches and optimizer steps.
        *args: Its arguments, as a rollout that was just collected. Batches are copied for replays.
        replay: Whether to replay the update, about ten times.
        vary: Keyword arguments of the update that must not have an effect on a step, with the values to try, as in
            ``{"micro_batch": [2, 8]}``.
        skip: Codes, or names of codes, that are not reported: ``["wrong-ratio"]``.
        allow: Places that are not reported: ``["algo.py:77"]``.

    Returns:
        A report with findings, notes, and tables of what was read and learned.

    Raises:
        SettingError: ``skip`` has something else than codes, or the update is being audited already.
    """
    objects = Objects(variables_in_call(update, args))
    before = snapshot(objects) if replay or vary else None
    session = Audit(updates=1, on_finding="keep", skip=skip, allow=allow)
    session.call(update, *args)
    report = session.report
    if before is not None:
        after = snapshot(objects)
        replays = Replays(update, args, before, report, objects.all_parameters)
        replays.compares_ids = session.compares_ids
        try:
            replays.run(vary or {})
        finally:
            after()
    return report
