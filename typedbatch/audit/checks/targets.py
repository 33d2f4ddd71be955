"""Checks of targets, and of the networks that they come from: frozen copies, loaded states, and used-up parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit import tags
from typedbatch.audit.objects import is_used_up, norms_of, parameters_of
from typedbatch.audit.report import here
from typedbatch.audit.tags import OriginRows, Tag, listed
from typedbatch.audit.trace import Check, Operation

_WITH_MODES: Final = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # noqa: SLF001  # bases of all
_TARGET: Final = re.compile(r"(^|[_.])(target|targ|tgt|slow)([_.\d\[]|$)")
_FIXED: Final = re.compile(r"(^|[_.])(target|targ|tgt|ema|slow|frozen|ref|reference|old)([_.\d\[]|$)")
_MASKING = frozenset({"where", "masked_fill", "masked_fill_", "__setitem__", "index_put_"})


class Networks(Check, code="TB506 wrong-network"):
    """Modules whose names say that they follow others: they are copies, are called, and no optimizer steps them."""

    def _begin(self) -> None:
        self._stepped: set[int] = set()
        self._after_step: dict[int, tuple[Any, Tensor]] = {}
        modules = self.trace.objects.named_modules
        pairs = [(name, twin) for name, twin in self.trace.objects.twins if is_target(twin) and not is_target(name)]
        self._slow: dict[int, Any] = {
            id(parameter): copy
            for name, twin in pairs
            for parameter, copy in zip(modules[name].parameters(), modules[twin].parameters(), strict=True)
        }
        self._targets = {twin: (name, self._sizes(twin)) for name, twin in pairs}
        """Names of slow copies, each with the name of what it follows and the norms of its parameters at first."""

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        for parameter in parameters_of(optimizer):
            self._stepped.add(id(parameter))
            if id(parameter) in self._slow:
                self._after_step[id(parameter)] = (parameter, parameter.detach().clone())

    def _sizes(self, name: str) -> list[float]:
        parameters = [parameter for _, parameter in self._parameters_of(name)]
        return [] if any(parameter.is_meta for parameter in parameters) else norms_of(parameters)

    def _parameters_of(self, name: str) -> list[tuple[str, Any]]:
        return self.trace.objects.parameters_in(self.trace.objects.named_modules[name])

    def _find_unmoved(self) -> None:
        """Report slow copies that stay as they are, although what they follow is stepped, and others are moved."""
        trained = {
            target: self._sizes(target) != before
            for target, (name, before) in self._targets.items()
            if "[" not in target and any(id(parameter) in self._stepped for _, parameter in self._parameters_of(name))
        }
        still = sorted(target for target, is_moved in trained.items() if not is_moved)
        moved = sorted(target for target, is_moved in trained.items() if is_moved)
        if still and moved:
            text = f"{still[0]} stays as it is, although {moved[0]} follows its network; is a soft update left out?"
            self._found(text, place="")

    def _find_evaluating(self) -> None:
        """Note modules in evaluation mode that are trained, and that have parts for which the mode matters."""
        for name, module in self.trace.objects.named_modules.items():
            parts = [part for part in module.modules() if _evaluates(part)]
            parameters = self.trace.objects.parameters_in(module)
            trained = any(id(parameter) in self._stepped for _, parameter in parameters)
            if "." not in name and trained and any(id(part) in self.trace.called for part in parts):
                text = f"{name} is trained in evaluation mode, in which {type(parts[0]).__name__} does something else"
                self._found(f"{text}; is train() forgotten?", place="", is_certain=False)

    def end(self) -> None:
        if not self.trace.backwards:
            return
        self._find_evaluating()
        self._find_unmoved()
        modules = self.trace.objects.named_modules
        for name, module in modules.items():
            if is_fixed(name) and self.trace.objects.parameters_in(module):
                self._examine(name, module, modules)
        changed = [parameter for parameter, value in self._after_step.values() if self._is_pulled(parameter, value)]
        if changed and len(changed) == len(self._after_step):
            names = ", ".join(sorted(self.trace.objects.summary(changed)))
            text = f"{names} was changed after its optimizer step; are the arguments of the soft update exchanged?"
            self._found(text, place="")

    def _is_pulled(self, parameter: Tensor, after_step: Tensor) -> bool:
        """Return True if a parameter was moved towards its slow copy after its step."""
        slow = self._slow.get(id(parameter))
        if slow is None or torch.equal(parameter, after_step):
            return False
        moved = (parameter.detach() - after_step).flatten().double()
        towards = (slow.detach() - after_step).flatten().double()
        size = float(moved.norm() * towards.norm())
        return size > 0 and float(moved @ towards) > 0.99 * size

    def _examine(self, name: str, module: nn.Module, modules: dict[str, nn.Module]) -> None:
        parameters = self._ids_in(module)
        same = [other for other, twin in modules.items() if not is_fixed(other) and parameters == self._ids_in(twin)]
        if same and parameters & self._stepped:  # One that is not trained may have several names.
            other = min(same, key=lambda name: "[" in name)
            self._found(f"{name} has the parameters of {other} itself; make it a copy, as by copy.deepcopy", place="")
        elif parameters & self._stepped and any(twin == name for _, twin in self.trace.objects.twins):
            text = f"an optimizer steps {name}, which only follows another network"
            self._found(text, place="", is_certain=is_target(name))
        elif "." not in name and is_target(name) and not any(id(m) in self.trace.called for m in module.modules()):
            text = f"{name} was never called in this update; is another network used in its place?"
            followed = {one for one, twin in self.trace.objects.twins if twin == name}
            self._found(text, place="", is_certain="[" not in name and bool(followed & self.trace.bootstrapped))

    def _ids_in(self, module: nn.Module) -> set[int]:
        return {id(parameter) for _, parameter in self.trace.objects.parameters_in(module)}


def _evaluates(module: nn.Module) -> bool:
    """Return True for a module that does something else in training mode, and is in the other one."""
    is_idle = isinstance(module, nn.modules.dropout._DropoutNd) and not module.p  # noqa: SLF001
    return isinstance(module, _WITH_MODES) and not module.training and not is_idle


def is_fixed(name: str) -> bool:
    """Return True if a name says that no optimizer steps a network, as a target or a reference."""
    return _FIXED.search(name.lower()) is not None


def is_target(name: str) -> bool:
    """Return True if a name says that a network is a slow copy of another one."""
    return _TARGET.search(name.lower()) is not None


class Loading(Check, code="TB506 wrong-network"):
    """The states that modules load: they have tensors for the module."""

    def _begin(self) -> None:
        self._fresh = {name for name, iterator in self.trace.objects.iterators.items() if is_used_up(iterator) is False}

    def loading(self, module: nn.Module, state: Mapping[str, Any]) -> None:
        own = module.state_dict()
        if own and state and not own.keys() & state.keys():
            some, other = next(iter(state)), next(iter(own))
            text = f"a state is loaded that has no tensor of the module: it has {some!r}, the module {other!r}"
            self._found(text, place=here())

    def end(self) -> None:
        for name in sorted(self._fresh):
            if is_used_up(self.trace.objects.iterators[name]):
                self._found(f"{name} iterates over parameters, and is used up after this update; keep a list", place="")


class Targets(Check, code="TB508 wrong-target", operations=frozenset({"cat", "concat"}) | _MASKING | tags.SUMS):
    """The target ``rew + gamma * (1 - terminated) * value(obs_next)``.

    The second summand is 0 in exactly those rows in which the episode terminated.
    """

    def _begin(self) -> None:
        self._targets: list[tuple[str, frozenset[str]]] = []
        self._stepped: set[str] = set()
        self._after: Any = None
        self._wrong: list[tuple[str, str, frozenset[str], bool]] = []

    def operation(self, operation: Operation) -> None:
        for tag in operation.tags if operation.name in ("cat", "concat") else ():
            # A model drew an action for the observation before.
            is_before = tag.from_model and tag.has_any(tags.OBS) and not tag.has_any(tags.NEXT_OBS)
            if is_before and any(other.is_column(tags.NEXT_OBS) for other in operation.tags):
                self._found(f"obs_next is joined with values of {listed(tag.models)} for obs; take those for obs_next")
        if operation.name in _MASKING and any(tag.has_any(tags.TERMINATED) for tag in operation.tags):
            # The values of terminal steps are replaced after the sum.
            self._wrong = [found for found in self._wrong if found[-1]]
        if operation.name not in tags.SUMS or operation.name in ("sub", "__sub__"):
            return
        for _, rew, value, tag in operation.both_ways():
            if rew.is_column(tags.REWARDS) and tag.from_model and tag.has_any(tags.NEXT_OBS | tags.OBS) and value.ndim:
                self._examine(rew, value, tag)

    def valued(self, name: str, values: Any) -> None:
        if name == "v_s_":
            self._after = values
        elif self._after is not None and len(values) > 1 and np.ptp(values) > 0 and np.array_equal(values, self._after):
            self._found("the values of obs_next, given as v_s_, are those of obs, given as v_s")

    def bootstrap(self, values: Any) -> None:
        tag = self.trace.tag_of(values)
        if tag.from_model and tag.has_any(tags.NEXT_OBS):
            self._add(tag)

    def _examine(self, rew: Tag, value: Tensor, tag: Tag) -> None:
        is_masked = tag.has_any(tags.TERMINATED)
        if is_masked and tag.has_any(tags.OBS):
            seen = "obs and obs_next" if tag.has_any(tags.NEXT_OBS) else "obs, not obs_next"
            text = f"the value after the step, in this target, comes from {seen}"
            if rew.rows is None or not tags.NEXT_OBS & self.trace.origins.fields_of(rew.rows.origin):
                return  # The value of the row after stands for that of obs_next.
            is_same = tag.rows is not None and tag.rows.same(rew.rows) and tag.columns == rew.columns
            self._found(text, is_certain=is_same and not tag.has_any(tags.NEXT_OBS))
            return
        if not tag.has_any(tags.NEXT_OBS):
            return
        self._add(tag)
        if not tag.is_scaled:
            text = "the value of obs_next is not discounted in this target, not even by a gamma of 1"
            self._found(text, is_certain=False)
        ends = self._ends(rew, len(value))
        if ends is None or not value.numel():
            return
        is_zero = (value.detach().reshape(value.shape[0], -1) == 0).all(-1).cpu()
        terminated, cut = ends
        going = ~terminated & ~cut
        wrong = int((terminated & ~is_zero).sum())
        counted = int((going & ~is_zero).sum())
        lost = int((cut & is_zero).sum())
        if wrong:
            seen = "" if is_masked else "; terminated was not read for it"
            text = f"the target counts the value of obs_next in {wrong} rows in which the episode has terminated{seen}"
            self._wrong.append((here(), text, tag.models, is_masked))
        elif lost == int(cut.sum()) > 0 and counted == int(going.sum()) > 0:
            self._found(
                f"the target leaves out the value of obs_next in {lost} truncated rows; only terminated ends an episode"
            )

    def _add(self, tag: Tag) -> None:
        self._targets.append((here(), tag.models))
        self.trace.bootstrapped |= tag.models

    def _twins_of(self, name: str) -> set[str]:
        return {other for one, other in self.trace.objects.twins if one == name}

    def _ends(self, rew: Tag, rows: int) -> tuple[Tensor, Tensor] | None:
        """Return which rows are terminated and which are cut off alone, or None if it is not known."""
        terminated = self.trace.origins.column(rew.rows, tags.TERMINATED)
        truncated = self.trace.origins.column(rew.rows, tags.TRUNCATED)
        if terminated is None or terminated.ndim != 1 or len(terminated) != rows:
            return None
        ends = torch.as_tensor(terminated).bool().cpu()
        cut = torch.zeros_like(ends) if truncated is None else torch.as_tensor(truncated).bool().cpu() & ~ends
        return ends, cut

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        self._stepped.update(self.trace.objects.module_of(parameter) for parameter in parameters_of(optimizer))

    def end(self) -> None:
        """Report values of a target that come from a network that is trained, although its slow copy was called."""
        for place, text, models, is_masked in self._wrong:
            # A bonus for new observations is added to rewards, too. It is not a value of the copy of a network alone.
            slow = {name for name in models - self._stepped if self._twins_of(name) & self._stepped}
            is_bonus = any(self._twins_of(name) & models & self._stepped for name in slow)
            self._found(text, place=place, is_certain=is_masked or (bool(slow) and not is_bonus))
        modules, twins = self.trace.objects.named_modules, self.trace.objects.twins
        fixed = {name for name in modules if name not in self._stepped and is_fixed(name)}
        fixed = {name for name in fixed if any(id(part) in self.trace.called for part in modules[name].modules())}
        for place, models in self._targets:
            for name in sorted(models & self._stepped):
                copies = [other for one, other in twins if one == name and other in fixed]
                if copies and not models & set(copies):
                    text = (
                        f"the values of obs_next in this target are those of {name}, not of {copies[0]}, its slow copy"
                    )
                    self._found(text, place=place)


class Returns(Check, code="TB508 wrong-target"):
    """The returns of terminal steps: they are their rewards, possibly scaled, whatever the algorithm."""

    def _begin(self) -> None:
        self._examined: dict[tuple[int, str, int], int] = {}
        """Number of rows examined, by origin, name and the step in which the values were computed."""

    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        fields = self.trace.roles.fields(batch)
        if name in tags.ADVANTAGES:
            self._find_exchanged(fields, name, tag)
        if name not in tags.RETURNS or not all(other in fields for other in ("rew", "terminated")):
            return
        known = self.trace.tags.of(value)
        if known is not None and known.has_any(tags.OLD_LOGP):  # Off-policy corrections depend on the value.
            return
        if known is not None and known.rows is not None and self._is_examined(name, known, known.rows):
            return
        returns, rew, ends = (np.asarray(leaf_to_numpy(fields[key])) for key in (name, "rew", "terminated"))
        if returns.ndim != 1 or returns.shape != rew.shape or returns.shape != ends.shape:
            return
        is_end = ends.astype(bool)
        inside, spread = ~is_end[:-1], _spread(returns[is_end], rew[is_end])
        # Returns of whole episodes are the same at each step of one.
        is_whole = bool(inside.any()) and bool((returns[1:] == returns[:-1])[inside].mean() > 0.5)
        if spread > 1e-3 * max(float(np.abs(returns).max(initial=0)), 1e-6) and not is_whole:
            self._found(
                f"{name} of terminal steps with one and the same reward differ by {spread:.3g}; nothing follows a "
                "terminal step, so its return is its reward"
            )

    def _is_examined(self, name: str, known: Tag, rows: OriginRows) -> bool:
        """Return True if as many rows of a column were examined as it has."""
        key = (rows.origin, name, known.step)
        before = self._examined.get(key, 0)
        self._examined[key] = before + len(rows.ids)
        whole = self.trace.origins.whole(rows.origin, name)
        return before > 0 and whole is not None and before >= len(whole)

    def _find_exchanged(self, fields: Mapping[str, Any], name: str, tag: Tag | None) -> None:
        if tag is None or not tag.is_column(tags.RETURNS):
            return
        returns = next((fields[other] for other in tags.RETURNS if other in fields), None)
        twin = self.trace.tags.of(returns)
        if twin is not None and twin.is_column(tags.ADVANTAGES):
            self._found(f"{name} has the values of returns, and returns those of {name}", code="TB510 suspect-values")


def _spread(returns: Any, rew: Any) -> float:
    """Return the largest difference of returns among steps with the same reward."""
    order = np.argsort(rew, kind="stable")
    rew, returns = rew[order], returns[order].astype(float)
    if len(rew) < 2:
        return 0.0
    begins = np.concatenate([[0], np.flatnonzero(np.diff(rew)) + 1])
    return float((np.maximum.reduceat(returns, begins) - np.minimum.reduceat(returns, begins)).max())


class Values(
    Check,
    code="TB508 wrong-target",
    operations=frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", "sub", "__sub__"}),
):
    """The regression of a value: on returns, if there are any."""

    def operation(self, operation: Operation) -> None:
        for tensor, tag, _, rew in operation.both_ways():
            is_value = tensor.requires_grad and tag.from_model and not tag.has_any(tags.NEXT_OBS)
            if not is_value or not rew.is_column(tags.REWARDS) or tag.rows is None or "act" in tag.names:
                continue  # A model of rewards takes actions.
            if tags.RETURNS & self.trace.origins.fields_of(tag.rows.origin):
                text = f"a value from {listed(tag.names)} is learned from rewards, although the batch has returns"
                self._found(text, is_certain=False)
