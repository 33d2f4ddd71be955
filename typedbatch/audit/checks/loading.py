"""Checks of weights that are copied: states that load nothing, and iterators of parameters that are used up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn
from typing_extensions import override

from typedbatch.audit.objects import is_used_up
from typedbatch.audit.places import here
from typedbatch.audit.trace import Check, Trace


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
