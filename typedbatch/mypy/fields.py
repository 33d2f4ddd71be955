"""What the plugin knows of a batch, and how that is written as a type.

A plain ``Batch`` is ``Batch[Any]`` under the plugin. One whose fields are known is ``Batch[Any | {obs: ..., act: ..}]``
with an anonymous TypedDict, and a third item, ``More``, if it may have others. The ``Any`` lets every Batch stand for
every other, as they are one class to Python, so that variables can be bound again and lists can be mixed. The rest
keeps them apart where mypy follows a name line by line, as that compares properly: without ``Any`` as a wildcard.
"""

from __future__ import annotations

from collections.abc import Mapping

from mypy.types import AnyType, Instance, Type, TypedDictType, TypeOfAny, UnionType, get_proper_type

from typedbatch.mypy.internals import Api, class_named, same

BATCH = "typedbatch.batch.Batch"
MISSING = "typedbatch._typing.Missing"
MORE = "typedbatch._typing.More"
REST = "..."
"""Among fields, this name says that there may be others."""

Fields = dict[str, Type]


def known_fields(type_: Type | None) -> Fields | None:
    """The fields of a batch that the plugin knows; None for a plain Batch, and for anything else.

    Where lists are mixed or names bound again, mypy may join several field sets into one type; then a field counts as
    there when any of them has it.
    """
    sets = _field_sets(type_)
    if not sets:
        return None
    merged: Fields = {}
    for fields in sets:
        for name, item in fields.items():
            merged[name] = item if name not in merged or same(merged[name], item) else anything()
    return merged


def _field_sets(type_: Type | None) -> list[Mapping[str, Type]]:
    proper = get_proper_type(type_) if type_ is not None else None
    if not isinstance(proper, Instance) or proper.type.fullname != BATCH or len(proper.args) != 1:
        return []
    inner = get_proper_type(proper.args[0])
    items = [get_proper_type(item) for item in inner.items] if isinstance(inner, UnionType) else [inner]
    sets: list[Mapping[str, Type]] = [item.items for item in items if isinstance(item, TypedDictType)]
    if sets and any(isinstance(item, Instance) and item.type.fullname == MORE for item in items):
        sets.append({REST: anything()})
    return sets


def alternatives(type_: Type | None) -> list[Type]:
    """The items of a union, one for each path by which the line is reached; else the type itself."""
    proper = get_proper_type(type_) if type_ is not None else None
    if isinstance(proper, UnionType):
        return [inner for item in proper.items for inner in alternatives(item)]
    return [] if proper is None else [proper]


def is_batch(type_: Type | None) -> bool:
    """Is it ``Batch`` itself, plain or known; not a class derived from it."""
    proper = get_proper_type(type_) if type_ is not None else None
    return isinstance(proper, Instance) and proper.type.fullname == BATCH


def batch_of(api: Api, fields: Fields) -> Type:
    """The type of a batch with these fields. Names are sorted, as mypy's cache sorts them: messages must not change."""
    info, more, fallback = (class_named(api, name) for name in (BATCH, MORE, "typing._TypedDict"))
    if info is None or more is None or fallback is None:
        return anything()
    items = {name: fields[name] for name in sorted(fields) if name != REST}
    known = TypedDictType(items, set(items), set(items), Instance(fallback, []))
    rest: list[Type] = [Instance(more, [])] if REST in fields else []
    return Instance(info, [UnionType([anything(), known, *rest])])


def plain_batch(api: Api) -> Type:
    """A Batch of which nothing is known."""
    info = class_named(api, BATCH)
    return Instance(info, [anything()]) if info is not None else anything()


def missing_field(api: Api) -> Type:
    """What a protocol finds in place of a field that is not there: a class that fits no declaration."""
    info = class_named(api, MISSING)
    return Instance(info, []) if info is not None else anything()


def anything() -> Type:
    """``Any``, for what is not known."""
    return AnyType(TypeOfAny.special_form)
