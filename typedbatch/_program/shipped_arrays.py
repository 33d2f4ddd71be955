"""Arrays that functions of this package return: of post-training, of groups, and of conversions of single arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from typedbatch._program.arrays.values import Array
from typedbatch._program.frames import Call
from typedbatch._program.machine import Machine
from typedbatch._program.shapes import lift, lower
from typedbatch._program.shipped import GROUPS
from typedbatch._program.values import ARRAY, NONE, UNKNOWN, Atom, Result, Value


def _values_of_tokens(machine: Machine, call: Call) -> Value:
    """Return an array like the mask of responses of a batch, or like the ids that are asked for."""
    machine.escape_functions(call)
    asked = call.named.get("ids")
    found = [asked] if asked not in (None, NONE) else [_field_of(machine, atom) for atom in call.get(1, "batch") or ()]
    known = [lift(machine, value or UNKNOWN) for value in found]
    if len(known) != 1 or not isinstance(known[0], Array):
        return ARRAY
    return lower(Array(known[0].axes, frozenset({"float32"}), torch=True))


def _field_of(machine: Machine, atom: Atom) -> Value:
    """Return the mask of responses of a batch, of tokens end to end too."""
    batch = machine.batch_at(atom)
    if batch is None or "response_mask" not in batch.fields:
        return UNKNOWN
    return batch.fields["response_mask"].value


def _aggregate(machine: Machine, call: Call) -> Value:
    return lower(Array((), None, torch=True))


def _groups(machine: Machine, call: Call) -> Value:
    return (Result(GROUPS),)


def _converted(machine: Machine, call: Call, *, torch: bool) -> Value:
    """Return the array as one of the other library; its dtype may be another."""
    given = lift(machine, call.first or UNKNOWN)
    return lower(Array(given.axes, None, torch)) if isinstance(given, Array) else UNKNOWN


def of_group(machine: Machine, call: Call) -> Value:
    """Return the statistic of the group of each row, of the shape of the values."""
    values = lift(machine, call.first or UNKNOWN)
    return lower(values.typed(None)) if isinstance(values, Array) else ARRAY


ARRAYS: Final[Mapping[str, Callable[[Machine, Call], Value]]] = {
    **dict.fromkeys(("token_logp", "token_values"), _values_of_tokens),
    "aggregate": _aggregate,
    "groups": _groups,
    "to_numpy": partial(_converted, torch=False),
    **dict.fromkeys(("to_torch", "to_torch_as"), partial(_converted, torch=True)),
}
"""Functions that return arrays, and ``groups``, whose methods do."""
