"""The methods of ``Batch``: what they give back, and what they change."""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import CallExpr, Expression, IndexExpr, MemberExpr, StrExpr, TempNode
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Instance, LiteralType, NoneType, ProperType, TupleType, Type, UnionType, get_proper_type

from typedbatch.mypy.attributes import field_type, set_in, take_out
from typedbatch.mypy.construct import bound, cat, iterated, stack
from typedbatch.mypy.fields import REST, Fields, alternatives, anything, is_batch, known_fields
from typedbatch.mypy.internals import Api, remember_type, same, type_of
from typedbatch.mypy.places import become, change, type_here
from typedbatch.mypy.stored import (
    array,
    batch_in_ways,
    fields_of_arguments,
    is_array,
    is_tensor,
    map_fields,
    stored,
    tensor,
    unranked,
)

Hook = Callable[[MethodContext], Type]
_NO_NUMBERS = {"numpy.object_", "numpy.str_", "numpy.bytes_", "numpy.datetime64", "numpy.timedelta64"}


def _receiver(ctx: MethodContext) -> Expression | None:
    node = ctx.context
    if isinstance(node, CallExpr):
        return node.callee.expr if isinstance(node.callee, MemberExpr) else None
    return node.base if isinstance(node, IndexExpr) else None


def _owner(ctx: MethodContext) -> Type:
    receiver = _receiver(ctx)
    return type_here(ctx.api, receiver, ctx.type) if receiver is not None else ctx.type


def _argument(ctx: MethodContext, place: int) -> Expression | None:
    given = ctx.args[place] if place < len(ctx.args) else []
    return given[0] if given else None


def _name(api: Api, node: Expression | None) -> str | None:
    """The name of a field that is written out, or known by its Literal type."""
    if isinstance(node, StrExpr):
        return node.value
    type_ = get_proper_type(type_of(api, node)) if node is not None else None
    if isinstance(type_, Instance) and type_.last_known_value is not None:
        type_ = type_.last_known_value
    return type_.value if isinstance(type_, LiteralType) and isinstance(type_.value, str) else None


def _is_text(api: Api, node: Expression | None) -> bool:
    items = [get_proper_type(item) for item in alternatives(type_of(api, node))] if node is not None else []
    texts = [item.fallback if isinstance(item, LiteralType) else item for item in items]
    return bool(texts) and all(isinstance(item, Instance) and item.type.has_base("builtins.str") for item in texts)


# ---- reading ---------------------------------------------------------------------------------------------------------


def _get_item(ctx: MethodContext) -> Type:
    index, receiver = _argument(ctx, 0), _receiver(ctx)
    if index is None or receiver is None:
        return ctx.default_return_type
    name = _name(ctx.api, index)
    owner = _owner(ctx)
    if name is None:
        if _is_text(ctx.api, index) or not isinstance(ctx.context, Expression):
            return ctx.default_return_type
        return bound(ctx.api, ctx.context, _rows(ctx.api, owner, index))
    known = [known_fields(one) for one in alternatives(owner) if is_batch(one)]
    if None in known or not known or not isinstance(ctx.context, Expression):
        return ctx.default_return_type  # a plain Batch: item access is Any
    return field_type(ctx.api, owner, name, receiver, ctx.context)


def _rows(api: Api, owner: Type, index: Expression) -> Type:
    type_ = get_proper_type(type_of(api, index))
    if isinstance(type_, Instance) and type_.type.fullname == "builtins.slice":
        return owner
    single = isinstance(type_, Instance) and type_.type.fullname == "builtins.int"
    change = _row if single else _any_rank
    picked = [map_fields(api, one, lambda leaf: change(api, leaf)) for one in alternatives(owner)]
    return UnionType.make_union(picked)


def _row(api: Api, leaf: ProperType) -> Type:
    """One row of an array: a scalar of numpy, unless it surely has more dimensions."""
    if not is_array(leaf):
        return leaf
    shape = get_proper_type(leaf.args[0])
    if isinstance(shape, TupleType) and len(shape.items) > 1 and all(_is_size(item) for item in shape.items):
        return Instance(leaf.type, [shape.copy_modified(items=shape.items[1:]), *leaf.args[1:]])
    return anything()


def _is_size(type_: Type) -> bool:
    return isinstance(get_proper_type(type_), (Instance, LiteralType))


def _any_rank(api: Api, leaf: ProperType) -> Type:
    return unranked(api, [leaf]) if is_array(leaf) else leaf


def _split(ctx: MethodContext) -> Type:
    if isinstance(ctx.context, Expression) and known_fields(ctx.type) is not None:
        iterated(ctx.api, ctx.context, ctx.type)
    return ctx.default_return_type


