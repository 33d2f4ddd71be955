"""Handing a batch to a function that asks for a protocol.

mypy itself would say that two long types do not match. Here each call is looked at before mypy does, and mypy is then
told that a Batch will do: what is wrong has been reported, and what is right need not be compared a second time.
"""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.types import CallableType, Overloaded, Type, TypeVarType, UnionType, get_proper_type

from typedbatch.mypy.construct import bound
from typedbatch.mypy.fields import anything, batch_of, is_batch, known_fields, plain_batch
from typedbatch.mypy.internals import Api, known_type
from typedbatch.mypy.judge import Verdict, asked_protocol, judge
from typedbatch.mypy.results import returned


def check(ctx: FunctionSigContext | MethodSigContext) -> CallableType:
    """The signature: it takes any Batch in the places where one was judged, and gives the fields that can be seen."""
    signature, call = ctx.default_signature, ctx.context
    if not isinstance(call, CallExpr):
        return signature
    if is_batch(signature.ret_type) and known_fields(signature.ret_type) is None:
        signature = _with_result(ctx.api, call, signature)
    if not any(map(asked_protocol, signature.arg_types)):
        return signature
    if isinstance(get_proper_type(known_type(ctx.api, call.callee)), Overloaded):  # it is not known which one is meant
        return signature
    types = list(signature.arg_types)
    for place, given in enumerate(ctx.args[: len(types)]):
        verdicts = [_verdict(ctx.api, argument, types[place]) for argument in given]
        told = [verdict for verdict in verdicts if verdict is not None]
        if told and len(told) == len(verdicts):
            is_wrong = any(verdict.text for verdict in told)
            types[place] = UnionType([anything() if is_wrong else plain_batch(ctx.api), types[place]])
    return signature.copy_modified(arg_types=types)


def _with_result(api: Api, call: CallExpr, signature: CallableType) -> CallableType:
    """It says which batch is returned, where this file shows it."""
    fields = returned(api, call)
    return signature if fields is None else signature.copy_modified(ret_type=bound(api, call, batch_of(api, fields)))


def _verdict(api: Api, argument: Expression, type_: Type) -> Verdict | None:
    """What is said of an argument; a type variable is left to mypy, as what it stands for is yet to be found."""
    asked = asked_protocol(type_)
    if asked is None or isinstance(get_proper_type(type_), TypeVarType):
        return None
    verdict = judge(api, argument, asked)
    if verdict is not None and verdict.text:
        api.fail(verdict.text, argument, code=verdict.code)
    return verdict
