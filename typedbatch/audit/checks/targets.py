"""Checks of the targets of a value: what follows a terminal state counts nothing, and a cut-off episode goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit.checks.networks import is_fixed
from typedbatch.audit.objects import parameters_of
from typedbatch.audit.report import here
from typedbatch.audit.tags import (
    ADVANTAGES,
    NEXT_OBS,
    OBS,
    OLD_LOGP,
    RETURNS,
    REWARDS,
    SUMS,
    TERMINATED,
    TRUNCATED,
    Rows,
    Tag,
    listed,
)
from typedbatch.audit.trace import Check, Operation, Trace

_MASKING = frozenset({"where", "masked_fill", "masked_fill_", "__setitem__", "index_put_"})


@dataclass
class _Ends:
    """Rows by how the episode goes on after them."""

    terminated: Tensor
    cut: Tensor

    @property
    def going(self) -> Tensor:
        return ~self.terminated & ~self.cut


class Targets(Check, operations=frozenset({"cat", "concat"}) | _MASKING | SUMS):
    """The target ``rew + gamma * (1 - terminated) * value(obs_next)``.

    The second summand is 0 in exactly those rows in which the episode terminated.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._targets: list[tuple[str, frozenset[str]]] = []
        self._stepped: set[str] = set()
        self._after: Any = None
        self._wrong: list[tuple[str, str, frozenset[str], bool]] = []

    @override
    def operation(self, operation: Operation) -> None:
        if operation.name in ("cat", "concat"):
            self._find_mixed(operation)
        if operation.name in _MASKING and any(tag.has_any(TERMINATED) for tag in operation.tags):
            # The values of terminal steps are replaced after the sum.
            self._wrong = [found for found in self._wrong if found[-1]]
        if operation.name not in SUMS or operation.name in ("sub", "__sub__"):
            return
        for _, rew, value, tag in operation.both_ways():
            if rew.is_column(REWARDS) and tag.from_model and tag.has_any(NEXT_OBS | OBS) and value.ndim:
                self._examine(rew, value, tag)

    def _find_mixed(self, operation: Operation) -> None:
        """Find the next observation joined with an action that a model drew for the observation before."""
        tags = operation.tags
        for tag in tags:
            is_before = tag.from_model and tag.has_any(OBS) and not tag.has_any(NEXT_OBS)
            if is_before and any(other.is_column(NEXT_OBS) for other in tags):
                text = f"obs_next is joined with values of {listed(tag.models)} for obs; take those for obs_next"
                self.trace.found("TB508 wrong-target", text)

    @override
    def valued(self, name: str, values: Any) -> None:
        if name == "v_s_":
            self._after = values
        elif self._after is not None and len(values) > 1 and np.ptp(values) > 0 and np.array_equal(values, self._after):
            text = "the values of obs_next, given as v_s_, are those of obs, given as v_s"
            self.trace.found("TB508 wrong-target", text)

    @override
    def bootstrap(self, values: Any) -> None:
        tag = self.trace.tag_of(values)
        if tag.from_model and tag.has_any(NEXT_OBS):
            self._targets.append((here(), tag.models))

    def _examine(self, rew: Tag, value: Tensor, tag: Tag) -> None:
        is_masked = tag.has_any(TERMINATED)
        if is_masked and tag.has_any(OBS):
            seen = "obs and obs_next" if tag.has_any(NEXT_OBS) else "obs, not obs_next"
            text = f"the value after the step, in this target, comes from {seen}"
            # The observation of the row after may stand for obs_next; that of the same row may not.
            is_same = tag.rows is not None and rew.rows is not None and tag.rows.same(rew.rows)
            self.trace.found("TB508 wrong-target", text, is_certain=is_same and not tag.has_any(NEXT_OBS))
            return
        if not tag.has_any(NEXT_OBS):
            return
        self._targets.append((here(), tag.models))
        if not tag.is_scaled:
            text = "the value of obs_next is not discounted in this target, not even by a gamma of 1"
            self.trace.found("TB508 wrong-target", text, is_certain=False)
        ends = self._ends(rew, len(value))
        if ends is None or not value.numel():
            return
        with torch.no_grad():
            is_zero = (value.detach().reshape(value.shape[0], -1) == 0).all(-1).cpu()
            wrong = int((ends.terminated & ~is_zero).sum())
            counted = int((ends.going & ~is_zero).sum())
            lost = int((ends.cut & is_zero).sum())
        if wrong:
            seen = "" if is_masked else "; terminated was not read for it"
            text = f"the target counts the value of obs_next in {wrong} rows in which the episode has terminated{seen}"
            self._wrong.append((here(), text, tag.models, is_masked))
        elif lost == int(ends.cut.sum()) > 0 and counted == int(ends.going.sum()) > 0:
            text = (
                f"the target leaves out the value of obs_next in {lost} truncated rows; only terminated ends an episode"
            )
            self.trace.found("TB508 wrong-target", text)

    def _twins_of(self, name: str) -> set[str]:
        return {other for one, other in self.trace.objects.twins if one == name}

    def _ends(self, rew: Tag, rows: int) -> _Ends | None:
        terminated = self.trace.origins.column(rew.rows, TERMINATED)
        truncated = self.trace.origins.column(rew.rows, TRUNCATED)
        if terminated is None or terminated.ndim != 1 or len(terminated) != rows:
            return None
        with torch.no_grad():
            ends = torch.as_tensor(terminated).bool().cpu()
            cut = torch.zeros_like(ends) if truncated is None else torch.as_tensor(truncated).bool().cpu() & ~ends
        return _Ends(ends, cut)

    @override
    def step(self, optimizer: torch.optim.Optimizer) -> None:
        self._stepped.update(self.trace.objects.module_of(parameter) for parameter in parameters_of(optimizer))

    @override
    def end(self) -> None:
        """Report values of a target that come from a network that is trained, although its slow copy was called."""
        for place, text, models, is_masked in self._wrong:
            # A bonus for new observations is added to rewards, too. It is not a value of the copy of a network alone.
            slow = {name for name in models - self._stepped if self._twins_of(name) & self._stepped}
            is_bonus = any(self._twins_of(name) & models & self._stepped for name in slow)
            self.trace.found(
                "TB508 wrong-target", text, place=place, is_certain=is_masked or (bool(slow) and not is_bonus)
            )
        modules, twins = self.trace.objects.named_modules, self.trace.objects.twins
        for place, models in self._targets:
            for name in sorted(models & self._stepped):
                copies = [
                    other for one, other in twins if one == name and other not in self._stepped and is_fixed(other)
                ]
                copies = [
                    other for other in copies if any(id(m) in self.trace.called for m in modules[other].modules())
                ]
                if copies and not models & set(copies):
                    text = (
                        f"the values of obs_next in this target are those of {name}, not of {copies[0]}, its slow copy"
                    )
                    self.trace.found("TB508 wrong-target", text, place=place)


