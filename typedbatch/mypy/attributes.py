"""``batch.x``: reading a field, setting it, deleting it."""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression, FuncItem, IndexExpr, MemberExpr, NameExpr, Node
from mypy.plugin import AttributeContext
from mypy.types import AnyType, Instance, TupleType, Type, TypeOfAny, UnionType, get_proper_type

from typedbatch.mypy import messages
from typedbatch.mypy.fields import (
    REST,
    Fields,
    alternatives,
    anything,
    is_batch,
    known_fields,
    missing_field,
)
from typedbatch.mypy.internals import (
    Api,
    current_type,
    known_type,
    module_around,
    narrow,
    report_no_attribute,
    same,
    value_type,
)
from typedbatch.mypy.places import change, type_here, was_followed
from typedbatch.mypy.scopes import Binding, Scope, happens_before, may_have_run, scope_around, scope_of
from typedbatch.mypy.stored import either, stored
from typedbatch.mypy.trust import Trust, trust_after, trust_in

# ---- reading ---------------------------------------------------------------------------------------------------------


def read(ctx: AttributeContext, name: str) -> Type:
    """The type of a field, or a report that there is none."""
    node = ctx.context
    if not isinstance(node, MemberExpr) or node.name != name:
        return _asked_by_mypy(ctx, name)
    owner = type_here(ctx.api, node.expr, ctx.type)
    scope = scope_around(ctx.api)
    if scope is not None and id(node) in scope.deleted:
        # mypy asks once for each item of a union, and each time shows the whole of it as it was before
        found = field_type(ctx.api, ctx.type, name, node.expr, node)
        take_out(ctx.api, node.expr, ctx.type, name)
        return found
    found = field_type(ctx.api, owner, name, node.expr, node)
    here = current_type(ctx.api, node)
    if here is not None and (is_batch(here) or _is_any(here)):
        narrow(ctx.api, node, found)  # mypy took what was set for Any, or does not know what has changed since
    return found


def field_type(api: Api, owner: Type, name: str, receiver: Expression, node: Expression) -> Type:
    """The type of a field of ``receiver``, which is an ``owner``; what is missing is reported at ``node``."""
    batches = [one for one in alternatives(owner) if isinstance(one, Instance) and is_batch(one)]
    found: list[Type] = []
    lacking: list[Fields] = []
    names: set[str] = set()
    for one in batches:
        if one.extra_attrs is not None and name in one.extra_attrs.attrs:  # mypy saw hasattr(batch, name)
            found.append(one.extra_attrs.attrs[name])
            continue
        fields = known_fields(one)
        if fields is None or was_followed(api, receiver):
            if fields is not None or len(batches) > 1:
                found.append(anything())
                continue
            return report_no_attribute(api, owner, name, node) if isinstance(node, MemberExpr) else anything()
        names |= fields.keys()
        if name in fields:
            found.append(fields[name])
        elif REST in fields:
            found.append(_presumed(api, name))
        else:
            lacking.append(fields)
    if lacking and _is_missing(api, name, receiver, node, bool(found), names):
        return AnyType(TypeOfAny.from_error)
    return UnionType.make_union(found) if found else _presumed(api, name)


def _presumed(api: Api, name: str) -> Type:
    """What a field is that may be there: of the type that it is set to in this function, if that is one."""
    scope = scope_around(api)
    values = [binding.value for binding in scope.fields_set(name)] if scope is not None else []
    seen = [(value, known_type(api, value)) for value in values if value is not None]
    types = [stored(api, value, type_) for value, type_ in seen if type_ is not None and not _is_any(type_)]
    return either(api, types) if types else anything()


def _is_any(type_: Type) -> bool:
    return isinstance(get_proper_type(type_), AnyType)


