"""``typedbatch.rows``: the fields of what its functions give back."""

from __future__ import annotations

from mypy.nodes import Expression
from mypy.plugin import FunctionContext
from mypy.types import Type

from typedbatch.mypy.internals import type_of
from typedbatch.mypy.types.construct import bound, iterated
from typedbatch.mypy.types.fields import Fields, batch_of, known_fields
from typedbatch.mypy.types.places import type_here


def repeat(ctx: FunctionContext) -> Type:
    """Return the type with the same fields, and follow the name that the result is assigned to."""
    if not isinstance(ctx.context, Expression) or known_fields(ctx.default_return_type) is None:
        return ctx.default_return_type
    return bound(ctx.api, ctx.context, ctx.default_return_type)


def chunk(ctx: FunctionContext) -> Type:
    """Return the type of parts, and follow the batches that a loop over them gives its variable."""
    given = _argument(ctx, 0)
    if isinstance(ctx.context, Expression) and given is not None and _fields(ctx, given) is not None:
        iterated(ctx.api, ctx.context, type_here(ctx.api, given, type_of(ctx.api, given)))
    return ctx.default_return_type


def union(ctx: FunctionContext) -> Type:
    """Return the type with the fields of both; where those of the other are not known, there may be any."""
    one, two = _argument(ctx, 0), _argument(ctx, 1)
    if one is None or two is None or not isinstance(ctx.context, Expression):
        return ctx.default_return_type
    mine, theirs = _fields(ctx, one), _fields(ctx, two)
    if mine is None:
        return ctx.default_return_type
    joined = mine.opened() if theirs is None else theirs.followed_by(mine)
    return bound(ctx.api, ctx.context, batch_of(ctx.api, joined))


def _argument(ctx: FunctionContext, place: int) -> Expression | None:
    given = ctx.args[place] if place < len(ctx.args) else []
    return given[0] if given else None


def _fields(ctx: FunctionContext, given: Expression) -> Fields | None:
    return known_fields(type_here(ctx.api, given, type_of(ctx.api, given)))