def _iterate(ctx: MethodContext) -> Type:
    default = get_proper_type(ctx.default_return_type)
    if known_fields(ctx.type) is None or not isinstance(default, Instance) or not isinstance(ctx.context, Expression):
        return ctx.default_return_type
    batches = alternatives(type_here(ctx.api, ctx.context, ctx.type))
    row = UnionType.make_union([map_fields(ctx.api, one, lambda leaf: _row(ctx.api, leaf)) for one in batches])
    iterated(ctx.api, ctx.context, row)
    return default.copy_modified(args=[row])


def numbered(ctx: FunctionContext) -> Type:
    """``enumerate(batch)``: rows of each way by which the line is reached. mypy would join them to one type."""
    default = get_proper_type(ctx.default_return_type)
    batches = ctx.args[0][0] if ctx.args and ctx.args[0] else None
    if not isinstance(default, Instance) or batches is None:
        return ctx.default_return_type
    ways = alternatives(type_here(ctx.api, batches, type_of(ctx.api, batches)))
    if any(known_fields(one) is None for one in ways):
        return ctx.default_return_type
    row = UnionType.make_union([map_fields(ctx.api, one, lambda leaf: _row(ctx.api, leaf)) for one in ways])
    iterated(ctx.api, batches, row)
    return default.copy_modified(args=[row])


def _get(ctx: MethodContext) -> Type:
    name, ways = _name(ctx.api, _argument(ctx, 0)), _ways(ctx)
    if name is None or None in ways:
        return ctx.default_return_type
    return UnionType.make_union([_found(ctx, fields or {}, name, _argument(ctx, 1)) for fields in ways])


def _ways(ctx: MethodContext) -> list[Fields | None]:
    """The fields that are known, one set for each way by which the line is reached."""
    return [known_fields(one) for one in alternatives(_owner(ctx))] or [None]


def _found(ctx: MethodContext, fields: Fields, name: str, fallback: Expression | None) -> Type:
    if name in fields or REST in fields:
        return fields.get(name, anything())
    return type_of(ctx.api, fallback) if fallback is not None else NoneType()


def _mapped(leaf: Callable[[Api, ProperType], Type]) -> Hook:
    def hook(ctx: MethodContext) -> Type:
        if known_fields(ctx.type) is None or not isinstance(ctx.context, Expression):
            return ctx.default_return_type
        return bound(ctx.api, ctx.context, _map_owner(ctx, leaf))

    return hook


def _map_owner(ctx: MethodContext, leaf: Callable[[Api, ProperType], Type]) -> Type:
    """All ways at once. mypy asks for one item of a union after the other, and joins the answers."""
    changed = [map_fields(ctx.api, one, lambda item: leaf(ctx.api, item)) for one in alternatives(_owner(ctx))]
    return UnionType.make_union(changed)


def _to_tensor(api: Api, leaf: ProperType) -> Type:
    """Text and objects stay arrays; an array of unknown dtype is taken for one of numbers."""
    if not is_array(leaf):
        return leaf
    dtype = get_proper_type(leaf.args[1]) if len(leaf.args) == 2 else None
    scalar = get_proper_type(dtype.args[0]) if isinstance(dtype, Instance) and dtype.args else None
    if isinstance(scalar, Instance) and scalar.type.fullname in _NO_NUMBERS:
        return leaf
    return tensor(api)


def _to_array(api: Api, leaf: ProperType) -> Type:
    return array(api) if is_tensor(leaf) else leaf


def _to_anything(api: Api, leaf: ProperType) -> Type:
    return anything()


def _to_two_dimensions(api: Api, leaf: ProperType) -> Type:
    return unranked(api, [leaf]) if is_array(leaf) else leaf


# ---- changing --------------------------------------------------------------------------------------------------------


def _set_item(ctx: MethodContext) -> Type:
    key, value, receiver = _argument(ctx, 0), _argument(ctx, 1), _receiver(ctx)
    if receiver is None or key is None:
        return ctx.default_return_type
    if isinstance(ctx.context, IndexExpr):
        remember_type(ctx.api, ctx.context)  # that mypy asked
    name = _name(ctx.api, key)
    if name is not None and value is not None:
        expression = None if isinstance(value, TempNode) else value
        set_in(ctx.api, receiver, _owner(ctx), {name: stored(ctx.api, expression, type_of(ctx.api, value))})
    elif name is None and _is_text(ctx.api, key):
        set_in(ctx.api, receiver, _owner(ctx), {REST: anything()})
    return ctx.default_return_type