def _is_missing(api: Api, name: str, receiver: Expression, node: Expression, somewhere: bool, names: set[str]) -> bool:
    """Report a field that is not there, or not on every path; unless it may be there for all that can be seen."""
    scope, module = scope_around(api), module_around(api)
    if scope is None or module is None or name in scope.asked or scope.caught(node):
        return False
    trust = trust_in(api, scope, receiver)
    if trust is Trust.NONE or (trust is Trust.FILE and name in scope_of(api, module).made):
        return False
    items = [*scope.items_set(scope.sources(receiver), name), *scope.nested_items_set(receiver, name)]
    if _unasked(api, scope, items, node):
        return False
    writes = scope.writes(receiver.node, name, node) if isinstance(receiver, NameExpr) else []
    here = scope.around(node)
    if any(may_have_run(around, here) for around in writes):
        return False
    messages.report_missing(api, name, names, node, maybe=somewhere or bool(writes))
    return True


def _asked_by_mypy(ctx: AttributeContext, name: str) -> Type:
    """Not a read in the program: mypy compares with a protocol, or looks whether ``hasattr`` may be true."""
    fields = known_fields(ctx.type)
    if isinstance(ctx.context, Expression):
        if fields is None or name not in fields:
            ctx.api.fail("", ctx.context, code=messages.FIELD)  # mypy counts it, and does not show it
        return fields.get(name, anything()) if fields is not None else anything()
    if fields is None:
        return missing_field(ctx.api)
    if name in fields:
        return fields[name]
    return anything() if REST in fields or changed_unseen(ctx.api, ctx.type) else missing_field(ctx.api)


def changed_unseen(api: Api, type_: Type) -> bool:
    """Was a batch of this very type handed to a function that may have set fields, in the function around."""
    scope = scope_around(api)
    if scope is None or not isinstance(scope.root, FuncItem):
        return False
    for variable, uses in scope.uses.items():
        ways = alternatives(current_type(api, uses[0][0]))
        if any(is_batch(one) and same(one, type_) for one in ways):
            by_item = len(ways) > 1 and _unasked(api, scope, scope.items_set({variable}))
            return by_item or any(_handed_on(api, node, around) for node, around in uses)
    return False


def _unasked(api: Api, scope: Scope, items: list[IndexExpr], before: Expression | None = None) -> bool:
    """Is one of ``batch["x"] = ...`` such that mypy asked no plugin, as it does where it knows several types of it."""
    missed = [item for item in items if known_type(api, item) is None]
    return any(before is None or happens_before((item, scope.around(item)), before) for item in missed)


def _handed_on(api: Api, name: NameExpr, around: tuple[Node, ...]) -> bool:
    call = around[-1] if around else None
    if isinstance(call, CallExpr) and known_type(api, call.callee) is None:  # mypy has not come to it yet
        return False
    return trust_after(api, name, around) is Trust.NONE


# ---- setting and deleting --------------------------------------------------------------------------------------------


def set_field(ctx: AttributeContext) -> Type:
    """``batch.x = value`` gives the batch that field, from here on."""
    node = ctx.context
    if not isinstance(node, MemberExpr):
        return ctx.default_attr_type
    owner = type_here(ctx.api, node.expr, ctx.type)
    ways = alternatives(owner)
    if len(ways) == 1 and known_fields(owner) is None:
        report_no_attribute(ctx.api, owner, node.name, node)
        return ctx.default_attr_type
    scope = scope_around(ctx.api)
    binding = scope.bindings.get(id(node)) if scope is not None else None
    if binding is None or binding.augmented:  # batch.x += 1 keeps an array an array
        return ctx.default_attr_type
    set_in(ctx.api, node.expr, owner, {node.name: _assigned(ctx.api, binding)})
    return ctx.default_attr_type


def _assigned(api: Api, binding: Binding) -> Type:
    """What a field is after an assignment to it."""
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


def set_in(api: Api, receiver: Expression, owner: Type, new: Fields) -> None:
    """Fields are added to the batch, or changed."""
    change(api, receiver, owner, lambda fields: {**fields, **new})


def take_out(api: Api, receiver: Expression, owner: Type, name: str) -> None:
    """A field is removed from the batch, if it is there."""
    change(api, receiver, owner, lambda fields: {n: type_ for n, type_ in fields.items() if n != name})
