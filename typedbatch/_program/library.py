"""Effects of this package on batches: a row for each member of Batch, for buffers, and for its functions.

A row is a function of the machine, the receiver and the call. It returns the value of the call, and does to the objects
what the call does. The mypy plugin's hooks and the run read the same declarations of records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from typedbatch._program import batch_arrays, report
from typedbatch._program.arrays.values import Array
from typedbatch._program.arrays.values import Value as ArrayValue
from typedbatch._program.classes import declared_fields, name_of
from typedbatch._program.fitting import fit_extended, fit_fields, take_declared
from typedbatch._program.frames import Call
from typedbatch._program.heap import BatchObject, BufferObject, DictObject, Field, ListObject
from typedbatch._program.judge import assume, class_of, has_in, made_at, read_field
from typedbatch._program.machine import Machine
from typedbatch._program.needs import lacks, need
from typedbatch._program.shipped import GROUPS, MEMBERS, declared_by, name_in_full, parameters_of, shipped
from typedbatch._program.shipped_arrays import ARRAYS, of_group
from typedbatch._program.swapped import RETURNED, check_arguments
from typedbatch._program.values import (
    ARRAY,
    NONE,
    UNKNOWN,
    Atom,
    Class,
    External,
    Kind,
    Ragged,
    Ref,
    Result,
    Value,
    constant,
    is_none,
    text_of,
    union,
)  # fmt: skip
from typedbatch.batch import Batch

Change = Callable[[Array], ArrayValue]
MemberRow = Callable[[Machine, Ref, Call], Value]
FunctionRow = Callable[[Machine, Call], Value]


# Making and merging


def make(machine: Machine, call: Call, cls: Class | External | None = None) -> Value:
    """Make a batch, or a record, of a call of its class."""
    batch = machine.batch(declared=cls, node=call.node)
    fields = {name: value for name, value in call.named.items() if name not in ("copy", "meta")}
    if call.first is not None:
        merge(machine, batch, call.first)
    for name, value in fields.items():
        machine.set_field(batch, name, value)
    if call.has_more or call.is_starred:
        machine.open_batch(batch)
    if cls is not None:
        fit_fields(machine, batch, cls, call)
    made = machine.write_batch(batch)
    declared = declared_fields(cls) if cls is not None else None
    if declared is not None and cls is not None:
        lacking = declared.required - made.fields.keys()
        if lacking and not made.is_open and call.node is not None:
            machine.report(call.node, report.ARGUMENT, report.unfilled(f"{name_of(cls)}()", lacking), lacking)
        for name in lacking:
            machine.set_field(batch, name, UNKNOWN)
    return (batch,)


def merge(machine: Machine, batch: Ref, value: Value, *, copies: bool = True) -> None:
    """Add the fields of another batch or dict, with copies of the batches in a batch, or with these themselves."""
    parts = [_fields_of(machine, atom, copies=copies) for atom in value]
    others = [other for _, other in parts if other is not None]
    if others:
        machine.open_batch(batch, union(*others) if all(others) else ())
    every = [fields for fields, _ in parts]
    for name in dict.fromkeys(name for fields in every for name in fields):
        given = [fields[name] for fields in every if name in fields]
        is_sure = len(given) == len(every) and all(field.is_sure for field in given)
        value = union(*(field.value for field in given))
        before = machine.batch_at(batch)
        known = before.fields.get(name) if before is not None else None
        if not is_sure and known is not None:
            value, is_sure = union(value, known.value), known.is_sure
        condition = given[0].condition if len(every) == 1 else None
        machine.set_field(batch, name, value, is_sure=is_sure, condition=condition)


def _fields_of(machine: Machine, atom: Atom, *, copies: bool = True) -> tuple[Mapping[str, Field], Value | None]:
    """Return the fields that a value gives to a batch that is made of it, and what others may be; None for no others.

    Where others may be anything, their value has no atoms.
    """
    match machine.object_at(atom):
        case BatchObject() if isinstance(atom, Ref):
            given = machine.batch_at(machine.copy_batch(atom) if copies else atom)
            assert given is not None
            return dict(given.fields), given.rest if given.is_open else None
        case DictObject() as found:
            fields = {str(key): Field(value) for key, value in found.items.items()}
            return fields, None if found.is_exact else found.rest
        case ListObject() as found:
            rows = tuple(machine.stored(atom) for atom in found.any_item)
            joined = machine.batch_at(join(machine, rows))
            assert joined is not None
            return dict(joined.fields), joined.rest if joined.is_open else None
        case _:
            return {}, None if is_none(atom) else ()


def join(machine: Machine, value: Value, change: Change = batch_arrays.anything) -> Ref:
    """Make the batch that ``cat`` or ``stack`` makes of batches, any of which may be an element; change its arrays."""
    batch = machine.batch()
    batches = tuple(atom for atom in value if machine.is_batch(atom))
    if not batches or len(batches) < len(value):
        machine.open_batch(batch)
    if batches:
        merge(machine, batch, batches)
        batch_arrays.changed(machine, batch, change)
        declared = [found.declared for atom in batches if (found := machine.batch_at(atom)) is not None]
        if all(one is declared[0] or one == declared[0] for one in declared):
            machine.write_batch(batch).declared = declared[0]
    return batch


def joined(machine: Machine, call: Call, *, is_strict: bool = False, change: Change = batch_arrays.anything) -> Value:
    """Make the batch of ``Batch.cat(batches)``, of ``stack`` and of ``from_rows``.

    Args:
        machine: The run.
        call: The call.
        is_strict: Whether all batches must have the same fields.
        change: What each array in it becomes.
    """
    if call.first is None:
        return UNKNOWN
    items, element = machine.iterate(call.first, call.node)
    if is_strict:
        _need_same_fields(machine, items or (), call)
    parts: list[Atom] = []
    for atom in element:
        stored = machine.stored(atom)
        parts.append(machine.batch(is_open=True) if not isinstance(stored, Ref) else stored)
    return (join(machine, tuple(parts), change),)


def _need_same_fields(machine: Machine, items: Sequence[Value], call: Call) -> None:
    """Report batches of different fields; those without fields may stand beside others."""
    batches = [machine.batch_at(item[0]) for item in items if len(item) == 1]
    exact = [one for one in batches if one is not None and _is_exact(one) and not one.may_be_field]
    filled = [one.names for one in exact if one.names and one.names == one.fields.keys()]
    different = {name for names in filled for name in names if not all(name in others for others in filled)}
    if different and call.node is not None and call.get(1, "missing") is None:
        machine.report(call.node, report.ARGUMENT, report.different(different), different)


# Members of a batch


def _copies(change: Change, *, is_typed: bool = True) -> MemberRow:
    """Return a row of a member that returns a copy, in which each array is changed."""

    def row(machine: Machine, batch: Ref, call: Call) -> Value:
        machine.escape_functions(call)
        copied = machine.copy_batch(batch, is_typed=is_typed)
        batch_arrays.changed(machine, copied, change)
        return (copied,)

    return row


def _transformed(machine: Machine, batch: Ref, call: Call) -> Value:
    """Make the batch in which a function of the caller's has changed each array, in a copy or in place."""
    made = _copies(_of_any_library, is_typed=False)(machine, batch, call)
    if "inplace" not in call.named and len(call.args) < 2:
        return made
    return union(made, _changes(_of_any_library)(machine, batch, call))


