"""Is a batch what a protocol asks for: which fields it lacks, and which are of another type.

What the type says is not all: a batch may have got fields where it cannot be seen. So the answer is not only yes or no.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mypy.errorcodes import ErrorCode
from mypy.nodes import CallExpr, Expression, MemberExpr, NameExpr
from mypy.typeops import get_type_vars
from mypy.types import Instance, NoneType, Type, TypeVarType, UnionType, get_proper_type

from typedbatch.mypy import messages
from typedbatch.mypy.declare import RECORD
from typedbatch.mypy.extend import PROTOCOL, declared_fields, lacking_for_sure
from typedbatch.mypy.fields import Fields, alternatives, content
from typedbatch.mypy.internals import Api, fits, member_of, type_of
from typedbatch.mypy.places import type_here
from typedbatch.mypy.reach import where_decided
from typedbatch.mypy.scopes import scope_around
from typedbatch.mypy.trust import Trust, trust_in


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a batch where a protocol is asked for; with an empty ``text``, nothing: it will do."""

    text: str = ""
    code: ErrorCode = messages.ARGUMENT


def asked_protocol(type_: Type | None) -> Instance | None:
    """The protocol of batches that is asked for; ``None`` beside it and a type variable make no difference."""
    proper = get_proper_type(type_) if type_ is not None else None
    if isinstance(proper, TypeVarType):
        proper = get_proper_type(proper.upper_bound)
    if isinstance(proper, UnionType):
        items = [item for item in map(get_proper_type, proper.items) if not isinstance(item, NoneType)]
        proper = items[0] if len(items) == 1 else proper
    if isinstance(proper, Instance) and proper.type.is_protocol and proper.type.has_base(PROTOCOL):
        return proper
    return None


def judge(api: Api, batch: Expression, asked: Instance) -> Verdict | None:
    """What is to be said of a batch; None when that is left to mypy, as of anything but a batch."""
    type_ = type_here(api, batch, type_of(api, batch))
    fields = content(type_)
    if fields is None:
        return _judge_declared(api, type_, asked)
    names = [name for name, _ in declared_fields(asked.type)]
    lacking = lacking_for_sure(api, batch, fields, names)
    if lacking:
        return Verdict(messages.lacking(asked.type.name, lacking, fields, converted=_conversion(api, batch)))
    for path, line in _lines_of_choices(api, batch, fields, asked, ""):
        return Verdict(messages.may_lack(asked.type.name, path, line), messages.MAYBE)
    return _judge_types(api, fields, asked, names)


def _conversion(api: Api, batch: Expression) -> str:
    """Return the method of a batch that its value, or the only one that its name is given, is the result of."""
    scope = scope_around(api)
    if isinstance(batch, NameExpr) and scope is not None:
        bindings = scope.bindings_of(batch.node)
        batch = bindings[0].value or batch if len(bindings) == 1 else batch
    name = batch.callee.name if isinstance(batch, CallExpr) and isinstance(batch.callee, MemberExpr) else ""
    return name if name in ("to_torch", "to_numpy") else ""


def _judge_declared(api: Api, type_: Type, asked: Instance) -> Verdict | None:
    """A record or another protocol, which has what it declares; if it will do, mypy finds that for itself."""
    given = get_proper_type(type_)
    if not isinstance(given, Instance) or not _is_declared(given) or fits(given, asked):
        return None
    declared = Fields(dict.fromkeys((name for name, _ in declared_fields(given.type)), given))
    names = [name for name, _ in declared_fields(asked.type)]
    lacking = [name for name in names if name not in declared and member_of(given, name) is None]
    if lacking and declared.known:
        return Verdict(messages.lacking(asked.type.name, lacking, declared, given.type.name))
    for name in _by_kind(asked, names):
        expected, got = member_of(asked, name), member_of(given, name)
        if expected is not None and got is not None and not get_type_vars(asked) and not fits(got, expected):
            return Verdict(messages.wrong(api, f'"{name}" of {asked.type.name}', expected, got))
    return None


def _is_declared(type_: Instance) -> bool:
    return type_.type.has_base(PROTOCOL) or type_.type.has_base(RECORD)


def _lines_of_choices(
    api: Api, batch: Expression, fields: Fields, asked: Instance, path: str
) -> Iterator[tuple[str, int]]:
    """The fields that may be missing, those of nested batches too, each with the line that it depends on."""
    scope = scope_around(api)
    if scope is None or scope.caught(batch) or trust_in(api, scope, batch) is not Trust.FULL:
        return
    for name, _ in declared_fields(asked.type):
        if name in fields.maybe and name not in scope.asked:
            decided = where_decided(scope, batch, name, batch)
            if decided is not None:
                yield f"{path}{name}", decided.line
        inner, nested = asked_protocol(member_of(asked, name)), content(fields.known.get(name))
        if inner is not None and nested is not None and path.count(".") < _DEPTH:
            yield from _lines_of_choices(api, batch, nested, inner, f"{path}{name}.")


_DEPTH = 4


def _by_kind(asked: Instance, names: list[str]) -> list[str]:
    """The fields of one kind before those of several, as ``info``, which say less of what is wrong."""
    return sorted(names, key=lambda name: isinstance(get_proper_type(member_of(asked, name)), UnionType))


def _judge_types(api: Api, fields: Fields, asked: Instance, names: list[str]) -> Verdict | None:
    if get_type_vars(asked):
        return None  # what a type variable stands for is found by mypy
    for name in _by_kind(asked, names):
        expected = member_of(asked, name)
        if expected is None or name not in fields:
            continue
        if not all(fits(one, expected) for one in alternatives(fields.known[name])):
            what = f'"{name}" of {asked.type.name}'
            return Verdict(messages.wrong(api, what, expected, fields.known[name]))
    return Verdict()
