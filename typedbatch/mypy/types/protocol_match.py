"""Comparison of a batch with a protocol by its type: of a record, or of a plain batch of unknown content."""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression, MemberExpr, NameExpr
from mypy.typeops import get_type_vars
from mypy.types import AnyType, Instance, NoneType, ProperType, Type, TypeOfAny, TypeVarType, UnionType, get_proper_type

from typedbatch.mypy import messages
from typedbatch.mypy.internals import Api, fits, member_of
from typedbatch.mypy.scopes import scope_around
from typedbatch.mypy.types.declare import RECORD
from typedbatch.mypy.types.extend import PROTOCOL, declared_fields
from typedbatch.mypy.types.fields import Fields, Rest


def asked_protocol(type_: Type | None) -> Instance | None:
    """Return the protocol of batches that is asked for; ``None`` beside it and a type variable make no difference."""
    proper = get_proper_type(type_) if type_ is not None else None
    if isinstance(proper, TypeVarType):
        proper = get_proper_type(proper.upper_bound)
    if isinstance(proper, UnionType):
        items = [item for item in map(get_proper_type, proper.items) if not _is_ignored(item)]
        proper = items[0] if len(items) == 1 else proper
    if isinstance(proper, Instance) and proper.type.is_protocol and proper.type.has_base(PROTOCOL):
        return proper
    return None


def left_to_run(type_: Type) -> Type:
    """Return a type that takes any batch, and still says which protocol is asked for."""
    return UnionType([AnyType(TypeOfAny.implementation_artifact), type_])


def _is_ignored(item: ProperType) -> bool:
    if isinstance(item, AnyType):
        return item.type_of_any == TypeOfAny.implementation_artifact
    return isinstance(item, NoneType)


def lacking(api: Api, batch: Expression, fields: Fields, asked: Instance) -> str:
    """Return what is to be said of a plain batch by its type; empty where it may have what is asked for."""
    if fields.rest is Rest.OPEN:
        return ""
    missing = [name for name, _ in declared_fields(asked.type) if name not in fields]
    return messages.lacking(asked.type.name, missing, fields, converted=_conversion(api, batch)) if missing else ""


def _conversion(api: Api, batch: Expression) -> str:
    """Return the method that has made a plain batch of a record, if one has."""
    scope = scope_around(api)
    if isinstance(batch, NameExpr) and scope is not None:
        bindings = scope.bindings_of(batch.node)
        batch = bindings[0].value or batch if len(bindings) == 1 else batch
    if isinstance(batch, CallExpr) and isinstance(batch.callee, MemberExpr) and batch.callee.name in messages.CONVERT:
        return batch.callee.name
    return ""


def judge_declared(api: Api, type_: Type, asked: Instance) -> str:
    """Return what is to be said of a record or protocol that is not what is asked for; empty if mypy will say it."""
    given = get_proper_type(type_)
    if not isinstance(given, Instance) or not (given.type.has_base(PROTOCOL) or given.type.has_base(RECORD)):
        return ""
    if fits(given, asked):
        return ""
    declared = Fields(dict.fromkeys((name for name, _ in declared_fields(given.type)), given))
    names = [name for name, _ in declared_fields(asked.type)]
    missing = [name for name in names if name not in declared and member_of(given, name) is None]
    if missing and declared.known:
        return messages.lacking(asked.type.name, missing, declared, given.type.name)
    for name in _by_kind(asked, names):
        expected, got = member_of(asked, name), member_of(given, name)
        if expected is not None and got is not None and not get_type_vars(asked) and not fits(got, expected):
            return messages.wrong(api, f'"{name}" of {asked.type.name}', expected, got)
    return ""


def _by_kind(asked: Instance, names: list[str]) -> list[str]:
    """Return the fields of one kind before those of several, as ``info``, which say less of what is wrong."""
    return sorted(names, key=lambda name: isinstance(get_proper_type(member_of(asked, name)), UnionType))
