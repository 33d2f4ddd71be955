"""``batch.x``: reading a field, setting it, deleting it."""

from __future__ import annotations

from mypy.nodes import Expression, IndexExpr, MemberExpr, StrExpr
from mypy.plugin import AttributeContext
from mypy.types import AnyType, Instance, TupleType, Type, UnionType, get_proper_type

from typedbatch.mypy import messages
from typedbatch.mypy.internals import (
    Api,
    current_type,
    known_type,
    narrow,
    report_no_attribute,
    value_type,
)
from typedbatch.mypy.scopes import Binding, scope_around
from typedbatch.mypy.types.fields import (
    Rest,
    alternatives,
    anything,
    content,
    is_batch,
    is_placeholder,
    joined,
    missing_field,
    one_type,
)
from typedbatch.mypy.types.places import change, type_here
from typedbatch.mypy.types.stored import as_read, stored

# ---- reading ---------------------------------------------------------------------------------------------------------


def read(ctx: AttributeContext, name: str) -> Type:
    """Return the type of a field that is read."""
    node = ctx.context
    if not isinstance(node, MemberExpr) or node.name != name:
        return _asked_by_mypy(ctx, name)
    scope = scope_around(ctx.api)
    if scope is not None and id(node) in scope.deleted:
        # mypy asks once for each item of a union, and each time shows the whole of it as it was before
        before = one_type(ctx.api, ctx.type)
        found = field_type(ctx.api, before, name)
        take_out(ctx.api, node.expr, before, name)
        return found
    found = value_of_field(ctx.api, node, type_here(ctx.api, node.expr, ctx.type), name)
    here = current_type(ctx.api, node)
    if here is not None and (is_batch(here) or _is_any(here)):
        narrow(ctx.api, node, found)  # mypy took what was set for Any, or does not know what has changed since
    return found


def special(ctx: AttributeContext, name: str) -> Type:
    """Return the type of ``batch.__enter__`` and its like, which a batch has only if its class does."""
    owner = get_proper_type(ctx.type)
    if not isinstance(owner, Instance) or owner.type.get(name) is not None:
        return ctx.default_attr_type
    if isinstance(ctx.context, MemberExpr) and ctx.context.name == name:
        return report_no_attribute(ctx.api, owner, name, ctx.context)
    return missing_field(ctx.api)


def value_of_field(api: Api, node: Expression, owner: Type, name: str) -> Type:
    """Return the type of a field where it is read: ``Any`` for a placeholder, but for a batch of which a field is."""
    found, scope = field_type(api, owner, name), scope_around(api)
    if scope is None or not any(map(is_placeholder, alternatives(found))):
        return found
    parent = next(reversed(scope.around(node)), None)
    is_inside = isinstance(parent, MemberExpr) or (isinstance(parent, IndexExpr) and isinstance(parent.index, StrExpr))
    return found if is_inside and all(map(is_batch, alternatives(found))) else anything()


def field_type(api: Api, owner: Type, name: str) -> Type:
    """Return the type of a field of a batch, as far as it is known."""
    found: list[Type] = []
    for one in alternatives(owner):
        fields = content(one)
        if fields is None:
            continue
        if isinstance(one, Instance) and one.extra_attrs is not None and name in one.extra_attrs.attrs:
            found.append(one.extra_attrs.attrs[name])  # mypy saw hasattr(batch, name)
        elif name in fields:
            found.append(as_read(fields.known[name]))
        else:
            found.append(anything() if fields.rest is Rest.DECLARED else _presumed(api, name))
    return UnionType.make_union(found) if found else _presumed(api, name)


def _presumed(api: Api, name: str) -> Type:
    """Return the type of a field that may be there: the one that it is set to in this function, if that is one."""
    scope = scope_around(api)
    values = [binding.value for binding in scope.fields_set(name)] if scope is not None else []
    seen = [(value, known_type(api, value)) for value in values if value is not None]
    types = [stored(api, value, type_) for value, type_ in seen if type_ is not None and not _is_any(type_)]
    return as_read(joined(types)) if types else anything()


def _is_any(type_: Type) -> bool:
    return isinstance(get_proper_type(type_), AnyType)


def _asked_by_mypy(ctx: AttributeContext, name: str) -> Type:
    """Answer mypy, which compares a batch with a protocol, or looks whether ``hasattr`` may be true.

    What is said of a protocol is kept by mypy for all lines, so it depends on nothing but the type.
    """
    fields = content(ctx.type)
    if isinstance(ctx.context, Expression):
        if fields is None or name not in fields:
            ctx.api.fail("", ctx.context, code=messages.FIELD)  # mypy counts it, and does not show it
            return anything()
        return fields.known[name]
    if fields is None:
        return missing_field(ctx.api)
    if name in fields:
        return fields.known[name]
    return anything() if fields.rest is Rest.OPEN else missing_field(ctx.api)


# ---- setting and deleting --------------------------------------------------------------------------------------------


def set_field(ctx: AttributeContext) -> Type:
    """Give a batch the field that ``batch.x = value`` sets, from here on."""
    node = ctx.context
    if not isinstance(node, MemberExpr):
        return ctx.default_attr_type
    owner = type_here(ctx.api, node.expr, ctx.type)
    scope = scope_around(ctx.api)
    binding = scope.bindings.get(id(node)) if scope is not None else None
    if binding is None or binding.augmented:  # batch.x += 1 keeps an array an array
        return ctx.default_attr_type
    assigned = _assigned(ctx.api, binding)
    set_in(ctx.api, node.expr, type_here(ctx.api, node.expr, owner), node.name, assigned)  # the value may pop a field
    return ctx.default_attr_type


def _assigned(api: Api, binding: Binding) -> Type:
    """Return the type of a field after an assignment to it."""
    if binding.value is not None and not binding.iterated:
        return stored(api, binding.value, value_type(api, binding.value))
    if binding.unpacked is None:
        return anything()
    value, place = binding.unpacked
    whole = get_proper_type(known_type(api, value))
    if isinstance(whole, TupleType) and place < len(whole.items):
        return stored(api, None, whole.items[place])
    if isinstance(whole, Instance) and whole.type.has_base("typing.Iterable") and len(whole.args) > 0:
        return stored(api, None, whole.args[0])
    return anything()


def set_in(api: Api, receiver: Expression, owner: Type, name: str, type_: Type) -> None:
    """Add a field to a batch, or change it."""
    change(api, receiver, owner, lambda fields: fields.updated({name: type_}))


def take_out(api: Api, receiver: Expression, owner: Type, name: str) -> None:
    """Remove a field from a batch, if it is there."""
    change(api, receiver, owner, lambda fields: fields.without(name))