def _reads(machine: Machine, batch: Ref, call: Call) -> Value:
    return UNKNOWN


def _changes(change: Change) -> MemberRow:
    """Return a row of a member that changes each array in place."""

    def row(machine: Machine, batch: Ref, call: Call) -> Value:
        batch_arrays.changed(machine, batch, change)
        return NONE

    return row


def _same(array: Array) -> ArrayValue:
    return array


def _of_any_library(array: Array) -> ArrayValue:
    return None


def _returns_itself(machine: Machine, batch: Ref, call: Call) -> Value:
    return (batch,)


def _split(machine: Machine, batch: Ref, call: Call) -> Value:
    found = machine.batch_at(batch)
    if found is not None and found.may_be_empty:
        return machine.list_of(None, UNKNOWN) if found.fields else machine.list_of([])
    part = machine.copy_batch(batch)
    batch_arrays.changed(machine, part, batch_arrays.same_rows(machine))
    return machine.list_of(None, (part,))


def _update(machine: Machine, batch: Ref, call: Call) -> Value:
    for value in call.args:
        merge(machine, batch, value, copies=False)
    if call.has_more or call.is_starred:
        machine.open_batch(batch)
    for name, value in call.named.items():
        machine.set_field(batch, name, value, node=call.node)
    return NONE


def _join_to(machine: Machine, batch: Ref, call: Call) -> Value:
    given = call.first or UNKNOWN
    element = given if machine.is_batch(given[0]) else machine.iterate(given, call.node)[1]
    merge(machine, batch, (join(machine, element),))
    return NONE


