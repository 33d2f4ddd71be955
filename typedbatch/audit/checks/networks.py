"""Checks of networks and of weights that are copied: frozen copies, loaded states, and parameters that are used up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from typing_extensions import override

from typedbatch.audit.objects import is_used_up, norms_of, parameters_of
from typedbatch.audit.report import here
from typedbatch.audit.trace import Check, Trace

_WITH_MODES: Final = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # noqa: SLF001  # bases of all
_TARGET: Final = re.compile(r"(^|[_.])(target|targ|tgt|slow)([_.\d\[]|$)")
_FIXED: Final = re.compile(r"(^|[_.])(target|targ|tgt|ema|slow|frozen|ref|reference|old)([_.\d\[]|$)")


class Networks(Check):
    """Modules whose names say that they follow others: they are copies, are called, and no optimizer steps them."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._stepped: set[int] = set()
        self._after_step: dict[int, tuple[Any, Tensor]] = {}
        modules = trace.objects.named_modules
        pairs = [(name, twin) for name, twin in trace.objects.twins if is_target(twin) and not is_target(name)]
        self._slow: dict[int, Any] = {
            id(parameter): copy
            for name, twin in pairs
            for parameter, copy in zip(modules[name].parameters(), modules[twin].parameters(), strict=True)
        }
        self._targets = {twin: (name, self._sizes(twin)) for name, twin in pairs}
        """Names of slow copies, each with the name of what it follows and the norms of its parameters at first."""

    @override
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
            self._find(
                f"{still[0]} stays as it is, although {moved[0]} follows its network; is a soft update left out?"
            )

    def _find_evaluating(self) -> None:
        """Note modules in evaluation mode that are trained, and that have parts for which the mode matters."""
        for name, module in self.trace.objects.named_modules.items():
            parts = [part for part in module.modules() if isinstance(part, _WITH_MODES) and not part.training]
            parameters = self.trace.objects.parameters_in(module)
            trained = any(id(parameter) in self._stepped for _, parameter in parameters)
            if "." not in name and trained and any(id(part) in self.trace.called for part in parts):
                text = f"{name} is trained in evaluation mode, in which {type(parts[0]).__name__} does something else"
                self.trace.found("TB506 wrong-network", f"{text}; is train() forgotten?", place="", is_certain=False)

    @override
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
            self._find(f"{names} was changed after its optimizer step; are the arguments of the soft update exchanged?")

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
        if same:
            self._find(f"{name} has the parameters of {same[0]} itself; make it a copy, as by copy.deepcopy")
        elif parameters & self._stepped and any(twin == name for _, twin in self.trace.objects.twins):
            text = f"an optimizer steps {name}, which only follows another network"
            self.trace.found("TB506 wrong-network", text, place="", is_certain=is_target(name))
        elif "." not in name and is_target(name) and not any(id(m) in self.trace.called for m in module.modules()):
            text = f"{name} was never called in this update; is another network used in its place?"
            self.trace.found("TB506 wrong-network", text, place="", is_certain="[" not in name)

    def _ids_in(self, module: nn.Module) -> set[int]:
        return {id(parameter) for _, parameter in self.trace.objects.parameters_in(module)}

    def _find(self, text: str) -> None:
        self.trace.found("TB506 wrong-network", text, place="")


def is_fixed(name: str) -> bool:
    """Return True if a name says that no optimizer steps a network, as a target or a reference."""
    return _FIXED.search(name.lower()) is not None


def is_target(name: str) -> bool:
    """Return True if a name says that a network is a slow copy of another one."""
    return _TARGET.search(name.lower()) is not None


class Loading(Check):
    """The states that modules load: they have tensors for the module."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._fresh = {name for name, iterator in trace.objects.iterators.items() if is_used_up(iterator) is False}

    @override
    def loading(self, module: nn.Module, state: Mapping[str, Any]) -> None:
        own = module.state_dict()
        if own and state and not own.keys() & state.keys():
            some, other = next(iter(state)), next(iter(own))
            text = f"a state is loaded that has no tensor of the module: it has {some!r}, the module {other!r}"
            self.trace.found("TB506 wrong-network", text, place=here())

    @override
    def end(self) -> None:
        for name in sorted(self._fresh):
            if is_used_up(self.trace.objects.iterators[name]):
                text = f"{name} iterates over parameters, and is used up after this update; keep a list"
                self.trace.found("TB506 wrong-network", text, place="")
