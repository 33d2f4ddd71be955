"""Handing a batch to a function that asks for a protocol: which fields it lacks, and which are of another type.

mypy itself would say that two long types do not match. Here each call is looked at before mypy does, and mypy is then
told that a Batch will do: what is wrong has been reported, and what is right need not be compared a second time.
"""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.types import CallableType, Instance, NoneType, Overloaded, Type, UnionType, get_proper_type

from typedbatch.mypy import messages
from typedbatch.mypy.attributes import changed_unseen
from typedbatch.mypy.fields import REST, alternatives, is_batch, known_fields, plain_batch
from typedbatch.mypy.gate import PROTOCOL, declared_fields
from typedbatch.mypy.internals import Api, fits, known_type, member_of, type_of
from typedbatch.mypy.places import type_here


def check(ctx: FunctionSigContext | MethodSigContext) -> CallableType:
    """The signature; it takes any Batch in the places where one was judged."""
    signature, call = ctx.default_signature, ctx.context
    if not isinstance(call, CallExpr) or not any(map(asked_protocol, signature.arg_types)):
        return signature
    if isinstance(get_proper_type(known_type(ctx.api, call.callee)), Overloaded):  # it is not known which one is meant
        return signature
    types = list(signature.arg_types)
    for place, given in enumerate(ctx.args[: len(types)]):
        asked = asked_protocol(types[place])
        judged = [_judge(ctx.api, argument, asked) for argument in given] if asked is not None else []
        if judged and all(judged):
            types[place] = UnionType([plain_batch(ctx.api), types[place]])
    return signature.copy_modified(arg_types=types)


def asked_protocol(type_: Type) -> Instance | None:
    """The protocol of batches that a parameter asks for; ``None`` beside it makes no difference."""
    proper = get_proper_type(type_)
    if isinstance(proper, UnionType):
        items = [item for item in map(get_proper_type, proper.items) if not isinstance(item, NoneType)]
        proper = items[0] if len(items) == 1 else proper
    if isinstance(proper, Instance) and proper.type.is_protocol and proper.type.has_base(PROTOCOL):
        return proper
    return None


def _judge(api: Api, argument: Expression, asked: Instance) -> bool:
    """Report what keeps a batch from being what is asked for; False when that is left to mypy."""
    type_ = type_here(api, argument, type_of(api, argument))
    fields = known_fields(type_) if is_batch(type_) else None
    if fields is None:
        return False
    if fits(type_, asked):
        return True
    if REST in fields or changed_unseen(api, type_):
        return False
    lacking = [name for name, _ in declared_fields(asked.type) if name not in fields]
    if lacking:
        messages.report_lacking(api, asked.type.name, lacking, fields, argument)
        return True
    for name, _ in declared_fields(asked.type):
        expected = member_of(asked, name)
        if expected is not None and not all(fits(one, expected) for one in alternatives(fields[name])):
            messages.report_wrong(api, f'"{name}" of {asked.type.name}', expected, fields[name], argument)
            return True
    return False
