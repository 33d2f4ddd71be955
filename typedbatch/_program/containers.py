"""Members of lists, tuples, sets, queues and dicts, and methods of texts."""

from __future__ import annotations

from typing import Final

from typedbatch._program.frames import Call
from typedbatch._program.heap import DictObject, Key, ListObject
from typedbatch._program.machine import Machine
from typedbatch._program.values import NONE, UNKNOWN, Literal, Ref, Value, constant, literal_of, text_of, union

_ADDING: Final = ("append", "add", "appendleft", "put", "put_nowait", "push")
_ADDING_ALL: Final = ("extend", "update", "extendleft", "insert")
_TAKING: Final = ("pop", "popleft", "get", "get_nowait")
_REORDERING: Final = (
    "clear", "remove", "sort", "reverse", "discard", "difference_update", "intersection_update",
    "symmetric_difference_update",
)  # fmt: skip
OF_TEXT: Final = frozenset({
    "capitalize", "endswith", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rstrip", "startswith",
    "strip", "title", "upper",
})  # fmt: skip
"""Methods of texts that decide on the name of a field, or make one of another."""


def call_text_member(receiver: Literal, name: str, call: Call) -> Value:
    """Call a method of a text that is known, if its arguments are."""
    given = [text_of(value) for value in call.args]
    if None in given or call.named or call.has_more or call.is_starred:
        return UNKNOWN
    try:
        made = getattr(receiver.value, name)(*given)
    except TypeError:
        return UNKNOWN
    return constant(made)


def call_list_member(machine: Machine, ref: Ref, name: str, call: Call) -> Value:
    """Call a member of a list, or of what is like one."""
    if name in _ADDING_ALL:
        given = call.args[-1] if call.args else UNKNOWN
        known, element = (None, given) if name == "insert" else machine.iterate(given, call.node)
        items = _list(machine, ref, union(element, *(known or ())))
        is_one = len(given) == 1 and ref not in machine.many and name == "extend"
        if items is not None and known is not None and is_one and machine.is_certain():
            _written(machine, ref).items = (*items, *known)
        return NONE
    if name in _ADDING:
        given = call.first or UNKNOWN
        items = _list(machine, ref, given)
        is_next = call.first is not None and ref not in machine.many and name in ("append", "put", "put_nowait")
        if items is not None and is_next and machine.is_certain():
            _written(machine, ref).items = (*items, given)
        return NONE
    if name in _TAKING:
        _list(machine, ref, ())
        return _written(machine, ref).element or UNKNOWN
    found = machine.object_at(ref)
    assert isinstance(found, ListObject)
    if name == "copy":
        return machine.list_of(found.items, found.element)
    if name in _REORDERING:
        _list(machine, ref, ())
        return NONE
    return _call_unknown(machine, ref, name, call)


def _call_unknown(machine: Machine, ref: Ref, name: str, call: Call) -> Value:
    """Call a member of which no row says what it does; Python's own names may do anything."""
    if name.startswith("__") or name in ("send", "asend"):
        machine.escape((ref, *(atom for value in call.values() for atom in value)))
    machine.escape_functions(call)
    return UNKNOWN


def _list(machine: Machine, ref: Ref, more: Value) -> tuple[Value, ...] | None:
    """Add a possible item, forget the order of the items, and return the items as they were known."""
    written = _written(machine, ref)
    items = written.items
    written.element, written.items = union(written.any_item, more), None
    return items


def _written(machine: Machine, ref: Ref) -> ListObject:
    written = machine.heap.write(ref)
    assert isinstance(written, ListObject)
    return written


def call_dict_member(machine: Machine, ref: Ref, name: str, call: Call) -> Value:
    """Call a member of a dict."""
    found = machine.object_at(ref)
    assert isinstance(found, DictObject)
    key = literal_of(call.first) if call.first is not None else None
    every = found.any_value
    match name:
        case "items":
            pairs = [machine.list_of([constant(one), value]) for one, value in found.items.items()]
            any_pair = machine.list_of([UNKNOWN, every or UNKNOWN])
            return machine.list_of(pairs if found.is_exact else None, any_pair)
        case "values":
            return machine.list_of([*found.items.values()] if found.is_exact else None, every or UNKNOWN)
        case "keys":
            keys = [constant(one) for one in found.items]
            return machine.list_of(keys if found.is_exact else None, UNKNOWN)
        case "get":
            if found.is_exact and key is not None:
                return found.items.get(key.value) or call.get(1, "default") or NONE
            known = found.items.get(key.value) if key is not None else None
            return union(known or every or UNKNOWN, call.get(1, "default") or NONE)
        case "pop" | "popitem":
            written = written_dict(machine, ref)
            written.is_exact, written.rest = False, union(written.rest, UNKNOWN)
            known = found.items.get(key.value) if key is not None else None
            return known or union(every, UNKNOWN)
        case "setdefault":
            return _setdefault(machine, ref, call)
        case "update":
            for value in call.args:
                update(machine, ref, value)
            written = written_dict(machine, ref)
            written.items.update(call.named)
            if call.has_more:
                written.is_exact, written.rest = False, union(written.rest, UNKNOWN)
            return NONE
        case "copy":
            copied = found.copy()
            return (machine.heap.add(copied),)
        case "clear":
            if ref not in machine.many:
                written_dict(machine, ref).items = {}
            return NONE
        case _:
            return _call_unknown(machine, ref, name, call)


def update(machine: Machine, ref: Ref, value: Value) -> None:
    """Add the items of another dict."""
    is_one = machine.is_one(value) and ref not in machine.many
    for atom in value:
        given, written = machine.object_at(atom), written_dict(machine, ref)
        if isinstance(given, DictObject):
            before = {} if is_one else {key: written.items.get(key, ()) for key in given.items}
            written.items.update({key: union(one, before.get(key, ())) for key, one in given.items.items()})
            written.is_exact &= given.is_exact and is_one
            written.rest = union(written.rest, given.rest)
        else:
            written.is_exact, written.rest = False, union(written.rest, UNKNOWN)


def written_dict(machine: Machine, ref: Ref) -> DictObject:
    """Return a dict to be changed."""
    written = machine.heap.write(ref)
    assert isinstance(written, DictObject)
    return written


def _setdefault(machine: Machine, ref: Ref, call: Call) -> Value:
    given, written = call.get(1, "default") or NONE, written_dict(machine, ref)
    every = written.any_value
    key = literal_of(call.first) if call.first is not None else None
    if key is None:
        written.is_exact, written.rest = False, union(written.rest, given)
        return union(every, given)
    name: Key = key.value
    written.items[name] = union(written.items.get(name, ()), given)
    return written.items[name]
