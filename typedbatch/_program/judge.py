"""Reports of reads of fields that are not there.

A report needs every batch that a value may be to lack the field, and all of them to be known to the last field. A
field that may be there is reported only if it depends on one ``if`` alone, in the call that made the batch, and if
the read is behind the same conditions, without an early exit between.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import Final

import numpy as np

from typedbatch._program import report
from typedbatch._program.classes import attribute_of, declared_fields, lineage, name_of
from typedbatch._program.heap import BatchObject, Field, Place
from typedbatch._program.machine import Machine
from typedbatch._program.near import near_miss
from typedbatch._program.shipped import MEMBERS, shipped
from typedbatch._program.tensor_names import TENSOR_NAMES
from typedbatch._program.values import NONE, UNKNOWN, Atom, Class, External, Member, Ref, Value, is_none, union

OF_VALUES: Final = frozenset({*dir(np.ndarray), *dir(dict), *dir(list), *dir(str), *dir(float)}) | TENSOR_NAMES
"""Members of arrays and containers, which a value of unknown kind may have."""


def read_field(
    machine: Machine, value: Value, name: str, node: ast.AST | None, *, is_asked: bool = False, is_item: bool = False
) -> Value:
    """Return a field of what may be batches, and report it if none of them has it.

    Args:
        machine: The run.
        value: What the owner of the field may be.
        name: Name of the field.
        node: The read, for the report; None if nothing is to be reported.
        is_asked: Whether the program can do without the field, as with a default.
        is_item: Whether the name is a key, as in ``batch["items"]``, which is not a method.
    """
    found: list[Value] = []
    lacking: list[Ref] = []
    is_known, is_maybe = True, False
    for atom in value:
        batch = machine.batch_at(atom)
        if batch is None or not isinstance(atom, Ref):
            is_known = is_known and is_none(atom)
            continue
        field = batch.fields.get(name)
        is_field = field is not None or is_asked or (is_item and name in MEMBERS)
        member = None if is_field else member_of(machine, atom, name, node)
        if field is not None:
            found.append(field.value)
            if field.is_sure or field.condition is None or is_asked:
                is_known = False
            else:
                is_maybe = True
        elif name == "__dict__":
            machine.open_batch(atom)
            is_known = False
        elif member is not None:
            found.append(member)
            is_known = False
        elif name.startswith("__"):
            return UNKNOWN
        else:
            lacking.append(atom)
            found.append(batch.rest or UNKNOWN)
            if batch.may_be_field and is_known:  # It may be no batch, unless the name is one of a field.
                is_near = name in machine.vocabulary.names or near_miss(name, batch.fields)
                is_known = name not in OF_VALUES and bool(is_near)
    if is_known and node is not None and not is_asked:
        if lacking and not is_maybe:
            _report_missing(machine, lacking, name, has_in(machine, value), node)
        elif is_maybe and not lacking and len(value) == 1:
            report_maybe(machine, value[0], name, node)
    return union(*found) or UNKNOWN


def has_in(machine: Machine, value: Value) -> set[str]:
    """Return the names of the fields of batches."""
    return {name for atom in value if (batch := machine.batch_at(atom)) is not None for name in batch.names}


def class_of(machine: Machine, value: Value) -> str:
    """Return the name of the record or protocol that the first declared one of some batches is."""
    batches = (machine.batch_at(atom) for atom in value)
    return next((name_of(batch.declared) for batch in batches if batch is not None and batch.declared), "Batch")


def made_at(machine: Machine, value: Value) -> Place | None:
    """Return where the first of the batches is made."""
    batches = (machine.batch_at(atom) for atom in value)
    return next((batch.place for batch in batches if batch is not None and batch.place is not None), None)


def _report_missing(machine: Machine, lacking: list[Ref], name: str, names: Collection[str], node: ast.AST) -> None:
    batches = [machine.batch_at(ref) for ref in lacking]
    if machine.frame.dispatches and all(one is None or one.activation != machine.frame.number for one in batches):
        return
    if any(machine.is_answered(ref, name) for ref in lacking):
        return
    is_of_module = any(batch is not None and batch.activation in machine.tops for batch in batches)
    if machine.is_alone and is_of_module and name in machine.vocabulary.names:
        return  # Functions may have changed it before, in any order.
    owner = class_of(machine, tuple(lacking))
    at = _call_with(machine, lacking)
    text = report.missing(name, names, owner, at)
    is_attribute = isinstance(node, ast.Attribute)
    if any(batch is not None and not _is_closed(batch, is_attribute=is_attribute) for batch in batches):
        vocabulary = machine.vocabulary
        near = "" if name in vocabulary.names else near_miss(name, names)
        if not near and (not machine.program.shows_all or vocabulary.may_make(name)):
            return
        text = report.missing(name, [near], owner, at) if near else report.unmade(name, vocabulary.names, owner, at)
    else:
        machine.leave_to_handler()
    if machine.report(node, report.FIELD, text, [name], made_at(machine, tuple(lacking))):
        assume(machine, tuple(lacking), [name])


def _is_closed(batch: BatchObject, *, is_attribute: bool) -> bool:
    """Return whether a batch has no fields beside those that are known, for an attribute or for an item."""
    return not batch.is_open or batch.is_annotated or (is_attribute and batch.is_typed)


def _call_with(machine: Machine, lacking: list[Ref]) -> str:
    """Return where the function is called that the run is in, if the call gives it one of some batches."""
    frame = machine.frame
    if frame.code is None or not isinstance(frame.call, ast.expr) or len(machine.frames) < 2:
        return ""
    args = frame.code.node.args
    given = [machine.lookup(one.arg) for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    if not any(atom in lacking for value in given for atom in value):
        return ""
    return f"{machine.frames[-2].source.path.name}:{frame.call.lineno}"


def assume(machine: Machine, value: Value, names: Iterable[str]) -> None:
    """Go on as if batches had the fields that are reported, so that each is reported once."""
    for atom in value:
        if isinstance(atom, Ref) and machine.is_batch(atom):
            machine.write_batch(atom).fields.update({name: Field(UNKNOWN, is_assumed=True) for name in names})


def report_maybe(machine: Machine, atom: Atom, name: str, node: ast.AST, asked: str = "", within: str = "") -> None:
    """Report a field that one branch alone sets, if the run is where the branches have just ended.

    Args:
        machine: The run.
        atom: The batch.
        name: Name of the field.
        node: Where it is needed.
        asked: The protocol or record that asks for it; empty if it is read.
        within: Path of the batch in the one that is handed over.
    """
    batch = machine.batch_at(atom)
    field = batch.fields.get(name) if batch is not None and not batch.is_open else None
    condition = field.condition if field is not None and not field.is_sure else None
    if field is None or condition is None or not isinstance(atom, Ref):
        return
    if condition.guards != machine.guards or machine.exits > condition.exits:
        return
    line = getattr(condition.place.node, "lineno", 0) if condition.place is not None else 0
    text = report.may_lack(asked, within + name, line) if asked else report.maybe(name, line)
    if machine.report(node, report.MAYBE, text, [name], condition.place):
        machine.write_batch(atom).fields[name] = Field(field.value)


def member_of(machine: Machine, ref: Ref, name: str, node: ast.AST | None) -> Value | None:
    """Return a member of a batch that is not a field: of its class, or of every batch."""
    batch = machine.batch_at(ref)
    declared = batch.declared if batch is not None else None
    if isinstance(declared, Class):
        found = attribute_of(declared, name)
        if found is not None:
            return machine.bound(found, ref, node)
        if attribute_of(declared, "__getattr__") or attribute_of(declared, "__getattribute__"):
            return UNKNOWN
        fields = declared_fields(declared)
        if fields is not None and name in fields.optional:
            return union(UNKNOWN, NONE)
        if (fields is None or name not in fields.required) and _is_shipped_member(declared, name):
            return (Member(ref, name),)
    elif isinstance(declared, External):
        fields = declared_fields(declared)
        if fields is not None and name in fields.optional:
            return UNKNOWN
        if (fields is None or name not in fields.required) and hasattr(shipped(declared.name), name):
            return (Member(ref, name),)
    return (Member(ref, name),) if name in MEMBERS else None


def _is_shipped_member(cls: Class, name: str) -> bool:
    """Return whether a class inherits a member, such as the sides of ``Pairs``, from one of this package."""
    return any(isinstance(base, External) and hasattr(shipped(base.name), name) for base in lineage(cls))
