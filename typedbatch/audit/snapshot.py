"""Snapshots of everything that an update changes, so that it can be run again from the same state."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from types import CellType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch.audit.objects import Objects

Restore = Callable[[], None]


def snapshot(objects: Objects) -> Restore:
    """Copy the state of modules, optimizers, schedules, random generators and attributes.

    Returns:
        Function that writes the state back, any number of times. Parameters keep their memory.
    """
    restores = [_of_random()]
    restores += [_of_tensors([*module.parameters(), *module.buffers()]) for module in objects.modules.values()]
    restores += [_of_modes(module) for module in objects.modules.values()]
    restores.append(_of_tensors([*objects.tensors.values()]))
    restores += [_of_states(optimizer) for optimizer in (*objects.optimizers, *objects.stateful)]
    restores += [_of_generator(generator) for generator in objects.generators]
    restores += [_of_attributes(holder) for holder in objects.holders]
    restores += [_of_cell(cell) for cell in objects.cells]

    def restore() -> None:
        for each in restores:
            each()

    return restore


def _of_random() -> Restore:
    of_torch, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore() -> None:
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)
        if of_gpus:
            torch.cuda.set_rng_state_all(of_gpus)

    return restore


def _of_tensors(tensors: list[Tensor]) -> Restore:
    """Save values, whether gradients are required, and gradients."""
    saved = [(tensor, tensor.detach().clone(), tensor.requires_grad, _clone(tensor.grad)) for tensor in tensors]

    def restore() -> None:
        with torch.no_grad():
            for tensor, value, requires_grad, gradient in saved:
                tensor.copy_(value)
                tensor.requires_grad_(requires_grad)
                tensor.grad = _clone(gradient)

    return restore


def _of_modes(module: nn.Module) -> Restore:
    """Save whether a module and its parts are in training mode."""
    modes = [(part, part.training) for part in module.modules()]

    def restore() -> None:
        for part, training in modes:
            part.training = training

    return restore


def _of_states(owner: Any) -> Restore:
    saved = copy.deepcopy(owner.state_dict())
    return lambda: owner.load_state_dict(copy.deepcopy(saved))


def _of_generator(generator: Any) -> Restore:
    if isinstance(generator, torch.Generator):
        of_torch = generator.get_state()
        return partial(_set_state, generator, of_torch)
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        of_bits = copy.deepcopy(bits.state)
        return lambda: setattr(bits, "state", copy.deepcopy(of_bits))
    if isinstance(generator, np.random.RandomState):
        legacy = generator.get_state()
        return lambda: generator.set_state(legacy)
    of_python = generator.getstate()
    return partial(generator.setstate, of_python)


def _set_state(generator: torch.Generator, state: Tensor) -> None:
    generator.set_state(state)


def _of_attributes(holder: Any) -> Restore:
    """Save the attributes of an object, and the contents of its lists, dicts, sets, arrays and tensors."""
    before = {name: (value, _contents(value)) for name, value in vars(holder).items() if not _is_saved_apart(value)}

    def restore() -> None:
        for name, (value, contents) in before.items():
            vars(holder)[name] = value
            _refill(value, contents)

    return restore


def _of_cell(cell: CellType) -> Restore:
    """Save a variable of an enclosing function, and the contents of its list, dict, set, array or tensor."""
    try:
        value = cell.cell_contents
    except ValueError:  # It has no value yet.
        return lambda: None
    contents = None if _is_saved_apart(value) else _contents(value)

    def restore() -> None:
        cell.cell_contents = value
        _refill(value, contents)

    return restore


def _is_saved_apart(value: Any) -> bool:
    return isinstance(value, (nn.Module, nn.Parameter, torch.optim.Optimizer))


def _contents(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return copy.copy(value) if isinstance(value, (list, dict, set, np.ndarray)) else None


def _refill(value: Any, contents: Any) -> None:
    if contents is None:
        return
    if isinstance(value, Tensor):
        with torch.no_grad():
            value.copy_(contents)
    elif isinstance(value, np.ndarray):
        value[...] = contents
    elif isinstance(value, list):
        value[:] = contents
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(contents)


def _clone(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.detach().clone()
