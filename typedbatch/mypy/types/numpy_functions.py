"""``np.exp(batch)``, ``np.mean(batch)``, ``array * batch``: numpy's types take a batch for an array."""

from __future__ import annotations

from mypy.nodes import Expression, ListExpr
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Instance, TupleType, Type, UnionType, get_proper_type

from typedbatch.mypy.internals import Api, known_type
from typedbatch.mypy.types.extend import PROTOCOL
from typedbatch.mypy.types.fields import BATCH, anything, is_batch


def of_batches(ctx: FunctionContext | MethodContext) -> Type:
    """Return Any where numpy's types promise an array or a number for a batch, and else what they say."""
    if _is_numpys(ctx.default_return_type) and (
        any(_holds_batch(type_) for types in ctx.arg_types for type_ in types)
        or any(_lists_batch(ctx.api, argument) for arguments in ctx.args for argument in arguments)
    ):
        return anything()
    return ctx.default_return_type


def _lists_batch(api: Api, argument: Expression) -> bool:
    """Return whether an argument is ``[batch, other]``, which mypy takes for a list of arrays."""
    return isinstance(argument, ListExpr) and any(is_batch(known_type(api, item)) for item in argument.items)


def _holds_batch(type_: Type) -> bool:
    """Is it a batch, record or protocol, or a list or tuple of them."""
    proper = get_proper_type(type_)
    if isinstance(proper, (TupleType, UnionType)):
        return any(map(_holds_batch, proper.items))
    if not isinstance(proper, Instance):
        return False
    is_list = proper.type.fullname == "builtins.list"
    return proper.type.has_base(BATCH) or proper.type.has_base(PROTOCOL) or (is_list and _holds_batch(proper.args[0]))


def _is_numpys(type_: Type) -> bool:
    proper = get_proper_type(type_)
    if isinstance(proper, (TupleType, UnionType)):
        return any(map(_is_numpys, proper.items))
    return isinstance(proper, Instance) and proper.type.module_name.startswith("numpy")
