"""``Audit``: the trace of a block, and how its findings are reported; ``audit``: one update with its replays."""

from __future__ import annotations

import inspect
import sys
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Literal, TypeVar, get_args

from typedbatch._core.kinds import BATCH, kind_of
from typedbatch._core.lengths import require_at_least
from typedbatch._markers import Role
from typedbatch.audit.checks import CHECKS
from typedbatch.audit.comparison import formula_of
from typedbatch.audit.objects import Objects, variables_of
from typedbatch.audit.replays import PADDING, Replays
from typedbatch.audit.report import AuditCode, Finding, Report
from typedbatch.audit.roles import Roles
from typedbatch.audit.trace import Trace
from typedbatch.audit.update_comparison import compare_update
from typedbatch.errors import SettingError, TypedBatchError

T = TypeVar("T")

OnFinding = Literal["warn", "raise", "keep"]
_NAMES: Final = frozenset(part for code in get_args(AuditCode) for part in (*code.split(), code))
_GIVEN: Final[dict[int, weakref.ref[Any]]] = {}
"""Batches that updates were given, by their ids."""


class AuditError(TypedBatchError, AssertionError):
    """A law of an update does not hold; ``report`` has the findings.

    Args:
        report: Report of the audit.
    """

    def __init__(self, report: Report) -> None:
        self.report: Report = report
        super().__init__("\n".join(map(str, report.findings)))

    def __reduce__(self) -> Any:
        return type(self), (self.report,)


class AuditWarning(UserWarning):
    """Findings of an audit."""


class Audit:
    """An audit of the updates in a block: ``with Audit() as audit: step()``.

    Only the thread of the block is traced, with its operations of torch, reads of batches, backward passes and steps of
    optimizers. The results of the block are those that it has without an audit. Nothing is patched after it. Compiled
    functions run as they are written, and are seen. Operations of numpy are not.

    Args:
        updates: Number of blocks that are traced; further ones run without a trace. Some mistakes show only in the
            second update, as the first one begins with fresh networks.
        on_finding: ``"warn"`` warns at the end of a block, ``"raise"`` raises an :class:`AuditError`, ``"keep"`` does
            neither.
        skip: Codes, or names of codes, that are not reported: ``["TB501"]`` or ``["wrong-ratio"]``.
        allow: Places that are not reported: ``["algo.py:77"]``.
        on_policy: Whether batches are certainly samples of the policy as it is before the first step, so that any ratio
            but 1 is a finding. Otherwise it is a note where the samples may be those of an older policy.
        roles: Roles of fields by their names, as ``{"pg_adv": "advantage"}``, beside those that classes declare by
            ``Annotated[..., Role.ADVANTAGE]``; see :class:`~typedbatch.Role`.

    Raises:
        SettingError: ``updates`` is below 1, or ``on_finding`` or ``skip`` has another value.
    """

    def __init__(
        self,
        *,
        updates: int = 2,
        on_finding: OnFinding = "warn",
        skip: Collection[str] = (),
        allow: Collection[str] = (),
        on_policy: bool = False,
        roles: Mapping[str, Role | str] | None = None,
    ) -> None:
        if on_finding not in get_args(OnFinding):
            raise SettingError(f"on_finding must be one of {', '.join(get_args(OnFinding))}, got {on_finding!r}")
        for name in (skip,) if isinstance(skip, str) else skip:
            if name not in _NAMES:
                raise SettingError(f"skip takes codes such as 'TB501' or 'wrong-ratio', got {name!r}")
        self.updates: int = require_at_least(1, updates, "updates")
        self.on_finding: OnFinding = on_finding
        self.on_policy: bool = on_policy
        self.report: Report = Report()
        """Report of all blocks so far."""
        self.roles: Roles = Roles(roles)
        self._skip = frozenset(name.split()[0] for name in ((skip,) if isinstance(skip, str) else skip))
        self._allow = frozenset((allow,) if isinstance(allow, str) else allow)
        self.compares_ids: bool = False
        """Whether a block compared ids of tokens with something, as to find padding."""
        self._had_right_ratio = False
        self._done = 0
        self._block: ExitStack | None = None
        self._trace: Trace | None = None

    @property
    def is_done(self) -> bool:
        """Whether further blocks run without a trace."""
        return self._done >= self.updates

    @property
    def is_running(self) -> bool:
        """Whether a block is traced now."""
        return self._block is not None

    def __enter__(self) -> Audit:
        """Begin to trace.

        Raises:
            SettingError: A block of an audit runs in this thread already.
        """
        frame = sys._getframe(1)
        named = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
        self._begin({**frame.f_locals, **named})
        return self

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in a block of the audit, and return its result.

        Modules and optimizers are named by the variables of the function.

        Raises:
            SettingError: A block of an audit runs already, or the function is async or a generator.
            AuditError: There are findings, and ``on_finding`` is ``"raise"``.
        """
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise SettingError("an update that is async or a generator does nothing when it is called; pass a function")
        before = self._block
        self.roles.learn_call(function, args)
        try:
            self._begin(variables_in_call(function, args), args)
            result = function(*args)
            self.__exit__(None, None, None)
        except BaseException as error:
            if self._block is not before:  # An interrupt may come before or after the block, or while it ends.
                self.__exit__(type(error), error, error.__traceback__)
            raise
        return result

    def add(self, finding: Finding) -> None:
        """Add a finding to the report, unless it is skipped."""
        if not self._skip & set(finding.code.split()):
            self.report.add(finding)

    def _begin(self, variables: dict[str, Any], given: tuple[Any, ...] = ()) -> None:
        if self.is_done:
            return
        if any(session.is_running for session in _ACTIVE):
            raise SettingError("an audit runs already; one update cannot be audited twice at once")
        trace = Trace(CHECKS, Objects(variables), self.roles, skip=self._skip, allow=self._allow)
        for value in variables.values():
            if kind_of(value) is BATCH:
                trace.origins.register(value)
                trace.is_replayed = trace.is_replayed or _is_known(value)
        trace.follows, trace.is_on_policy = self._had_right_ratio, self.on_policy
        trace.given.update(trace.origins.register(value) for value in given if kind_of(value) is BATCH)
        block = ExitStack()
        try:
            _ACTIVE[:] = [self]
            self._trace, self._block = trace, block
            block.enter_context(trace.recording())
        except BaseException:
            self._trace = self._block = None
            block.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the trace, and warn of findings or raise them.

        Raises:
            AuditError: There are findings, and ``on_finding`` is ``"raise"``.
        """
        block, traced = self._block, self._trace
        if block is None or traced is None:
            return
        try:
            block.__exit__(kind, error, trace)
        finally:
            self._block = self._trace = None
            self._done += 1
        before = len(self.report.findings)
        self.report.merge(traced.report)
        self.compares_ids = self.compares_ids or traced.compares_ids
        self._had_right_ratio = self._had_right_ratio or traced.has_right_ratio
        new = self.report.findings[before:]
        if error is not None or not new or self.on_finding == "keep":
            return
        if self.on_finding == "raise":
            raise AuditError(self.report)
        warnings.warn("\n".join(map(str, new)), AuditWarning, stacklevel=2)


