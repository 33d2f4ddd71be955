"""What is known where two ways meet: of a value, and of an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from typedbatch.mypy.batches.content import NOTHING, Choice, Content, Field, Items, Presence, Ref
from typedbatch.mypy.types.fields import Rest

Join = Callable[[Any, Any], Any]
Decide = Callable[[int], Choice | None]
"""Make the choice of a field that the given line sets or removes; None where it cannot be told what decides."""


def nothing_decides(line: int) -> None:
    """Tell of no field what decides whether it is there."""


def joined_objects(one: Any, other: Any, join: Join, decide: Decide = nothing_decides) -> Any:
    """Return the content of an object that is as one of two ways has left it."""
    if one is other:
        return one
    if isinstance(one, Items) and isinstance(other, Items):
        return _joined_items(one, other, join)
    if isinstance(one, Content) and isinstance(other, Content):
        return _joined_contents(one, other, join, decide)
    return Content(rest=Rest.DECLARED, escaped=True)


def _joined_items(one: Items, other: Items, join: Join) -> Items:
    shared = {key: _either(value, other.known[key], join) for key, value in one.known.items() if key in other.known}
    others = _either(one.others, other.others, join)
    for items in (one, other):
        for key, value in items.known.items():
            if key not in shared:
                others = _either(others, value, join)
    return Items(shared, others, one.escaped or other.escaped, one.keyed and other.keyed)


def _either(one: Any, other: Any, join: Join) -> Any:
    if one is NOTHING:
        return other
    return one if other is NOTHING else join(one, other)


def _joined_contents(one: Content, other: Content, join: Join, decide: Decide) -> Content:
    fields = {}
    for name in {**one.fields, **other.fields}:
        fields[name] = _joined_fields(one, other, name, join, decide)
    absent: Mapping[str, int] = {}
    if one.absent and other.absent:
        absent = {name: line for name, line in one.absent.items() if name in other.absent}
    rest = one.rest if one.rest is other.rest else Rest.OPEN
    if rest is not Rest.NONE:
        taken = {*one.absent, *other.absent} - absent.keys() - fields.keys()
        fields.update((name, Field(sure=False)) for name in taken)
    source = one.source if one.source == other.source else None
    return Content(fields, rest, absent, one.escaped or other.escaped, one.widened or other.widened, source)


def _joined_fields(one: Content, other: Content, name: str, join: Join, decide: Decide) -> Field:
    here, there = one.fields.get(name), other.fields.get(name)
    if here is not None and there is not None:
        if here is there:
            return here
        value, line = join(here.value, there.value), max(here.line, there.line)
        return Field(value, line, here.sure and there.sure, _joined_choices(here, there, decide))
    found, lacking = (here, other) if here is not None else (there, one)
    assert found is not None
    is_absent = lacking.presence(name) is Presence.ABSENT
    is_known = found.sure or found.choice is not None
    if not is_absent:
        return replace(found.unsure, value=join(found.value, None))
    if not is_known or one.escaped or other.escaped:
        return found.unsure
    return Field(found.value, found.line, False, decide(max(found.line, lacking.absent.get(name, 0))))


def _joined_choices(here: Field, there: Field, decide: Decide) -> Choice | None:
    """Return what decides about a field that is sure on one way; several that set it may mean a missing ``else``."""
    if here.choice == there.choice:
        return here.choice
    if here.sure == there.sure:
        return None
    choice = there.choice if here.sure else here.choice
    return None if choice is None or choice.implicit or choice.exits < 0 else decide(choice.line)


def renamed(value: Any, old: Any, new: Any) -> Any:
    """Return a reference or the content of an object with another name for one object."""
    if isinstance(value, Ref):
        return Ref(value.objects - {old} | {new}, value.choice) if old in value.objects else value
    if isinstance(value, Items):
        known = {key: renamed(item, old, new) for key, item in value.known.items()}
        return replace(value, known=known, others=renamed(value.others, old, new))
    if isinstance(value, Content):
        changed = {}
        for name, field in value.fields.items():
            inner = renamed(field.value, old, new)
            if inner is not field.value:
                changed[name] = Field(inner, field.line, field.sure, field.choice)
        return replace(value, fields={**value.fields, **changed}) if changed else value
    return value
