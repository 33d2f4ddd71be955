"""Batches that are handed over: what they lack of a protocol or record, and fields of a kind that it does not take."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Final

from typedbatch._program import report
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Scalar
from typedbatch._program.classes import PLAIN_BASES, attribute_of, base_names, declared_fields, declared_kinds, name_of
from typedbatch._program.fitting import fit_handed
from typedbatch._program.heap import BatchObject, InstanceObject
from typedbatch._program.judge import assume, class_of, has_in, made_at, report_maybe
from typedbatch._program.machine import Machine
from typedbatch._program.shipped import shipped
from typedbatch._program.values import Array, Atom, Class, External, Kind, Kinds, Literal, Ref, Shaped, Value, is_none
from typedbatch.batch import Batch

_DEEPEST: Final = 4
"""Most batches within each other whose fields are looked at."""
_NUMPY, _TORCH, _NONE = "numpy.ndarray", "torch.Tensor", "builtins.None"
_WORDS: Final = {
    _NUMPY: "a numpy array", _TORCH: "a torch tensor", _NONE: "None", "builtins.str": "text",
    **dict.fromkeys(("builtins.bool", "builtins.float", "builtins.int"), "a number"),
}  # fmt: skip
"""Classes of which the run can tell what is one, beside those of batches."""


def lacks(machine: Machine, value: Value, required: Collection[str], *, is_plain: bool = False) -> set[str]:
    """Return the fields that every batch that a value may be is known to lack.

    Args:
        machine: The run.
        value: The batches.
        required: Names of the fields.
        is_plain: Whether a batch of which its annotation alone is known has no others.
    """
    lacking: set[str] | None = None
    for atom in value:
        batch = machine.batch_at(atom)
        if batch is None or (batch.is_open and not (is_plain and batch.is_annotated)):
            return set()
        found = {name for name in required if name not in batch.fields}
        if batch.declared is not None:  # A member of a class may be what a protocol asks for.
            found = {name for name in found if not attribute_of(batch.declared, name)}
        lacking = found if lacking is None else lacking & found
    return lacking or set()


def need(machine: Machine, value: Value, kind: Kind, node: ast.AST | None) -> None:
    """Report a batch that is not what a protocol or record asks for, and take note of one that is."""
    fields = declared_fields(kind.cls)
    if fields is None or node is None:
        return
    machine.note_need(node, is_met=_is_met(machine, value, fields.required))
    _Need(machine, kind, node).look(value, kind)
    if len(value) == 1 and isinstance(value[0], Ref):
        fit_handed(machine, value[0], kind, node)


class _Need:
    """A batch that is handed over.

    Args:
        machine: The run.
        kind: What is asked for.
        node: Where.
    """

    def __init__(self, machine: Machine, kind: Kind, node: ast.AST) -> None:
        self._machine = machine
        self._asked = name_of(kind.cls)
        self._node = node

    def look(self, value: Value, kind: Kind, within: tuple[str, ...] = ()) -> None:
        """Report what a batch lacks, and what in it is of another kind.

        Args:
            value: The batch, or one that a field of it holds.
            kind: What is asked for there.
            within: Path of the field.
        """
        fields = declared_fields(kind.cls)
        if fields is None or len(within) > _DEEPEST:
            return
        lacking = lacks(self._machine, value, fields.required, is_plain=self._is_plain(value))
        path = "".join(f"{name}." for name in within)
        if lacking:
            has = {path + name for name in has_in(self._machine, value)}
            owner = class_of(self._machine, value)
            text = report.lacking(self._asked, [path + name for name in lacking], has, owner)
            if self._report(value, text, [*within, *lacking]):
                assume(self._machine, value, lacking)
            return
        if len(value) == 1:
            for name in sorted(fields.required):
                report_maybe(self._machine, value[0], name, self._node, self._asked, path)
        unfit: dict[tuple[str, str], list[str]] = {}
        batches = [self._machine.batch_at(atom) for atom in value]
        is_certain = all(batch is not None and self._machine.is_certain_for(batch) for batch in batches)
        for name, kinds in declared_kinds(kind.cls, kind.args).items():
            held = _held(self._machine, value, name)
            got = _misfit(self._machine, held, kinds) if held and is_certain else ""
            nested = [one for one in kinds if _is_of_batches(one.cls)]
            if got:
                unfit.setdefault((" or ".join(dict.fromkeys(map(_shown, kinds))), got), []).append(name)
            elif held and len(nested) == 1 and all(map(self._machine.is_batch, held)):
                self.look(held, nested[0], (*within, name))
        for (takes, got), names in unfit.items():
            text = report.unfit([path + name for name in names], self._asked, takes, got)
            if self._report(value, text, [*within, *names]):
                assume(self._machine, value, names)

    def _is_plain(self, value: Value) -> bool:
        """Return whether a parameter is handed over as it was given: behind no condition, and no way out."""
        machine, node = self._machine, self._node
        return (
            machine.is_given
            and isinstance(node, ast.Name)
            and machine.frame.code is not None
            and len(value) == 1
            and (len(machine.guards), machine.exits) == (machine.frame.guarded, machine.frame.exits)
            and not machine.choices
        )

    def _report(self, value: Value, text: str, names: Collection[str]) -> bool:
        place = made_at(self._machine, value)
        return self._machine.report(self._node, report.ARGUMENT, text, [*names, self._asked], place)


def _held(machine: Machine, value: Value, name: str) -> Value:
    """Return what a field holds that all batches have, and that nobody else can have changed; else no atoms."""
    held: dict[Atom, None] = {}
    for atom in value:
        batch = machine.batch_at(atom)
        field = batch.fields.get(name) if batch is not None and not batch.is_open else None
        if field is None or not field.is_sure or field.is_assumed:
            return ()
        held.update(dict.fromkeys(field.value))
    return tuple(held)


def _is_met(machine: Machine, value: Value, required: Collection[str]) -> bool:
    """Return whether every batch has what is asked for, and got it in the call that the run is in, or in its calls."""
    batches, since = map(machine.batch_at, value), machine.frame.number
    return all(one is not None and all(_is_set(one, name, since) for name in required) for one in batches)


def _is_set(batch: BatchObject, name: str, since: int) -> bool:
    field = batch.fields.get(name)
    return field is not None and field.is_sure and max(batch.activation, field.activation) >= since


def _misfit(machine: Machine, value: Value, kinds: Kinds) -> str:
    """Return what a value is, if it is certainly of none of some kinds; else an empty text."""
    if not all(_is_of_batches(kind.cls) or _name(kind) in _WORDS for kind in kinds):
        return ""
    found = {_kind_of(machine, atom, kinds) for atom in value}
    return " or ".join(sorted(found)) if "" not in found else ""


def _kind_of(machine: Machine, atom: Atom, kinds: Kinds) -> str:
    """Return what an atom is, if it is of none of some kinds; else an empty text."""
    names = {_name(kind) for kind in kinds}
    batch = machine.batch_at(atom)
    if batch is not None:
        is_reserved = not batch.fields and not batch.is_open
        is_taken = is_reserved or batch.may_be_field or any(_is_of_batches(kind.cls) for kind in kinds)
        return "" if is_taken else "a Batch"
    found = machine.object_at(atom)
    if isinstance(found, InstanceObject):
        is_plain = not found.may_be_derived and base_names(found.owner) <= PLAIN_BASES
        return _with_article(found.owner.name) if is_plain else ""
    if is_none(atom):
        return "" if _NONE in names else "None"
    if isinstance(atom, Literal) and isinstance(atom.value, str):
        return "" if "builtins.str" in names else "text"
    if isinstance(atom, Shaped) and isinstance(atom.held, Known):
        own = _TORCH if atom.held.torch else _NUMPY
        return "" if own in names else _WORDS[own]
    is_number = isinstance(atom, Shaped) and isinstance(atom.held, Scalar)
    if is_number or isinstance(atom, Array):
        return "" if names & (_WORDS.keys() - {_NONE, "builtins.str"}) else "an array or number"
    return ""


def _is_of_batches(cls: Atom) -> bool:
    is_plain = isinstance(cls, External) and shipped(cls.name) is Batch
    return is_plain or (isinstance(cls, (Class, External)) and declared_fields(cls) is not None)


def _name(kind: Kind) -> str:
    return kind.cls.name if isinstance(kind.cls, External) else ""


def _shown(kind: Kind) -> str:
    return _WORDS.get(_name(kind)) or _with_article(name_of(kind.cls))


def _with_article(name: str) -> str:
    return f"an {name}" if name[:1] in "AEIOUaeiou" else f"a {name}"