def _update(ctx: MethodContext) -> Type:
    call, receiver, ways = ctx.context, _receiver(ctx), _ways(ctx)
    if receiver is None or not isinstance(call, CallExpr) or None in ways:
        return ctx.default_return_type
    new = fields_of_arguments(ctx.api, call) or [{REST: anything()}]
    changed = [{**(fields or {}), **more} for fields in ways for more in new]
    become(ctx.api, receiver, batch_in_ways(ctx.api, changed))
    return ctx.default_return_type


def _set_default(ctx: MethodContext) -> Type:
    name, value, receiver = _name(ctx.api, _argument(ctx, 0)), _argument(ctx, 1), _receiver(ctx)
    ways = _ways(ctx)
    if receiver is None or None in ways:
        return ctx.default_return_type
    if name is None:
        set_in(ctx.api, receiver, _owner(ctx), {REST: anything()})
        return ctx.default_return_type
    given = stored(ctx.api, value, type_of(ctx.api, value)) if value is not None else NoneType()

    def with_default(fields: Fields) -> Fields:
        return {name: anything() if REST in fields else given, **fields}

    found = [with_default(fields or {})[name] for fields in ways]
    change(ctx.api, receiver, _owner(ctx), with_default)
    return UnionType.make_union(found)


def _pop(ctx: MethodContext) -> Type:
    name, receiver, ways = _name(ctx.api, _argument(ctx, 0)), _receiver(ctx), _ways(ctx)
    if receiver is None or name is None or None in ways:
        return ctx.default_return_type
    # mypy may look at a call more than once; what the first look has taken out is not known to the others
    taken = [(fields or {}).get(name, anything()) for fields in ways]
    take_out(ctx.api, receiver, _owner(ctx), name)
    return UnionType.make_union(taken)


def _delete_item(ctx: MethodContext) -> Type:
    """``del batch["x"]``, which mypy sees as a call of ``__delitem__``."""
    name, receiver = _name(ctx.api, _argument(ctx, 0)), _receiver(ctx)
    # mypy asks for one item of a union after the other; what the first has changed is not asked for again
    ways = alternatives(_owner(ctx))
    is_first = len(ways) == 1 or same(ways[0], ctx.type)
    if receiver is not None and name is not None and is_first and isinstance(ctx.context, Expression):
        field_type(ctx.api, _owner(ctx), name, receiver, ctx.context)
        take_out(ctx.api, receiver, _owner(ctx), name)
    return ctx.default_return_type


def _clear(ctx: MethodContext) -> Type:
    receiver = _receiver(ctx)
    if receiver is not None and known_fields(_owner(ctx)) is not None:
        change(ctx.api, receiver, _owner(ctx), lambda fields: {})
    return ctx.default_return_type


def _in_place(leaf: Callable[[Api, ProperType], Type]) -> Hook:
    def hook(ctx: MethodContext) -> Type:
        receiver = _receiver(ctx)
        if receiver is not None:
            become(ctx.api, receiver, _map_owner(ctx, leaf))
        return ctx.default_return_type

    return hook


def _open(ctx: MethodContext) -> Type:
    """The batch gets fields that are not known, and those that are may change."""
    receiver = _receiver(ctx)
    if receiver is not None:
        change(ctx.api, receiver, _owner(ctx), lambda fields: {name: anything() for name in (*fields, REST)})
    return ctx.default_return_type


def _transform(ctx: MethodContext) -> Type:
    receiver, call = _receiver(ctx), ctx.context
    if known_fields(ctx.type) is None or receiver is None or not isinstance(call, CallExpr):
        return ctx.default_return_type
    changed = _map_owner(ctx, _to_anything)
    if len(call.args) > 1:  # in place
        become(ctx.api, receiver, changed)
    return bound(ctx.api, call, changed)


def _same(ctx: MethodContext) -> Type:
    """The fields stay as they are; a name that the result is assigned to is followed."""
    if not isinstance(ctx.context, Expression) or known_fields(ctx.type) is None:
        return ctx.default_return_type
    return bound(ctx.api, ctx.context, _owner(ctx))


METHODS: dict[str, Hook] = {
    "__getitem__": _get_item,
    "__iter__": _iterate,
    "split": _split,
    "get": _get,
    "to_torch": _mapped(_to_tensor),
    "to_numpy": _mapped(_to_array),
    "isnull": _mapped(_to_anything),
    "apply_values_transform": _transform,
    "copy": _same,
    "dropnull": _same,
    "to_at_least_2d": _mapped(_to_two_dimensions),
    "__setitem__": _set_item,
    "__delitem__": _delete_item,
    "update": _update,
    "setdefault": _set_default,
    "pop": _pop,
    "clear": _clear,
    "to_torch_": _in_place(_to_tensor),
    "to_numpy_": _in_place(_to_array),
    "cat_": _open,
    "stack_": _open,
    "popitem": _open,
    "set_array_at_key": _open,
    "cat": cat,
    "stack": stack,
}