def _cat_to(machine: Machine, batch: Ref, call: Call) -> Value:
    given = call.first or UNKNOWN
    items = [given] if machine.is_batch(given[0]) else machine.iterate(given, call.node)[0]
    _need_same_fields(machine, [(batch,), *(items or ())], call)
    return _join_to(machine, batch, call)


def _key_of(call: Call) -> str | None:
    return text_of(call.get(0, "key"))


def _unsure(machine: Machine, batch: Ref) -> None:
    """Make every field one that may be there."""
    written = machine.write_batch(batch)
    written.fields = {name: Field(field.value, is_sure=False) for name, field in written.fields.items()}


def _pop(machine: Machine, batch: Ref, call: Call) -> Value:
    key = _key_of(call)
    if key is None:
        _unsure(machine, batch)
        return UNKNOWN
    value = _get(machine, batch, call)
    fields = machine.write_batch(batch).fields
    field = fields.pop(key, None)
    if field is not None and batch in machine.many:
        fields[key] = Field(field.value, is_sure=False)
    return value


def _popitem(machine: Machine, batch: Ref, call: Call) -> Value:
    _unsure(machine, batch)
    return UNKNOWN


def _clear(machine: Machine, batch: Ref, call: Call) -> Value:
    if batch in machine.many:
        _unsure(machine, batch)
        return NONE
    written = machine.write_batch(batch)
    written.fields, written.is_open, written.rest = {}, False, ()
    return NONE


def _setdefault(machine: Machine, batch: Ref, call: Call) -> Value:
    key, found = _key_of(call), machine.batch_at(batch)
    if key is None or found is None:
        return UNKNOWN
    field = found.fields.get(key)
    if field is not None and field.is_sure:
        return field.value
    value = union(call.get(1, "default") or UNKNOWN, UNKNOWN)
    machine.set_field(batch, key, value)
    return value


def _get(machine: Machine, batch: Ref, call: Call) -> Value:
    key, found, default = _key_of(call), machine.batch_at(batch), call.get(1, "default") or NONE
    field = found.fields.get(key) if found is not None and key is not None else None
    if field is None:
        rest = found.rest if found is not None and key is not None else ()
        is_gone = key is not None and found is not None and not found.is_open
        return default if is_gone else union(rest or UNKNOWN, default)
    return field.value if field.is_sure else union(field.value, default)


def _is_exact(batch: BatchObject) -> bool:
    return not batch.is_open and all(field.is_sure for field in batch.fields.values())


def _keys(machine: Machine, batch: Ref, call: Call) -> Value:
    found = machine.batch_at(batch)
    if found is None or not _is_exact(found):
        return machine.list_of(None, UNKNOWN)
    return machine.list_of([constant(name) for name in found.fields])


def _values(machine: Machine, batch: Ref, call: Call) -> Value:
    found = machine.batch_at(batch)
    assert found is not None
    values = [field.value for field in found.fields.values()]
    return machine.list_of(values if _is_exact(found) else None, union(UNKNOWN, *values))


def _items(machine: Machine, batch: Ref, call: Call) -> Value:
    found = machine.batch_at(batch)
    assert found is not None
    any_item = machine.list_of([UNKNOWN, union(UNKNOWN, *(field.value for field in found.fields.values()))])
    if not _is_exact(found):
        return machine.list_of(None, any_item)
    pairs = [machine.list_of([constant(name), field.value]) for name, field in found.fields.items()]
    return machine.list_of(pairs, any_item)


def _set_array_at_key(machine: Machine, batch: Ref, call: Call) -> Value:
    key = text_of(call.get(1, "key"))
    if key is None:
        machine.open_batch(batch)
    else:
        machine.set_field(batch, key, UNKNOWN)
    return NONE


def _to_dict(machine: Machine, batch: Ref, call: Call) -> Value:
    found = machine.batch_at(batch)
    assert found is not None
    is_exact = _is_exact(found)
    values = {name: field.value for name, field in found.fields.items()}
    return machine.dict_of({**values}, is_exact=is_exact, rest=() if is_exact else UNKNOWN)


def _set_by_name(machine: Machine, batch: Ref, call: Call) -> Value:
    name = text_of(call.first)
    if name is None:
        machine.open_batch(batch)
    else:
        machine.set_field(batch, name, call.args[1] if len(call.args) > 1 else UNKNOWN, node=call.node)
    return NONE


def _read_by_name(machine: Machine, batch: Ref, call: Call) -> Value:
    name = text_of(call.first)
    if name is None:
        return _copies(batch_arrays.anything)(machine, batch, call)
    return read_field(machine, (batch,), name, call.node)


def _delete_by_name(machine: Machine, batch: Ref, call: Call) -> Value:
    _pop(machine, batch, call)
    return NONE