def _is_known(batch: Any) -> bool:
    """Return True if an update was given this batch before, and remember it."""
    key = id(batch)
    before = _GIVEN.get(key)
    _GIVEN[key] = weakref.ref(batch, lambda _: _GIVEN.pop(key, None))
    return before is not None and before() is batch


_ACTIVE: Final[list[Audit]] = []


def variables_in_call(function: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """Return the objects that a call can use, by name."""
    names = getattr(getattr(function, "__code__", None), "co_varnames", ())
    offset = 1 if hasattr(function, "__self__") else 0
    given = {(names[n + offset] if n + offset < len(names) else f"argument {n}"): arg for n, arg in enumerate(args)}
    return {"update": function, **variables_of(function), **given}


def audit(
    update: Callable[..., Any],
    *args: Any,
    replay: bool = True,
    vary: Mapping[str, Sequence[Any]] | None = None,
    skip: Collection[str] = (),
    allow: Collection[str] = (),
    on_policy: bool = False,
    roles: Mapping[str, Role | str] | None = None,
    like: str | None = None,
    settings: Mapping[str, Any] | None = None,
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
        on_policy: Whether the batch is certainly of the policy as it is; see :class:`Audit`.
        roles: Roles of fields by their names; see :class:`Audit`.
        like: Name of a formula that the update is compared with, in further replays on other values: ``"ppo_clip"``,
            by the derivative of the loss by log-probabilities, or ``"dqn"`` or ``"double_dqn"``, by the targets. It is
            reported which variant of the formula the update computes; see :func:`audit_stage` for others.
        settings: Settings of the formula, as ``{"gamma": 0.99}``.

    Returns:
        A report with findings, notes, and tables of what was read and learned.

    Raises:
        SettingError: ``skip`` contains something other than codes, ``vary`` has no values, the formula or a setting is
            unknown, or an audit is running already.
    """
    for name, values in (vary or {}).items():
        if not values:
            raise SettingError(f"vary takes the values to try of each argument, got none for {name!r}")
    session = Audit(updates=1, on_finding="keep", skip=skip, allow=allow, on_policy=on_policy, roles=roles)
    session.roles.learn_call(update, args)
    replays = Replays(update, args, session.roles)
    if like is not None:
        other = compare_update(update, args, formula_of(like, settings or {}), session.roles)
        if other is not None:
            session.add(other)
    if replay or vary:
        replays.run(vary or {})  # Before the update, which changes what they begin with.
    session.call(update, *args)
    told = {finding.code for finding in session.report.findings}
    for finding in replays.findings:
        if finding.code in told:  # With a place, where the trace found it.
            continue
        is_told_by_id = finding.text == PADDING and session.compares_ids
        session.add(replace(finding, is_certain=False) if is_told_by_id else finding)
    return session.report
