"""``Batch(...)``, ``cat`` and ``stack``: where known fields come from, and the names that they are given to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mypy.nodes import CallExpr, DictExpr, Expression, FuncItem, ListExpr, MemberExpr, NameExpr, TupleExpr, Var
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Type

from typedbatch.mypy.internals import Api, current_type, module_around, type_of
from typedbatch.mypy.scopes import place_of, scope_around, scope_of
from typedbatch.mypy.types.fields import Fields, anything, batch_of, known_fields, one_type
from typedbatch.mypy.types.handing import leaves_alone
from typedbatch.mypy.types.places import become, field_of, type_here
from typedbatch.mypy.types.stored import columns_joined, either, fields_of_arguments, fields_of_data, stacked_fields


def construct(ctx: FunctionContext) -> Type:
    """Return the type of ``Batch(...)`` with its fields."""
    call = ctx.context
    if not isinstance(call, CallExpr):  # functools.partial and the like: the arguments are not all here
        return ctx.default_return_type
    return bound(ctx.api, call, batch_of(ctx.api, fields_of_arguments(ctx.api, call, skip=("copy", "meta"))))


def bound(api: Api, call: Expression, type_: Type) -> Type:
    """Return the type of a call that makes a batch, once the places that it is assigned to are taken into account.

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
    """Follow the batches that a loop gives its variable."""
    _loosen(api, batches, item)


def _loosen(api: Api, source: Expression, new: Type | None = None) -> None:
    """Widen the names that get a batch from ``source``: one that holds a batch already may lose fields."""
    scope = scope_around(api)
    for target in scope.given_by.get(id(source), []) if scope is not None else []:
        here = current_type(api, target) or new
        if here is not None:
            become(api, target, here)


def _opened(api: Api, owner: NameExpr | MemberExpr, type_: Type) -> Type:
    module, fields = module_around(api), known_fields(type_)
    if module is None or fields is None:
        return type_
    held = scope_of(api, module).held[place_of(owner)]
    written = dict.fromkeys(sorted(held.names - fields.known.keys()), anything())
    opened = replace(fields, known={**fields.known, **written})
    handed = not all(leaves_alone(*one) for one in held.handed)
    if held.unseen or held.bound > 1 or handed or not fields.known:
        opened = opened.opened()
    return batch_of(api, opened)


# ---- cat and stack ---------------------------------------------------------------------------------------------------


def cat(ctx: FunctionContext | MethodContext) -> Type:
    """Return the type of ``cat``: with the fields of any batch, as batches with different fields are refused."""
    return _joined(ctx, lambda rows: columns_joined(ctx.api, rows, lambda types: either(ctx.api, types)))


def stack(ctx: FunctionContext | MethodContext) -> Type:
    """Return the type of ``stack``: with the fields of all batches, whose arrays have one dimension more."""
    return _joined(ctx, lambda rows: stacked_fields(ctx.api, rows))


def _joined(ctx: FunctionContext | MethodContext, join: Callable[[Sequence[Fields]], Fields]) -> Type:
    parts = ctx.args[0][0] if ctx.args and ctx.args[0] else None
    if isinstance(parts, (ListExpr, TupleExpr)) and parts.items:
        rows = [_fields_of_part(ctx.api, item) for item in parts.items]
    else:
        rows = [known_fields(one_type(ctx.api, ctx.default_return_type))]
    known = [fields for fields in rows if fields is not None]
    if len(known) < len(rows):
        return ctx.default_return_type
    made = batch_of(ctx.api, join(known))
    return bound(ctx.api, ctx.context, made) if isinstance(ctx.context, Expression) else made


def _fields_of_part(api: Api, part: Expression) -> Fields | None:
    """Return the fields of one of the batches."""
    if isinstance(part, DictExpr):
        return fields_of_data(api, part)
    return known_fields(type_here(api, part, type_of(api, part)))