def _has_name(machine: Machine, batch: Ref, call: Call) -> Value:
    machine.may_have((batch,), text_of(call.first))
    return UNKNOWN


BATCH: Final[Mapping[str, MemberRow]] = {
    **dict.fromkeys(("__copy__", "__deepcopy__", "copy", "pin_memory"), _copies(lambda array: array)),
    "apply_values_transform": _transformed,
    **dict.fromkeys(("empty", "to_at_least_2d"), _copies(batch_arrays.anything)),
    "dropnull": _copies(batch_arrays.some_rows),
    "isnull": _copies(batch_arrays.anything, is_typed=False),
    "to": _copies(batch_arrays.retyped),
    "to_numpy": _copies(batch_arrays.in_library(torch=False), is_typed=False),
    "to_torch": _copies(batch_arrays.in_library(torch=True), is_typed=False),
    **dict.fromkeys(("__delattr__", "__delitem__"), _delete_by_name),
    **dict.fromkeys(("__getattr__", "__getattribute__", "__getitem__"), _read_by_name),
    **dict.fromkeys(("__setattr__", "__setitem__"), _set_by_name),
    "__contains__": _has_name,
    **dict.fromkeys(
        ("allclose", "hasnull", "is_empty", "meta", "shape", "to_list_of_dicts"), _reads
    ),
    **dict.fromkeys(("replace_empty_batches_by_none", "set_rows"), _changes(lambda array: array)),
    "to_numpy_": _changes(batch_arrays.in_library(torch=False)),
    "to_torch_": _changes(batch_arrays.in_library(torch=True)),
    **dict.fromkeys(("get_keys", "keys"), _keys),
    "cat_": _cat_to,
    "stack_": _join_to,
    "clear": _clear,
    "empty_": _returns_itself,
    "get": _get,
    "items": _items,
    "pop": _pop,
    "popitem": _popitem,
    "set_array_at_key": _set_array_at_key,
    "setdefault": _setdefault,
    "split": _split,
    "to_dict": _to_dict,
    "update": _update,
    "values": _values,
}  # fmt: skip
"""Members of a batch. Python's own names and those of the class are elsewhere."""


def call_member(machine: Machine, batch: Ref, name: str, call: Call) -> Value:
    """Call a member of a batch."""
    row = BATCH.get(name)
    return UNKNOWN if row is None else row(machine, batch, call)


def call_class_member(machine: Machine, name: str, call: Call) -> Value:
    """Call a member of Batch, or of a record, by the class."""
    if name in ("cat", "stack", "from_rows"):
        change = batch_arrays.some_rows if name == "cat" else batch_arrays.anything
        return joined(machine, call, is_strict=name != "stack", change=change)
    if call.first is None or name not in MEMBERS:
        return UNKNOWN
    if name == "empty":
        return machine.copied(call.first)
    rest = Call(call.args[1:], call.named, call.node, call.has_more, call.is_starred)
    return union(
        *(
            call_member(machine, atom, name, rest) if isinstance(atom, Ref) and machine.is_batch(atom) else UNKNOWN
            for atom in call.first
        )
    )


# Functions


def call_function(machine: Machine, name: str, call: Call) -> Value:
    """Call a class or function of this package."""
    if name.startswith(f"{GROUPS}."):
        return of_group(machine, call)
    found, last = shipped(name), name.rpartition(".")[2]
    if found is Batch:
        return make(machine, call)
    if isinstance(found, type):
        if declared_by(found) is not None and found.__name__ != "MultiAgentBatch":
            return make(machine, call, External(name))
        if found.__name__ == "Ragged" and call.first is not None:
            return (Ragged(call.first),)
        if "ReplayBuffer" in found.__name__:
            return (machine.heap.add(BufferObject(found)),)
        machine.escape_functions(call)
        for value in call.args:
            machine.escape(value)
        return (machine.batch(is_open=True),) if issubclass(found, Batch) else (Result(name),)
    if callable(found):
        _check_arguments(machine, found, call)
    row = FUNCTIONS.get(last)
    if row is not None:
        return row(machine, call)
    machine.escape_functions(call)
    return UNKNOWN


