"""Objects that an update uses: modules and optimizers, and the names by which the user knows them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from types import CodeType, FunctionType, GeneratorType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from typedbatch._core.kinds import Tree

_FOREIGN = ("torch", "numpy", "builtins", "gymnasium", "collections", "typing", "types", "weakref", "logging", "re")
_DEEPEST = 5
_MOST = 1000
"""Largest number of members of a container that are looked at."""
_OF_PARAMETERS = (nn.Module.parameters.__code__, nn.Module.named_parameters.__code__)


class Objects:
    """Objects found from those that a user has names for, by following attributes, containers and closures."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.modules: dict[str, nn.Module] = {}
        """Modules by name: ``"actor"``."""
        self.tensors: dict[str, torch.Tensor] = {}
        """Single parameters, and other tensors that are learned, by name: ``"log_alpha"``."""
        self.optimizers: list[Optimizer] = []
        """Optimizers."""
        self.iterators: dict[str, Any] = {}
        """Iterators over parameters by name: ``"pairs"`` for ``zip(net.parameters(), target.parameters())``."""
        self._seen: dict[int, Any] = {}
        self._named: dict[int, list[tuple[str, Any]]] = {}
        for name, root in roots.items():
            self._visit(name, root, 0)
        self._owners: dict[int, tuple[str, str]] = {}
        for name, module in self.modules.items():
            for path, parameter in self.parameters_in(module):
                self._owners.setdefault(id(parameter), (name, path.split(".")[0]))
        for name, tensor in self.tensors.items():
            self._owners.setdefault(id(tensor), (name, ""))

    def parameters_in(self, module: nn.Module) -> list[tuple[str, Any]]:
        """Return the named parameters of a module, as they were at the first call."""
        if id(module) not in self._named:
            self._named[id(module)] = list(module.named_parameters())
        return self._named[id(module)]

    def module_of(self, parameter: Any) -> str:
        """Return the name of the module that a parameter belongs to: ``"actor"``, or ``"agent.actor"``.

        A module of the user's own class is named with the part that holds the parameter.
        """
        module, part = self._owners.get(id(parameter), ("", ""))
        if not module:
            return f"a parameter {list(parameter.shape)}"
        if module == "self":
            return part
        return f"{module}.{part}" if part and is_own(self.modules[module]) else module

    def summary(self, parameters: Iterable[Any]) -> set[str]:
        """Return the names of modules, or of parts of modules, that have parameters among these."""
        ids = {id(parameter) for parameter in parameters}
        out = {self.module_of(parameter) for parameter in parameters if id(parameter) not in self._owners}
        for name, parts in self.parts.items():
            there = {part for part, members in parts.items() if any(id(member) in ids for member in members)}
            is_whole = all(id(member) in ids for members in parts.values() for member in members)
            if there:
                out |= there if name == "self" else {name} if is_whole else {f"{name}.{part}" for part in there}
        return out

    @cached_property
    def parts(self) -> dict[str, dict[str, list[Any]]]:
        """Parameters by the names of their modules, and of the modules' parts."""
        out: dict[str, dict[str, list[Any]]] = {}
        for name, module in self.modules.items():
            for path, parameter in self.parameters_in(module):
                if self._owners.get(id(parameter)) == (name, part := path.split(".")[0]):
                    out.setdefault(name, {}).setdefault(part, []).append(parameter)
        for name, tensor in self.tensors.items():
            if self._owners.get(id(tensor)) == (name, ""):
                out[name] = {"": [tensor]}
        return out

    @cached_property
    def named_modules(self) -> dict[str, nn.Module]:
        """Modules, and modules that are attributes of the user's own, by name."""
        out: dict[str, nn.Module] = {}
        for name, module in self.modules.items():
            out[name] = module
            if is_own(module):
                for child, part in module.named_children():
                    out[child if name == "self" else f"{name}.{child}"] = part
        return out

    @cached_property
    def twins(self) -> list[tuple[str, str]]:
        """Names of two modules whose parameters have the same names and shapes, in both orders."""
        named = self.named_modules
        shapes = {  # A lazy parameter gets its shape at the first call of its module.
            name: tuple((path, () if is_lazy(one) else tuple(one.shape)) for path, one in self.parameters_in(module))
            for name, module in named.items()
        }
        return [(one, other) for one in named for other in named if one != other and shapes[one] == shapes[other] != ()]

    def _visit(self, name: str, value: Any, depth: int) -> None:
        if isinstance(value, nn.Module) and id(value) in self._seen:
            self.modules.setdefault(name, value)
        if depth > _DEEPEST or id(value) in self._seen or isinstance(value, (str, bytes, int, float, type(None))):
            return
        if isinstance(value, torch.Tensor):
            if value.requires_grad and value.is_leaf:
                self.tensors.setdefault(name, value)
            return
        if isinstance(value, (np.ndarray, Tree, type)):
            return
        self._seen[id(value)] = value
        if isinstance(value, nn.Module):
            self.modules.setdefault(name, value)
            for key, part in vars(value).items() if is_own(value) else ():
                if key not in {"_parameters", "_buffers", "_modules"} and not key.endswith("_hooks"):
                    self._visit(key, part, depth + 1)
        elif isinstance(value, Optimizer):
            self.optimizers.append(value)
        elif isinstance(value, (GeneratorType, zip)):
            if is_used_up(value) is not None:
                self.iterators[name] = value
        elif isinstance(value, Mapping):
            for key, part in [*value.items()]:
                self._visit(str(key), part, depth + 1)
        elif isinstance(value, (list, tuple, set, frozenset)):
            for number, part in enumerate(islice(value, _MOST)):
                self._visit(f"{name}[{number}]", part, depth + 1)
        elif isinstance(value, (FunctionType, MethodType, functools.partial)):
            if str(getattr(value, "__module__", "")).split(".")[0] in (*_FOREIGN, "typedbatch"):
                return
            for key, part in variables_of(value).items():
                self._visit(key, part, depth + 1)
        else:
            self._visit_object(value, depth)

    def _visit_object(self, value: Any, depth: int) -> None:
        from typedbatch.buffers import ReplayBuffer

        owner = type(value).__module__.split(".")[0]
        is_foreign = owner in _FOREIGN and not isinstance(value, SimpleNamespace)
        if is_foreign or isinstance(value, ReplayBuffer) or not hasattr(value, "__dict__"):
            return
        for key, part in [*vars(value).items()]:
            self._visit(key.lstrip("_") if key.lstrip("_") else key, part, depth + 1)


