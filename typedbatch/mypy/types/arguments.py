"""Handing a batch to a function that asks for a protocol.

mypy itself would say that two long types do not match. Here each call is looked at before mypy does, and mypy is then
told that a Batch will do: what is wrong has been reported, and what is right need not be compared a second time.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import CallExpr, Decorator, Expression, SymbolTableNode, TypeAlias, TypeInfo
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.typeops import get_all_type_vars
from mypy.types import (
    CallableType,
    Instance,
    Overloaded,
    Type,
    TypeVarType,
    get_proper_type,
    is_named_instance,
)

from typedbatch.mypy import messages
from typedbatch.mypy.internals import Api, known_type, type_of
from typedbatch.mypy.pending import complain
from typedbatch.mypy.types.fields import Rest, content
from typedbatch.mypy.types.places import type_here
from typedbatch.mypy.types.protocol_match import asked_protocol, judge_declared, lacking, left_to_run


def check(ctx: FunctionSigContext | MethodSigContext) -> CallableType:
    """Return the signature of a call, which takes any Batch in the places that are left to the run."""
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
            types[place] = left_to_run(types[place])
    return signature.copy_modified(arg_types=types)


def may_ask(lookup: Callable[[str], SymbolTableNode | None], fullname: str) -> bool:
    """Return whether a function may ask for a protocol of batches in some call.

    Args:
        lookup: Finds the symbol of a full name.
        fullname: Full name of a function, method or class as mypy calls it; a local one has no dot.
    """
    owner, _, name = fullname.rpartition(".")
    found = lookup(fullname)
    node = found.node if found is not None else None
    if node is None and owner:
        found = lookup(owner)
        info = found.node if found is not None else None
        node = inherited.node if isinstance(info, TypeInfo) and (inherited := info.get(name)) else None
        if node is None:
            return False
    if isinstance(node, TypeAlias):
        target = get_proper_type(node.target)
        node = target.type if isinstance(target, Instance) else node
    made = [node.get(one) for one in ("__init__", "__new__")] if isinstance(node, TypeInfo) else []
    nodes = [one.node for one in made if one is not None] or [node]
    return any(_may_ask(one.var.type if isinstance(one, Decorator) else getattr(one, "type", None)) for one in nodes)


def _may_ask(type_: Type | None) -> bool:
    proper = get_proper_type(type_) if type_ is not None else None
    if isinstance(proper, Overloaded):
        return any(map(_may_ask, proper.items))
    if not isinstance(proper, CallableType):
        return not isinstance(proper, Instance)
    if _asks_for_batch(proper):
        return True
    variables = [one for type_ in proper.arg_types for one in get_all_type_vars(type_) if one.id.raw_id > 0]
    return any(is_named_instance(one.upper_bound, "builtins.object") for one in variables)  # those of a class


def _asks_for_batch(signature: CallableType) -> bool:
    return any(asked_protocol(type_) is not None for type_ in signature.arg_types)


def _taken(api: Api, argument: Expression, type_: Type) -> bool:
    """Return whether mypy is to say nothing of an argument: of a plain batch, or of what has been reported."""
    asked = asked_protocol(type_)
    if asked is None or isinstance(get_proper_type(type_), TypeVarType):
        return False
    given = type_here(api, argument, type_of(api, argument))
    fields = content(given)
    if fields is not None:
        is_followed = fields.rest is not Rest.DECLARED
        complain(api, argument, lacking(api, argument, fields, asked), messages.ARGUMENT, is_followed=is_followed)
        return True
    text = judge_declared(api, given, asked)
    if text:
        api.fail(text, argument, code=messages.ARGUMENT)
    return bool(text)