def _check_arguments(machine: Machine, function: object, call: Call) -> None:
    """Report arguments that lack what the annotations of a function of this package ask for."""
    parameters = parameters_of(function)
    if call.node is not None and call.node not in machine.called:
        machine.called[call.node] = RETURNED.get(getattr(function, "__name__", ""), ())
        given = [
            (one.name, call.argument(at if one.is_positional else None, one.name)) for at, one in enumerate(parameters)
        ]
        check_arguments(machine, call.node, given)
    for at, parameter in enumerate(parameters):
        value = call.get(at, parameter.name) if parameter.is_positional else call.named.get(parameter.name)
        if value is None:
            continue
        declared = declared_by(parameter.type) if parameter.type is not None else None
        if parameter.type is not None and declared is not None and declared.required:
            kind = Kind(External(name_in_full(parameter.type)), (None,))  # Its type arguments are not known.
            need(machine, value, kind, call.argument(at, parameter.name))


def _extend(machine: Machine, call: Call) -> Value:
    return _into(machine, call, "extend")


def _validate(machine: Machine, call: Call) -> Value:
    return _into(machine, call, "validate")


def _convert(machine: Machine, call: Call) -> Value:
    return _into(machine, call, "convert")


def _into(machine: Machine, call: Call, how: str) -> Value:
    """Make what ``extend``, ``validate`` or ``convert`` make of a batch, and report what it lacks for it."""
    if len(call.args) < 2:
        return UNKNOWN
    source, wanted = call.args[0], call.args[1]
    cls = wanted[0]
    declared = declared_fields(cls) if len(wanted) == 1 else None
    if declared is None or not isinstance(cls, (Class, External)):
        return UNKNOWN
    more = dict(call.named) if how == "extend" else {}
    lacking = set[str]() if call.has_more else lacks(machine, source, declared.required) - more.keys()
    if lacking and call.node is not None:
        if how == "extend":
            code, text = report.EXTEND, report.unfilled(f"extend() to {name_of(cls)}", lacking)
        else:
            code = report.EXTEND if how == "convert" else report.ARGUMENT
            text = report.lacking(name_of(cls), lacking, has_in(machine, source), class_of(machine, source))
        machine.report(call.node, code, text, lacking, made_at(machine, source))
        if how == "validate":  # It raises, so nothing comes behind it with such a batch.
            assume(machine, source, lacking)
    batch = join(machine, source, _of_any_library if how == "convert" else _same)
    machine.write_batch(batch).declared = cls
    if call.has_more or how == "convert":
        machine.open_batch(batch)
    for name, value in more.items():
        machine.set_field(batch, name, value)
    if more:
        fit_extended(machine, batch, cls, call)
    take_declared(machine, batch, cls)
    return (batch,)


def _with_targets(machine: Machine, call: Call) -> Value:
    """Make the batch with returns and advantages."""
    machine.escape_functions(call)
    made: list[Atom] = []
    for atom in call.first or UNKNOWN:
        if not isinstance(atom, Ref) or not machine.is_batch(atom):
            made.append(UNKNOWN[0])
            continue
        batch = machine.copy_batch(atom)
        fields = machine.write_batch(batch).fields
        for name in ("returns", "adv", "v_s", "advantages"):
            fields.setdefault(name, Field(UNKNOWN))
        made.append(batch)
    return tuple(made)


def _copy(machine: Machine, call: Call) -> Value:
    made = machine.copied(call.first or UNKNOWN)
    for atom in made:
        if isinstance(atom, Ref):
            batch_arrays.changed(machine, atom, batch_arrays.anything)
    return made


def _chunk(machine: Machine, call: Call) -> Value:
    return machine.list_of(None, _copy(machine, call))


def _pad(machine: Machine, call: Call) -> Value:
    return machine.list_of([_copy(machine, call), ARRAY])


def _union(machine: Machine, call: Call) -> Value:
    made = _copy(machine, call)
    for atom in made:
        if isinstance(atom, Ref):
            merge(machine, atom, call.get(1, "other") or UNKNOWN)
    return made


def _project(machine: Machine, call: Call) -> Value:
    return _into(machine, call, "project")


def _conforms(machine: Machine, call: Call) -> Value:
    machine.escape(call.first or UNKNOWN)
    return UNKNOWN


FUNCTIONS: Final[Mapping[str, FunctionRow]] = {
    "cat": partial(joined, is_strict=True, change=batch_arrays.some_rows),
    **dict.fromkeys(("restore", "stack"), joined),
    **dict.fromkeys(("add_gae", "add_nstep", "compute_nstep_return"), _with_targets),
    **dict.fromkeys(("repeat", "trim"), _copy),
    **ARRAYS,
    "chunk": _chunk,
    "conforms": _conforms,
    "convert": _convert,
    "extend": _extend,
    "pad_rows": _pad,
    "project": _project,
    "union": _union,
    "validate": _validate,
}
"""Functions of this package. Of any other, the result is unknown, and its arguments stay as they are."""