def variables_of(function: Any) -> dict[str, Any]:
    """Return the objects that a function can use: its owner, closure, defaults and the globals that it names."""
    if isinstance(function, functools.partial):
        named = {f"argument {number}": value for number, value in enumerate(function.args)}
        return {**named, **function.keywords, **variables_of(function.func)}
    if isinstance(function, MethodType):
        return {"self": function.__self__, **variables_of(function.__func__)}
    if not isinstance(function, FunctionType):
        return {"self": function} if hasattr(function, "__dict__") else {}
    out: dict[str, Any] = {}
    wrapped = vars(function).get("__wrapped__")
    if wrapped is not None:
        out.update(variables_of(wrapped))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            out[name] = cell.cell_contents
        except ValueError:  # The variable has no value yet.
            continue
    names = _names_in(function.__code__)
    out.update((name, function.__globals__[name]) for name in names if name in function.__globals__)
    defaults = function.__defaults__ or ()
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    out.update(zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True))
    return {**out, **(function.__kwdefaults__ or {})}


def _names_in(code: CodeType) -> list[str]:
    """Return the global names in a function, and in functions and comprehensions inside of it."""
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names_in(part)]
    return [*code.co_names, *inner]


def is_used_up(iterator: Any) -> bool | None:
    """Return whether an iterator over parameters is at its end, or None if it iterates over something else."""
    parts = iterator.__reduce__()[1] if isinstance(iterator, zip) else (iterator,)
    known = [part for part in parts if isinstance(part, GeneratorType) and part.gi_code in _OF_PARAMETERS]
    return any(part.gi_frame is None for part in known) if known else None


def is_own(module: nn.Module) -> bool:
    """Return True if the class of a module is not one of torch."""
    return type(module).__module__.split(".")[0] != "torch"


def norms_of(tensors: Sequence[torch.Tensor]) -> list[float]:
    """Return the norm of each tensor, by which a change of any of them is seen."""
    with torch.no_grad():
        # One call for all, as in clip_grad_norm_.
        sizes = torch._foreach_norm([*tensors]) if tensors else ()  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]
    return [float(size) for size in sizes]


def parameters_of(optimizer: Optimizer) -> list[Any]:
    """Return the parameters of all groups of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
