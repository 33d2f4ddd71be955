"""``audit``: a trace of one update, and replays of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typedbatch.audit.replays import PADDING, Replays
from typedbatch.audit.report import Report
from typedbatch.audit.session import Audit
from typedbatch.errors import SettingError


def audit(
    update: Callable[..., Any],
    *args: Any,
    replay: bool = True,
    vary: Mapping[str, Sequence[Any]] | None = None,
    skip: Collection[str] = (),
    allow: Collection[str] = (),
) -> Report:
    """Run one update, and report which laws of it do not hold.

    The update is replayed in copies of this process, on batches that differ in values outside masks, in padding, in the
    next observations of truncated rows, and in the rewards, advantages, actions and tokens of single rows. It then runs
    once under a trace, so that everything is as after one call.
    Replays need Linux and the CPU. They are for tests: files that the update writes to, and processes that it talks to,
    are not copied. In a test, write ``assert not audit(ppo.update, rollout).findings``.

    Args:
        update: Function that makes one update, with all its minibatches and optimizer steps.
        *args: Its arguments, as a rollout that was just collected. Batches are copied for replays.
        replay: Whether to replay the update, ten to thirty times.
        vary: Keyword arguments of the update that must not have an effect on a step, with the values to try, as in
            ``{"micro_batch": [2, 8]}``.
        skip: Codes, or names of codes, that are not reported: ``["wrong-ratio"]``.
        allow: Places that are not reported: ``["algo.py:77"]``.

    Returns:
        A report with findings, notes, and tables of what was read and learned.

    Raises:
        SettingError: ``skip`` has something else than codes, ``vary`` has no values, or an audit runs already.
    """
    for name, values in (vary or {}).items():
        if not values:
            raise SettingError(f"vary takes the values to try of each argument, got none for {name!r}")
    replays = Replays(update, args)
    if replay or vary:
        replays.run(vary or {})  # Before the update, which changes what they begin with.
    session = Audit(updates=1, on_finding="keep", skip=skip, allow=allow)
    session.call(update, *args)
    told = {finding.code for finding in session.report.findings}
    for finding in replays.findings:
        if finding.code in told:  # With a place, where the trace found it.
            continue
        is_told_by_id = finding.text == PADDING and session.compares_ids
        session.add(replace(finding, is_certain=False) if is_told_by_id else finding)
    return session.report