class Returns(Check):
    """The returns of terminal steps: they are their rewards, possibly scaled, whatever the algorithm."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._examined: dict[tuple[int, str, int], int] = {}
        """Number of rows examined, by origin, name and the step in which the values were computed."""

    @override
    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        fields = object.__getattribute__(batch, "__dict__")
        if name in ADVANTAGES:
            self._find_exchanged(fields, name, tag)
        if name not in RETURNS or not all(other in fields for other in ("rew", "terminated")):
            return
        known = self.trace.tags.of(value)
        if known is not None and known.has_any(OLD_LOGP):  # Off-policy corrections depend on the value.
            return
        if known is not None and known.rows is not None and self._is_examined(name, known, known.rows):
            return
        with torch.no_grad():
            returns, rew, ends = (np.asarray(leaf_to_numpy(fields[key])) for key in (name, "rew", "terminated"))
        if returns.ndim != 1 or returns.shape != rew.shape or returns.shape != ends.shape:
            return
        is_end = ends.astype(bool)
        spread = _spread(returns[is_end], rew[is_end])
        if spread > 1e-3 * max(float(np.abs(returns).max(initial=0)), 1e-6) and not _is_of_episodes(returns, is_end):
            self.trace.found(
                "TB508 wrong-target",
                f"{name} of terminal steps with one and the same reward differ by {spread:.3g}; nothing follows a "
                "terminal step, so its return is its reward",
            )

    def _is_examined(self, name: str, known: Tag, rows: Rows) -> bool:
        """Return True if as many rows of a column were examined as it has."""
        key = (rows.origin, name, known.step)
        before = self._examined.get(key, 0)
        self._examined[key] = before + len(rows.ids)
        whole = self.trace.origins.whole(rows.origin, name)
        return before > 0 and whole is not None and before >= len(whole)

    def _find_exchanged(self, fields: dict[str, Any], name: str, tag: Tag | None) -> None:
        if tag is None or not tag.is_column(RETURNS):
            return
        returns = next((fields[other] for other in RETURNS if other in fields), None)
        twin = self.trace.tags.of(returns)
        if twin is not None and twin.is_column(ADVANTAGES):
            self.trace.found("TB510 suspect-values", f"{name} has the values of returns, and returns those of {name}")


def _is_of_episodes(returns: Any, ends: Any) -> bool:
    """Return True if returns are those of whole episodes, the same at each step of one."""
    inside = ~ends[:-1]
    return bool(inside.any()) and bool((np.diff(returns)[inside] == 0).mean() > 0.5)


def _spread(returns: Any, rew: Any) -> float:
    """Return the largest difference of returns among steps with the same reward."""
    order = np.argsort(rew, kind="stable")
    rew, returns = rew[order], returns[order].astype(float)
    if len(rew) < 2:
        return 0.0
    begins = np.concatenate([[0], np.flatnonzero(np.diff(rew)) + 1])
    return float((np.maximum.reduceat(returns, begins) - np.minimum.reduceat(returns, begins)).max())


class Values(Check, operations=frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", "sub", "__sub__"})):
    """The regression of a value: on returns, if there are any."""

    @override
    def operation(self, operation: Operation) -> None:
        for tensor, tag, _, rew in operation.both_ways():
            is_value = tensor.requires_grad and tag.from_model and not tag.has_any(NEXT_OBS)
            if not is_value or not rew.is_column(REWARDS) or tag.rows is None:
                continue
            if RETURNS & self.trace.origins.fields_of(tag.rows.origin):
                text = f"a value from {listed(tag.names)} is learned from rewards, although the batch has returns"
                self.trace.found("TB508 wrong-target", text, is_certain=False)
