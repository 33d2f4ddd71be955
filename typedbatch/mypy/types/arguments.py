"""Handing a batch to a function that asks for a protocol.

mypy itself would say that two long types do not match. Here each call is looked at before mypy does, and mypy is then
told that a Batch will do: what is wrong has been reported, and what is right need not be compared a second time.
"""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.types import CallableType, FunctionLike, Overloaded, Type, TypeVarType, get_proper_type

from typedbatch.mypy import messages
from typedbatch.mypy.batches.protocol_match import asked_protocol, judge_declared, left_to_engine
from typedbatch.mypy.internals import Api, known_type, type_of
from typedbatch.mypy.types.fields import content
from typedbatch.mypy.types.places import type_here


def check(ctx: FunctionSigContext | MethodSigContext) -> CallableType:
    """The signature: it takes any Batch in the places where one was judged."""
    signature, call = ctx.default_signature, ctx.context
    if not isinstance(call, CallExpr):
        return signature
    if not any(map(asked_protocol, signature.arg_types)):
        return signature
    if isinstance(get_proper_type(known_type(ctx.api, call.callee)), Overloaded):  # it is not known which one is meant
        return signature
    types = list(signature.arg_types)
    for place, given in enumerate(ctx.args[: len(types)]):
        takes = [_taken(ctx.api, argument, types[place]) for argument in given]
        if takes and all(takes):
            types[place] = left_to_engine(types[place])
    return signature.copy_modified(arg_types=types)


def asks_for_batch(signature: FunctionLike) -> bool:
    """Does a function ask for a batch or a protocol of batches."""
    types = signature.arg_types if isinstance(signature, CallableType) else ()
    return any(asked_protocol(type_) is not None for type_ in types)


def _taken(api: Api, argument: Expression, type_: Type) -> bool:
    """Is mypy to say nothing of an argument: of a plain batch, which is judged later, or of what was reported."""
    asked = asked_protocol(type_)
    if asked is None or isinstance(get_proper_type(type_), TypeVarType):
        return False
    given = type_here(api, argument, type_of(api, argument))
    if content(given) is not None:
        return True
    text = judge_declared(api, given, asked)
    if text:
        api.fail(text, argument, code=messages.ARGUMENT)
    return bool(text)
