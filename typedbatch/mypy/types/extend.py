"""``extend`` and ``convert``: can the batch become what is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from mypy.expandtype import expand_type
from mypy.nodes import ARG_NAMED, CallExpr, Decorator, Expression, MemberExpr, TypeInfo, Var
from mypy.plugin import FunctionContext
from mypy.types import AnyType, Instance, ProperType, Type, TypeVarId, get_proper_type

from typedbatch._names import nearest
from typedbatch.mypy import messages
from typedbatch.mypy.internals import Api, depend, fits, member_of, type_of
from typedbatch.mypy.scopes import scope_around
from typedbatch.mypy.types.declare import FIELDS, RECORD
from typedbatch.mypy.types.fields import BATCH, is_batch
from typedbatch.mypy.types.places import type_here
from typedbatch.mypy.types.stored import stored

PROTOCOL = "typedbatch.protocols.BatchProtocol"


def extend(ctx: FunctionContext) -> Type:
    """Report keywords that are not declared, fields that nobody gives, and values of a wrong type."""
    into, call = with_defaults(ctx.default_return_type), ctx.context
    if not isinstance(into, Instance) or not isinstance(call, CallExpr) or not call.args:
        return ctx.default_return_type
    _depend_on_fields(ctx.api, into.type)
    declared = dict(declared_fields(into.type))
    given: set[str] = set()
    complete = bool(declared)
    for value, kind, name in zip(call.args[2:], call.arg_kinds[2:], call.arg_names[2:], strict=True):
        if kind is not ARG_NAMED or name is None:
            complete = False
        elif name == "meta":
            continue  # every batch has it; validate() says whether its keys are those that are declared
        elif declared and name not in declared:
            messages.report_undeclared(ctx.api, into.type.name, name, declared, value)
            given.add(nearest(name, declared))
        elif declared:
            given.add(name)
            _report_value(ctx.api, into, name, value)
    if complete:
        _report_incomplete(ctx, call, into, needed_from(call, into.type, extends=True), "extend")
        _report_carried(ctx.api, call, into, declared.keys() - given)
    return ctx.default_return_type


def convert(ctx: FunctionContext) -> Type:
    """Report fields that the target asks for and the source does not have."""
    into, call = get_proper_type(ctx.default_return_type), ctx.context
    if isinstance(into, Instance) and isinstance(call, CallExpr) and call.args:
        _depend_on_fields(ctx.api, into.type)
        _report_incomplete(ctx, call, into, needed_from(call, into.type, extends=False), "convert")
    return ctx.default_return_type


def _depend_on_fields(api: Api, target: TypeInfo) -> None:
    """Have mypy check the call again after the fields of a record have changed, in any file."""
    for base in target.mro:
        if FIELDS in base.names:
            depend(api, base.module_name, f"{base.fullname}.{FIELDS}")


def with_defaults(type_: Type) -> ProperType:
    """Return a generic with its defaults, as at run time; mypy leaves Any there for a generic that is a value."""
    proper = get_proper_type(type_)
    if not isinstance(proper, Instance) or not all(isinstance(get_proper_type(arg), AnyType) for arg in proper.args):
        return proper
    given: dict[TypeVarId, Type] = {}
    for parameter, arg in zip(proper.type.defn.type_vars, proper.args, strict=False):
        given[parameter.id] = expand_type(parameter.default, given) if parameter.has_default() else arg
    return proper.copy_modified(args=list(given.values()))


def declared_fields(target: TypeInfo) -> Iterator[tuple[str, bool]]:
    """Yield the fields of a protocol or record, and whether each must be given."""
    stops = PROTOCOL if target.is_protocol else RECORD
    if not any(base.fullname == stops for base in target.mro):
        return
    found: dict[str, bool] = {}
    for base in reversed(target.mro):
        if (
            base.fullname not in (BATCH, PROTOCOL, RECORD, "builtins.object")
            and base.fullname.split(".")[0] != "typing"
        ):
            for name, symbol in sorted(base.names.items()):  # as mypy's cache sorts them
                if name[:2] != "__" and name not in (FIELDS, "meta") and _is_field(base, symbol.node):
                    found[name] = not (isinstance(symbol.node, Var) and symbol.node.has_explicit_value)
    yield from found.items()


def _is_field(owner: TypeInfo, node: object) -> bool:
    if isinstance(node, Var):
        return not node.is_classvar and not node.is_inferred  # A rule in a class body has no annotation.
    return owner.is_protocol and isinstance(node, Decorator) and node.var.is_property


def _report_value(api: Api, into: Instance, name: str, value: Expression) -> None:
    expected = member_of(into, name)
    if expected is None:
        return
    got = stored(api, value, type_of(api, value))
    if not fits(got, expected):
        text = messages.wrong(api, f'"{name}" of {into.type.name}', expected, got)
        api.fail(text, value, code=messages.EXTEND)


def _report_carried(api: Api, call: CallExpr, into: Instance, names: Set[str]) -> None:
    """Report arrays that are carried over into tensors, or the other way around, where nothing fits for sure."""
    source, scope = get_proper_type(type_here(api, call.args[0], type_of(api, call.args[0]))), scope_around(api)
    if not isinstance(source, Instance) or is_batch(source) or scope is None:
        return
    if any(isinstance(node, MemberExpr) and node.name[-1:] == "_" != node.name[:1] for node in scope.nodes):
        return  # as b.to_torch_(), which no type follows
    wrong: dict[tuple[str, str], list[str]] = {}
    for name in sorted(names - scope.made):
        got, expected = _kind(member_of(source, name)), _kind(member_of(into, name))
        if got and expected and got != expected:
            wrong.setdefault((got, expected), []).append(name)
    for (got, expected), carried in wrong.items():
        messages.report_carried(api, into.type.name, carried, expected, got, call)


_KINDS = {"numpy.ndarray": "ndarray", "torch._tensor.Tensor": "Tensor", "torch.Tensor": "Tensor"}


def _kind(type_: Type | None) -> str | None:
    """Return "ndarray" or "Tensor" if all values of a type are certainly of that kind, and else None."""
    proper = get_proper_type(type_)
    if not isinstance(proper, Instance):
        return None
    return next((_KINDS[base.fullname] for base in proper.type.mro if base.fullname in _KINDS), None)


def _report_incomplete(
    ctx: FunctionContext, call: CallExpr, into: Instance, needed: Iterable[str], function: str
) -> None:
    source = get_proper_type(type_here(ctx.api, call.args[0], type_of(ctx.api, call.args[0])))
    if isinstance(source, AnyType) or not isinstance(source, Instance) or is_batch(source):
        return  # A plain batch is judged when the function is done.
    if source.type.fullname == PROTOCOL or (source.type.has_base(BATCH) and not source.type.has_base(RECORD)):
        return
    lacking = [name for name in needed if member_of(source, name) is None]
    if lacking:
        ctx.api.fail(messages.unfilled(f"{function}() to {into.type.name}", lacking), call, code=messages.EXTEND)


def needed_from(call: CallExpr, into: TypeInfo, *, extends: bool) -> set[str]:
    """Return the fields that a batch must have for a call of ``convert`` or ``extend``, as far as they are known."""
    declared = dict(declared_fields(into))
    needed = {name for name, required in declared.items() if required}
    if not extends:
        return needed
    for kind, name in zip(call.arg_kinds[2:], call.arg_names[2:], strict=True):
        if kind is not ARG_NAMED or name is None:
            return set()
        needed.discard(name if name in declared else nearest(name, declared))
    return needed
