"""``Batch(...)``, ``cat`` and ``stack``: where known fields come from, and the names that they are given to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from mypy.nodes import CallExpr, DictExpr, Expression, FuncItem, ListExpr, MemberExpr, NameExpr, TupleExpr, Var
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Type, UnionType

from typedbatch.mypy.fields import REST, Fields, alternatives, anything, batch_of, known_fields
from typedbatch.mypy.internals import Api, current_type, module_around, type_of
from typedbatch.mypy.places import become, field_of
from typedbatch.mypy.scopes import scope_around, written_to
from typedbatch.mypy.stored import batch_in_ways, either, fields_of_arguments, fields_of_data, stacked
from typedbatch.mypy.trust import Trust, trust_after_call


def construct(ctx: FunctionContext) -> Type:
    """``Batch(...)``: its fields; a plain Batch when an argument is not known."""
    call = ctx.context
    if not isinstance(call, CallExpr):  # functools.partial and the like: the arguments are not all here
        return ctx.default_return_type
    ways = fields_of_arguments(ctx.api, call, skip=("copy",))
    return ctx.default_return_type if ways is None else bound(ctx.api, call, batch_in_ways(ctx.api, ways))


def bound(api: Api, call: Expression, type_: Type) -> Type:
    """The type of a call that makes a batch, once the places that it is assigned to are taken into account.

    A name is followed from here on. An attribute, or the name of a module or class, is seen from elsewhere too, and may
    get fields anywhere: those that its file writes count as there, and any, when it is bound again or handed on.
    """
    _loosen(api, call)
    scope = scope_around(api)
    declared = type_
    for target in scope.values.get(id(call), []) if scope is not None else []:
        is_local = scope is not None and isinstance(scope.root, FuncItem)
        if isinstance(target, NameExpr):
            is_first = isinstance(target.node, Var) and target.node.type is None
            declared = declared if is_local or not is_first else _opened(api, target, declared)
            become(api, target, type_)
        elif isinstance(target, MemberExpr) and field_of(api, target) is None:
            declared = _opened(api, target, declared)
    return declared


def iterated(api: Api, batches: Expression, item: Type) -> None:
    """A loop gives its variable batches."""
    _loosen(api, batches, item)


def _loosen(api: Api, source: Expression, new: Type | None = None) -> None:
    """Names are about to get a batch from ``source``; one that holds a batch already may lose fields by that."""
    scope = scope_around(api)
    for target in scope.given_by.get(id(source), []) if scope is not None else []:
        here = current_type(api, target) or new
        if here is not None:
            become(api, target, here)


def _opened(api: Api, owner: NameExpr | MemberExpr, type_: Type) -> Type:
    module, ways = module_around(api), [known_fields(one) for one in alternatives(type_)]
    if module is None or None in ways:
        return type_
    names, unseen = written_to(module, owner, lambda *handed: trust_after_call(api, *handed) > Trust.NONE)
    opened: list[Type] = []
    for fields in ways:
        rest: Fields = {name: anything() for name in names - (fields or {}).keys()}
        if unseen or not fields:
            rest[REST] = anything()
        opened.append(batch_of(api, {**(fields or {}), **rest}))
    return UnionType.make_union(opened)


_MOST_WAYS = 16


# ---- cat and stack ---------------------------------------------------------------------------------------------------


def cat(ctx: FunctionContext | MethodContext) -> Type:
    """``cat``: the fields of the batches; as it refuses batches with different fields, those of any."""
    return _joined(ctx, lambda types: either(ctx.api, types))


def stack(ctx: FunctionContext | MethodContext) -> Type:
    """``stack``: the fields of all batches, with one dimension more."""
    return _joined(ctx, lambda types: stacked(ctx.api, types))


def _joined(ctx: FunctionContext | MethodContext, join: Callable[[list[Type]], Type]) -> Type:
    parts = ctx.args[0][0] if ctx.args and ctx.args[0] else None
    if isinstance(parts, (ListExpr, TupleExpr)) and parts.items:
        choices = [_fields_of_part(ctx.api, item) for item in parts.items]
    else:
        known = known_fields(ctx.default_return_type)
        choices = [[known]]
    if any(None in choice for choice in choices) or prod(map(len, choices)) > _MOST_WAYS:
        return ctx.default_return_type
    ways = [_join_columns(ctx.api, way, join) for way in product(*choices)]
    joined = UnionType.make_union(list(dict.fromkeys(ways)))
    return bound(ctx.api, ctx.context, joined) if isinstance(ctx.context, Expression) else joined


def _fields_of_part(api: Api, part: Expression) -> Sequence[Fields | None]:
    """The fields of one of the batches, one for each way by which the line is reached."""
    if isinstance(part, DictExpr):
        return fields_of_data(api, part) or [None]
    return [known_fields(one) for one in alternatives(type_of(api, part))] or [None]


def _join_columns(api: Api, rows: Sequence[Fields | None], join: Callable[[list[Type]], Type]) -> Type:
    columns: dict[str, list[Type]] = {}
    for row in rows:
        for name, type_ in (row or {}).items():
            columns.setdefault(name, []).append(type_)
    return batch_of(api, {name: join(types) for name, types in columns.items()})
