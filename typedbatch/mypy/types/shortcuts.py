"""Signatures that mypy resolves at once, where its own answer is what the plugin replaces anyway."""

from __future__ import annotations

from mypy.expandtype import expand_type
from mypy.nodes import Expression, ListExpr, NameExpr, TupleExpr
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.types import AnyType, CallableType, FunctionLike, Instance, TypeOfAny, get_proper_type

from typedbatch.mypy.internals import Api, current_type
from typedbatch.mypy.types.fields import BATCH, is_batch, plain_batch


def constructing(signature: FunctionLike) -> FunctionLike:
    """Return the constructor of ``Batch`` without its type variable, for which mypy reads each argument twice."""
    result = get_proper_type(signature.ret_type) if isinstance(signature, CallableType) else None
    if not isinstance(signature, CallableType) or not isinstance(result, Instance) or result.type.fullname != BATCH:
        return signature
    anything = AnyType(TypeOfAny.special_form)
    return expand_type(signature.copy_modified(variables=()), {one.id: anything for one in signature.variables})


def joining(ctx: FunctionSigContext | MethodSigContext, signature: FunctionLike) -> FunctionLike:
    """Return a signature of ``cat`` or ``stack`` without type variables, for plain batches that are written out."""
    parts = ctx.args[0] if ctx.args else []
    if len(parts) != 1 or not isinstance(signature, CallableType) or not signature.variables:
        return signature
    display = parts[0]
    if not isinstance(display, (ListExpr, TupleExpr)) or not display.items:
        return signature
    if not all(_is_plain(ctx.api, one) for one in display.items):
        return signature
    if signature.variables[0].name == "C":
        return CallableType([], [], [], signature.ret_type, signature.fallback)
    plain = plain_batch(ctx.api)
    taken = ctx.api.named_generic_type("typing.Iterable", [plain])
    return signature.copy_modified(variables=(), arg_types=[taken, *signature.arg_types[1:]], ret_type=plain)


def _is_plain(api: Api, node: Expression) -> bool:
    if not isinstance(node, NameExpr):
        return False
    type_ = current_type(api, node) or getattr(node.node, "type", None)
    return type_ is not None and is_batch(type_)
