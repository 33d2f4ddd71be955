"""The methods of ``Batch``: what they give back, and what they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mypy.nodes import CallExpr, Expression, IndexExpr, MemberExpr, StrExpr, TempNode
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Instance, LiteralType, NoneType, ProperType, TupleType, Type, UnionType, get_proper_type

from typedbatch.mypy.internals import Api, current_type, remember_type, same, type_of
from typedbatch.mypy.types.attributes import set_in, take_out, value_of_field
from typedbatch.mypy.types.construct import bound, cat, iterated, stack
from typedbatch.mypy.types.fields import (
    Fields,
    Rest,
    alternatives,
    anything,
    batch_of,
    content,
    is_batch,
    joined,
    known_fields,
    one_type,
)
from typedbatch.mypy.types.places import become, change, type_here
from typedbatch.mypy.types.stored import (
    array,
    fields_of_arguments,
    is_array,
    is_tensor,
    map_fields,
    stored,
    tensor,
    unranked,
)

RAGGED = "typedbatch.ragged.Ragged"
Hook = Callable[[MethodContext], Type]
_NO_NUMBERS = {"numpy.object_", "numpy.str_", "numpy.bytes_", "numpy.datetime64", "numpy.timedelta64"}


def _receiver(ctx: MethodContext) -> Expression | None:
    node = ctx.context
    if isinstance(node, CallExpr):
        return node.callee.expr if isinstance(node.callee, MemberExpr) else None
    return node.base if isinstance(node, IndexExpr) else None


def _owner(ctx: MethodContext) -> Type:
    receiver = _receiver(ctx)
    return type_here(ctx.api, receiver, ctx.type) if receiver is not None else one_type(ctx.api, ctx.type)


def _fields(ctx: MethodContext) -> Fields | None:
    """Return the fields of a batch on this line, or None if it may be something else than a batch."""
    return content(_owner(ctx))


def _argument(ctx: MethodContext, place: int) -> Expression | None:
    given = ctx.args[place] if place < len(ctx.args) else []
    return given[0] if given else None


def _name(api: Api, node: Expression | None) -> str | None:
    """Return the name of a field that is written out, or known by its Literal type."""
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
        is_plain = known_fields(owner) is None  # then an index of unknown type gives Any, as without the plugin
        if is_plain or _is_text(ctx.api, index) or not isinstance(ctx.context, Expression):
            return ctx.default_return_type
        return bound(ctx.api, ctx.context, _rows(ctx.api, owner, index))
    fields = content(owner)
    is_plain = fields is None or (fields.rest is Rest.DECLARED and name not in fields)
    if is_plain or not isinstance(ctx.context, Expression):
        return ctx.default_return_type  # of content that nobody has declared: item access is Any
    return value_of_field(ctx.api, ctx.context, owner, name)


def _rows(api: Api, owner: Type, index: Expression) -> Type:
    type_ = get_proper_type(type_of(api, index))
    if isinstance(type_, Instance) and type_.type.fullname == "builtins.slice":
        return owner
    single = isinstance(type_, Instance) and type_.type.fullname == "builtins.int"
    change = _row if single else _any_rank
    return map_fields(api, owner, lambda leaf: change(api, leaf))


def _row(api: Api, leaf: ProperType) -> Type:
    """Return the type of one row of an array: a scalar of numpy, unless it certainly has more dimensions."""
    if not is_array(leaf):
        return leaf
    shape = get_proper_type(leaf.args[0])
    if (
        isinstance(shape, TupleType)
        and len(shape.items) > 1
        and all(isinstance(get_proper_type(item), (Instance, LiteralType)) for item in shape.items)
    ):
        return Instance(leaf.type, [shape.copy_modified(items=shape.items[1:]), *leaf.args[1:]])
    return anything()


def _any_rank(api: Api, leaf: ProperType) -> Type:
    return unranked(api, [leaf]) if is_array(leaf) else leaf


def _split(ctx: MethodContext) -> Type:
    if isinstance(ctx.context, Expression) and is_batch(_owner(ctx)):
        iterated(ctx.api, ctx.context, _owner(ctx))
    return ctx.default_return_type


def _iterate(ctx: MethodContext) -> Type:
    if not isinstance(ctx.context, Expression):
        return ctx.default_return_type
    return _over_rows(ctx.api, ctx.context, type_here(ctx.api, ctx.context, ctx.type), ctx.default_return_type)


def numbered(ctx: FunctionContext) -> Type:
    """Return the type of ``enumerate(batch)``."""
    batches = ctx.args[0][0] if ctx.args and ctx.args[0] else None
    if batches is None:
        return ctx.default_return_type
    return _over_rows(ctx.api, batches, type_here(ctx.api, batches, type_of(ctx.api, batches)), ctx.default_return_type)


def _over_rows(api: Api, batches: Expression, type_: Type, default: Type) -> Type:
    """Return the type of an iterator of the rows of a batch."""
    iterator = get_proper_type(default)
    if known_fields(type_) is None or not isinstance(iterator, Instance):
        return default
    row = map_fields(api, type_, lambda leaf: _row(api, leaf))
    iterated(api, batches, row)
    return iterator.copy_modified(args=[row])


def _get(ctx: MethodContext) -> Type:
    name, fields, fallback = _name(ctx.api, _argument(ctx, 0)), _fields(ctx), _argument(ctx, 1)
    if name is None or fields is None or (name not in fields and fields.rest is not Rest.NONE):
        return ctx.default_return_type
    otherwise = type_of(ctx.api, fallback) if fallback is not None else NoneType()
    if name not in fields:
        return otherwise
    found = fields.known[name]
    return UnionType.make_union([found, otherwise]) if name in fields.maybe else found


def _mapped(leaf: Callable[[Api, ProperType], Type]) -> Hook:
    def hook(ctx: MethodContext) -> Type:
        if known_fields(_owner(ctx)) is None or not isinstance(ctx.context, Expression):
            return ctx.default_return_type
        return bound(ctx.api, ctx.context, _map_owner(ctx, leaf))

    return hook


def _map_owner(ctx: MethodContext, leaf: Callable[[Api, ProperType], Type]) -> Type:
    def change(item: ProperType) -> Type:
        if isinstance(item, Instance) and item.type.fullname == RAGGED:  # it goes through the values as well
            return item.copy_modified(args=[map_fields(ctx.api, values, change) for values in item.args])
        return leaf(ctx.api, item)

    return map_fields(ctx.api, _owner(ctx), change)


def padded(ctx: MethodContext) -> Type:
    """Return the type of ``Ragged.padded``: of the values, whose arrays have one dimension more."""
    return map_fields(ctx.api, ctx.default_return_type, lambda leaf: _any_rank(ctx.api, leaf))


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
        set_in(ctx.api, receiver, _owner(ctx), name, stored(ctx.api, expression, type_of(ctx.api, value)))
    elif name is None and _is_text(ctx.api, key):
        change(ctx.api, receiver, _owner(ctx), lambda fields: fields.opened())
    return ctx.default_return_type


def _update(ctx: MethodContext) -> Type:
    call, receiver, fields = ctx.context, _receiver(ctx), _fields(ctx)
    if receiver is None or not isinstance(call, CallExpr) or fields is None:
        return ctx.default_return_type
    new = fields_of_arguments(ctx.api, call)
    if new.rest is Rest.DECLARED and fields.rest is Rest.NONE:
        new = replace(new, rest=Rest.OPEN)
    become(ctx.api, receiver, batch_of(ctx.api, fields.followed_by(new)))
    return ctx.default_return_type


def _set_default(ctx: MethodContext) -> Type:
    name, value, receiver, fields = _name(ctx.api, _argument(ctx, 0)), _argument(ctx, 1), _receiver(ctx), _fields(ctx)
    if receiver is None or fields is None:
        return ctx.default_return_type
    if name is None:
        change(ctx.api, receiver, _owner(ctx), lambda fields: fields.opened())
        return ctx.default_return_type
    given = stored(ctx.api, value, type_of(ctx.api, value)) if value is not None else NoneType()
    if name not in fields:
        type_ = given if fields.rest is Rest.NONE else anything()
    else:
        type_ = joined([fields.known[name], given]) if name in fields.maybe else fields.known[name]
    set_in(ctx.api, receiver, _owner(ctx), name, type_)
    return type_


def _pop(ctx: MethodContext) -> Type:
    name, receiver, fields = _name(ctx.api, _argument(ctx, 0)), _receiver(ctx), _fields(ctx)
    if receiver is None or name is None or fields is None or known_fields(_owner(ctx)) is None:
        return ctx.default_return_type
    # mypy may look at a call more than once; what the first look has taken out is not known to the others
    taken = fields.known.get(name, anything())
    take_out(ctx.api, receiver, _owner(ctx), name)
    return taken


def _delete_item(ctx: MethodContext) -> Type:
    """Remove a field by ``del batch["x"]``, which mypy sees as a call of ``__delitem__``."""
    name, receiver = _name(ctx.api, _argument(ctx, 0)), _receiver(ctx)
    if receiver is None or name is None or not isinstance(ctx.context, Expression):
        return ctx.default_return_type
    # mypy asks for one item of a union after the other; what the first has changed is not asked for again
    here = current_type(ctx.api, receiver)
    if here is None or len(alternatives(here)) > 1 or same(here, ctx.type):
        take_out(ctx.api, receiver, _owner(ctx), name)
    return ctx.default_return_type


def _clear(ctx: MethodContext) -> Type:
    receiver = _receiver(ctx)
    if receiver is not None and known_fields(_owner(ctx)) is not None:
        become(ctx.api, receiver, batch_of(ctx.api, Fields()))
    return ctx.default_return_type


def _in_place(leaf: Callable[[Api, ProperType], Type]) -> Hook:
    def hook(ctx: MethodContext) -> Type:
        receiver = _receiver(ctx)
        if receiver is not None:
            become(ctx.api, receiver, _map_owner(ctx, leaf))
        return ctx.default_return_type

    return hook


def _open(ctx: MethodContext) -> Type:
    """Open a batch, which gets fields that are not known, and whose fields may change."""
    receiver = _receiver(ctx)
    if receiver is not None:
        change(ctx.api, receiver, _owner(ctx), lambda fields: fields.opened(types_too=True))
    return ctx.default_return_type


def _transform(ctx: MethodContext) -> Type:
    receiver, call = _receiver(ctx), ctx.context
    if known_fields(_owner(ctx)) is None or receiver is None or not isinstance(call, CallExpr):
        return ctx.default_return_type
    changed = _map_owner(ctx, _to_anything)
    if len(call.args) > 1:  # in place
        become(ctx.api, receiver, changed)
    return bound(ctx.api, call, changed)


def _same(ctx: MethodContext) -> Type:
    """Return the type with the same fields, and follow the name that the result is assigned to."""
    if not isinstance(ctx.context, Expression) or known_fields(_owner(ctx)) is None:
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
    "to": _same,
    "pin_memory": _same,
    "dropnull": _same,
    "to_at_least_2d": _mapped(_any_rank),
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
