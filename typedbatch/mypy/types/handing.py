"""Functions that a batch is handed to, by their declarations alone."""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression, FuncDef, RefExpr
from mypy.types import CallableType, Instance, Overloaded, Type, TypeVarType, UnionType, get_proper_type

from typedbatch.mypy.types.fields import BATCH

_STANDARD = frozenset({"builtins", "typing", "collections", "numpy", "torch", "copy", "itertools", "random"})
_CHANGING = frozenset({"builtins.setattr", "builtins.delattr", "builtins.vars"})
_OWN = frozenset({
    BATCH, f"{BATCH}.cat", f"{BATCH}.stack", f"{BATCH}.empty", "typedbatch.batch.cat", "typedbatch.batch.stack",
    "typedbatch.rows.repeating.repeat", "typedbatch.rows.repeating.chunk", "typedbatch.rows.joining.union",
    "typedbatch.rows.repeating.pad_rows", "typedbatch.rows.grouping.groups", "typedbatch.rows.projecting.project",
    "typedbatch._validation.validate.validate", "typedbatch._validation.validate.conforms",
    "typedbatch._validation.validate.extend", "typedbatch._validation.convert.convert",
})  # fmt: skip


def only_reads(asked: Type | None, depth: int = 4) -> bool:
    """Return whether a function that asks for this changes no batch: protocols have read-only fields."""
    if not depth:  # a type may be inside itself
        return False
    proper = get_proper_type(asked) if asked is not None else None
    if isinstance(proper, UnionType):
        return any(only_reads(item, depth - 1) for item in proper.items)
    if isinstance(proper, TypeVarType):
        return only_reads(proper.upper_bound, depth - 1)
    if isinstance(proper, Instance) and proper.type.has_base("typing.Iterable"):
        return all(only_reads(item, depth - 1) for item in proper.args)
    return (
        isinstance(proper, Instance)
        and (proper.type.is_protocol or not proper.type.has_base(BATCH))
        and (proper.type.fullname != "builtins.object")
    )


def is_of_libraries(signature: CallableType) -> bool:
    """Return whether it is a function of Python's or numpy's, which does nothing to a batch; a method may keep it."""
    definition = signature.definition
    if not isinstance(definition, FuncDef) or definition.info:
        return False
    return definition.fullname.split(".")[0] in _STANDARD


def leaves_alone(call: CallExpr, argument: Expression) -> bool:
    """Return whether a call changes nothing of an argument, by the declarations alone."""
    callee = call.callee
    if not isinstance(callee, RefExpr) or callee.fullname in _CHANGING:
        return False
    if callee.fullname in _OWN:
        return True
    type_: Type | None = getattr(callee.node, "type", None)
    signature = get_proper_type(type_)
    if isinstance(signature, Overloaded):
        signature = signature.items[0]
    if not isinstance(signature, CallableType):
        return callee.fullname in ("builtins.len", "builtins.print", "builtins.list", "builtins.isinstance")
    if is_of_libraries(signature):
        return True
    return only_reads(parameter_of(signature, call, argument) or signature.ret_type)


def parameter_of(signature: CallableType, call: CallExpr, argument: Expression) -> Type | None:
    """Return the type of the parameter that an argument is for."""
    at = call.args.index(argument)
    name = call.arg_names[at]
    found = signature.argument_by_position(at) if name is None else signature.argument_by_name(name)
    return found.typ if found is not None else None
