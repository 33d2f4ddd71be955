"""Where a batch is held, what it is there on this line, and how that changes."""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import Expression, FuncItem, IndexExpr, MemberExpr, NameExpr, StrExpr, Var
from mypy.types import Type, UnionType

from typedbatch.mypy.internals import (
    Api,
    current_type,
    function_around,
    known_type,
    narrow,
    settle,
    settle_before,
    type_of,
    widen_declaration,
)
from typedbatch.mypy.types.fields import (
    Fields,
    Rest,
    alternatives,
    batch_of,
    content,
    is_batch,
    known_fields,
    one_type,
)


def type_here(api: Api, place: Expression, declared: Type) -> Type:
    """Return the type of a place on this line, in which batches that branches have left are one."""
    here = None
    if isinstance(place, (NameExpr, MemberExpr)) and field_of(api, place) is None:
        here = current_type(api, place)
    one = one_type(api, here if here is not None else declared)
    if here is not None:
        if one is not here:
            settle(api, place, one)
        settle_before(api, place, lambda type_: one_type(api, type_))
    return one


def field_of(api: Api, place: Expression) -> tuple[Expression, Type, str] | None:
    """Return the batch of ``batch.x`` or ``batch["x"]``, its type here, and ``x``; None for other places."""
    if isinstance(place, MemberExpr):
        parent, name = place.expr, place.name
    elif isinstance(place, IndexExpr) and isinstance(place.index, StrExpr):
        parent, name = place.base, place.index.value
    else:
        return None
    declared = known_type(api, parent)
    type_ = type_here(api, parent, declared if declared is not None else type_of(api, parent))
    ways = alternatives(type_)
    return (parent, type_, name) if ways and all(map(is_batch, ways)) else None


def become(api: Api, place: Expression, type_: Type) -> None:
    """Give a place a type from here on. A field changes its batch, and so on outwards."""
    held = field_of(api, place)
    if held is not None:
        parent, parent_type, name = held
        change(api, parent, parent_type, lambda fields: fields.updated({name: type_}) if name in fields else fields)
    elif isinstance(place, NameExpr):
        _become(api, place, type_)
    elif isinstance(place, (MemberExpr, IndexExpr)):
        narrow(api, place, type_)


def change(api: Api, place: Expression, type_: Type, new_fields: Callable[[Fields], Fields]) -> None:
    """Give the batch at a place other fields."""
    changed: list[Type] = []
    for one in alternatives(one_type(api, type_)):
        fields = content(one)
        changed.append(one if fields is None else batch_of(api, new_fields(fields)))
    become(api, place, UnionType.make_union(changed))


def _become(api: Api, name: NameExpr, type_: Type) -> None:
    """Widen the declaration of a local name, which may be of any type later, and lose fields."""
    followed = current_type(api, name) is not None
    narrow(api, name, type_)
    variable = name.node
    if not isinstance(variable, Var) or not followed or not isinstance(function_around(api), FuncItem):
        return
    declared = alternatives(variable.type)
    if variable.is_inferred and any(known_fields(one) is not None for one in declared):
        others = [one for one in declared if not is_batch(one)]
        widen_declaration(api, name, UnionType.make_union([batch_of(api, Fields(rest=Rest.OPEN)), *others]))
