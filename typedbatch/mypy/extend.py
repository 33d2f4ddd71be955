"""``extend`` and ``convert``: can the batch become what is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from mypy.expandtype import expand_type
from mypy.nodes import ARG_NAMED, CallExpr, Decorator, Expression, MemberExpr, TypeInfo, Var
from mypy.plugin import FunctionContext
from mypy.types import AnyType, Instance, ProperType, Type, TypeVarId, get_proper_type

from typedbatch._names import nearest
from typedbatch.mypy import messages
from typedbatch.mypy.declare import RECORD
from typedbatch.mypy.fields import BATCH, Fields, Rest, is_batch, known_fields
from typedbatch.mypy.internals import Api, fits, member_of, module_around, type_of
from typedbatch.mypy.places import type_here
from typedbatch.mypy.reach import in_turns
from typedbatch.mypy.scopes import scope_around, scope_of
from typedbatch.mypy.stored import stored
from typedbatch.mypy.trust import Trust, trust_in

PROTOCOL = "typedbatch.protocols.BatchProtocol"


def extend(ctx: FunctionContext) -> Type:
    """Reports keywords that are not declared, fields that nobody gives, and values of a wrong type."""
    into, call = with_defaults(ctx.default_return_type), ctx.context
    if not isinstance(into, Instance) or not isinstance(call, CallExpr) or not call.args:
        return ctx.default_return_type
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
        _report_incomplete(ctx, call, into, {name for name, required in declared.items() if required} - given, "extend")
        _report_carried(ctx.api, call, into, declared.keys() - given)
    return ctx.default_return_type


def convert(ctx: FunctionContext) -> Type:
    """Reports fields that the target asks for and the source does not have."""
    into, call = get_proper_type(ctx.default_return_type), ctx.context
    if isinstance(into, Instance) and isinstance(call, CallExpr) and call.args:
        required = {name for name, required in declared_fields(into.type) if required}
        _report_incomplete(ctx, call, into, required, "convert")
    return ctx.default_return_type


def with_defaults(type_: Type) -> ProperType:
    """A bare generic means its defaults, as it does at run time; mypy leaves Any there when it is given as a value."""
    proper = get_proper_type(type_)
    if not isinstance(proper, Instance) or not all(isinstance(get_proper_type(arg), AnyType) for arg in proper.args):
        return proper
    given: dict[TypeVarId, Type] = {}
    for parameter, arg in zip(proper.type.defn.type_vars, proper.args, strict=False):
        given[parameter.id] = expand_type(parameter.default, given) if parameter.has_default() else arg
    return proper.copy_modified(args=list(given.values()))


def declared_fields(target: TypeInfo) -> Iterator[tuple[str, bool]]:
    """The fields of a protocol or record, and whether each must be given."""
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
                if name[:2] != "__" and name != "meta" and _is_field(base, symbol.node):
                    found[name] = not (isinstance(symbol.node, Var) and symbol.node.has_explicit_value)
    yield from found.items()


def _is_field(owner: TypeInfo, node: object) -> bool:
    if isinstance(node, Var):
        return not node.is_classvar
    return owner.is_protocol and isinstance(node, Decorator) and node.var.is_property


def lacking_for_sure(api: Api, batch: Expression, fields: Fields, names: Iterable[str]) -> list[str]:
    """The names that a batch cannot have, for all that can be seen."""
    absent = [name for name in names if name not in fields]
    scope, module = scope_around(api), module_around(api)
    if scope is None or module is None or fields.rest is Rest.OPEN or scope.caught(batch):
        return []
    if fields.rest is Rest.DECLARED:
        return [name for name in absent if name not in scope.asked]
    trust = trust_in(api, scope, batch)
    if trust is Trust.NONE:
        return []
    if trust is not Trust.FULL:
        made = scope.made if trust is Trust.SCOPE else scope_of(api, module).made
        return [name for name in absent if name not in made]
    return [name for name in absent if name not in scope.asked and not in_turns(scope, batch, name, batch)]


def _report_value(api: Api, into: Instance, name: str, value: Expression) -> None:
    expected = member_of(into, name)
    if expected is None:
        return
    got = stored(api, value, type_of(api, value))
    if not fits(got, expected):
        text = messages.wrong(api, f'"{name}" of {into.type.name}', expected, got)
        api.fail(text, value, code=messages.EXTEND)


def _report_carried(api: Api, call: CallExpr, into: Instance, names: Set[str]) -> None:
    """Reports arrays that are carried over into tensors, or the other way around; whatever may fit goes unnoticed."""
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
    """Whether values of a type are arrays, or tensors, for sure."""
    proper = get_proper_type(type_)
    if not isinstance(proper, Instance):
        return None
    return next((_KINDS[base.fullname] for base in proper.type.mro if base.fullname in _KINDS), None)


def _report_incomplete(ctx: FunctionContext, call: CallExpr, into: Instance, needed: set[str], function: str) -> None:
    source = get_proper_type(type_here(ctx.api, call.args[0], type_of(ctx.api, call.args[0])))
    if isinstance(source, AnyType) or not isinstance(source, Instance):
        return
    if is_batch(source):
        fields = known_fields(source)
        if fields is None or fields.rest is Rest.DECLARED:
            return
        lacking = lacking_for_sure(ctx.api, call.args[0], fields, needed)
    elif source.type.fullname == PROTOCOL:
        return
    else:
        lacking = [name for name in needed if member_of(source, name) is None]
        if source.type.has_base(BATCH) and not source.type.has_base(RECORD):
            return
    if lacking:
        messages.report_unfilled(ctx.api, f"{function}() to {into.type.name}", lacking, call)
