"""How sure the plugin is that a batch has no other fields than those it knows. What it reports must be true.

The fields of a name are followed as long as all that happens to it is seen: it is bound to batches that are made here,
and its writes are here. Once it has an alias, is in a list, or is handed to a function that may set fields, less is
known.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from mypy.nodes import (
    AssertStmt,
    CallExpr,
    ComparisonExpr,
    ConditionalExpr,
    DelStmt,
    DictExpr,
    Expression,
    ExpressionStmt,
    ForStmt,
    FuncDef,
    FuncItem,
    GeneratorExpr,
    IfStmt,
    IndexExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    OpExpr,
    RefExpr,
    ReturnStmt,
    RevealExpr,
    StrExpr,
    TupleExpr,
    UnaryExpr,
    Var,
    WhileStmt,
)
from mypy.types import CallableType, Instance, Overloaded, ProperType, UnionType, get_proper_type

from typedbatch.mypy.fields import BATCH, alternatives, is_batch, known_fields
from typedbatch.mypy.internals import Api, known_type
from typedbatch.mypy.scopes import Binding, Scope, functions_around, happens_before
from typedbatch.mypy.tree import children, last_name


class Trust(IntEnum):
    """What may be said of a field that is not among the known ones."""

    NONE = 0
    """Nothing: somebody else may have set it."""
    FILE = 1
    """It is not there, unless this file makes a field of that name somewhere."""
    FULL = 2
    """It is not there."""


_JOINERS = {"typedbatch.batch.cat", "typedbatch.batch.stack", f"{BATCH}.cat", f"{BATCH}.stack"}
_READERS = _JOINERS | {
    BATCH,
    "typedbatch.gate.validate",
    "typedbatch.gate.conforms",
    "typedbatch.gate.extend",
    "typedbatch.stages.convert",
    "copy.copy",
    "copy.deepcopy",
}
_KEEPING = {
    "split", "copy", "to_torch", "to_numpy", "to_at_least_2d", "dropnull", "isnull", "apply_values_transform",
    "cat", "stack", "empty", "empty_",
}  # fmt: skip
_CHANGING = {"update", "setdefault", "cat_", "stack_", "set_array_at_key", "__setitem__", "__setattr__", "__dict__"}
_LOOKING = {
    "print", "len", "repr", "str", "isinstance", "type", "id", "hasattr", "getattr", "list", "tuple", "iter", "next",
    "enumerate", "zip", "reversed", "bool", "reveal_type", "assert_type",
}  # fmt: skip
_STANDARD = ("builtins", "typing", "collections", "queue", "numpy", "torch", "copy", "itertools", "random", "asyncio")


def trust_in(api: Api, scope: Scope, receiver: Expression, seen: frozenset[Var] = frozenset()) -> Trust:
    """How much is known of what ``receiver`` is, on its line."""
    if isinstance(receiver, CallExpr):
        return _trust_in_call(api, scope, receiver, seen)
    if isinstance(receiver, IndexExpr):
        base = known_type(api, receiver.base)
        return (
            trust_in(api, scope, receiver.base, seen) if is_batch(next(iter(alternatives(base)), None)) else Trust.FILE
        )
    if isinstance(receiver, MemberExpr) and not isinstance(receiver.node, Var):
        return trust_in(api, scope, receiver.expr, seen)
    if isinstance(receiver, (OpExpr, ConditionalExpr)):
        sides = list(children(receiver))[-2:]
        return max(trust_in(api, scope, side, seen) for side in sides)
    if isinstance(receiver, NameExpr) and isinstance(receiver.node, Var) and receiver.node not in seen:
        return _trust_in_name(api, scope, receiver, receiver.node, seen | {receiver.node})
    if isinstance(receiver, NameExpr) and receiver.node in seen:
        return Trust.FULL  # b = b.to_torch(): as far as its other bindings go
    return Trust.FILE


def _trust_in_call(api: Api, scope: Scope, call: CallExpr, seen: frozenset[Var]) -> Trust:
    callee = call.callee
    if not isinstance(callee, RefExpr):
        return Trust.FILE
    if callee.fullname == BATCH:
        return Trust.FULL
    if callee.fullname in _JOINERS or (isinstance(callee, MemberExpr) and callee.name in ("cat", "stack")):
        parts = call.args[0] if call.args else None
        items = parts.items if isinstance(parts, (ListExpr, TupleExpr)) else []
        batches = [item for item in items if not isinstance(item, DictExpr)]
        return min((trust_in(api, scope, item, seen) for item in batches), default=Trust.FILE)
    if isinstance(callee, MemberExpr) and callee.name in _KEEPING:
        return trust_in(api, scope, callee.expr, seen)
    return Trust.FILE


def _trust_in_name(api: Api, scope: Scope, name: NameExpr, variable: Var, seen: frozenset[Var]) -> Trust:
    bindings = scope.of(variable)
    if not bindings or (not isinstance(scope.root, FuncItem) and functions_around(scope.around(name))):
        return min(Trust.FILE, _after_uses(api, scope, name, variable))
    trust = _after_uses(api, scope, name, variable)
    return min([trust, *(_trust_in_binding(api, scope, binding, seen) for binding in bindings)])


def _trust_in_binding(api: Api, scope: Scope, binding: Binding, seen: frozenset[Var]) -> Trust:
    if binding.value is None:
        return Trust.FILE
    if isinstance(binding.value, NameExpr) and binding.value.fullname == "builtins.None":
        return Trust.FILE  # where it is not None, it may be as some branch made it
    type_ = known_type(api, binding.value)
    is_call = isinstance(binding.value, CallExpr)
    if binding.iterated and type_ is not None and not is_call and not any(map(is_batch, alternatives(type_))):
        return Trust.FILE  # the items of a list
    if not binding.iterated and (type_ is None or known_fields(type_) is None):
        return Trust.FULL  # what is known of the name does not come from here
    shared = not binding.iterated and len(scope.values[id(binding.value)]) > 1
    if shared or (isinstance(binding.value, NameExpr) and not binding.iterated):  # what is written to one is in both
        return min(Trust.FILE, trust_in(api, scope, binding.value, seen))
    return trust_in(api, scope, binding.value, seen)


def _after_uses(api: Api, scope: Scope, name: NameExpr, variable: Var) -> Trust:
    homes = [node for node, _ in scope.uses.get(variable, [])]
    home = next((around for node, around in scope.uses.get(variable, []) if node is name), ())
    trust = Trust.FULL if homes else Trust.FILE
    for node, around in scope.uses.get(variable, []):
        if functions_around(around) != functions_around(home):
            trust = min(trust, Trust.FILE)  # a function within this one, or around it, knows the name too
        elif node is not name and happens_before((node, around), name):
            trust = min(trust, trust_after(api, node, around))
    return trust


def trust_after(api: Api, name: Expression, around: tuple[Node, ...]) -> Trust:
    """What is still known of a batch after it was used by its bare name."""
    parent = around[-1] if around else None
    if isinstance(parent, ConditionalExpr) or (isinstance(parent, OpExpr) and parent.op in ("and", "or")):
        return trust_after(api, name, around[:-1])  # one of its two sides
    if isinstance(parent, MemberExpr) and parent.name in _CHANGING and not _is_called(parent, around):
        return Trust.NONE  # change = batch.update
    if isinstance(parent, MemberExpr) or (isinstance(parent, IndexExpr) and isinstance(parent.index, StrExpr)):
        if any(map(is_batch, alternatives(known_type(api, parent)))):
            return trust_after(api, parent, around[:-1])  # a nested batch
        return Trust.FULL
    if isinstance(parent, (IndexExpr, UnaryExpr, OpExpr, ComparisonExpr, RevealExpr, GeneratorExpr)):
        return Trust.FULL
    if isinstance(parent, (ExpressionStmt, ReturnStmt, AssertStmt, IfStmt, WhileStmt, ForStmt, DelStmt)):
        return Trust.FULL
    if isinstance(parent, OperatorAssignmentStmt):
        return Trust.FULL
    if isinstance(parent, CallExpr):
        return trust_after_call(api, parent, name)
    if isinstance(parent, (ListExpr, TupleExpr)) and len(around) > 1 and _reads(around[-2]):
        return Trust.FULL
    return Trust.FILE


def _is_called(method: MemberExpr, around: tuple[Node, ...]) -> bool:
    call = around[-2] if len(around) > 1 else None
    return isinstance(call, CallExpr) and call.callee is method


def _reads(call: Any) -> bool:
    return (
        isinstance(call, CallExpr)
        and isinstance(call.callee, RefExpr)
        and (call.callee.fullname in _READERS or last_name(call.callee) in ("cat", "stack", "cat_", "stack_"))
    )


def trust_after_call(api: Api, call: CallExpr, argument: Expression) -> Trust:
    """What is still known of a batch after it was handed to a function."""
    callee = call.callee
    if _reads(call) or (isinstance(callee, NameExpr) and callee.name in _LOOKING):
        return Trust.FULL
    if isinstance(callee, RefExpr) and callee.fullname in ("builtins.setattr", "builtins.vars"):
        return Trust.NONE
    callee_type = known_type(api, callee)
    if callee_type is None and isinstance(callee, RefExpr):  # mypy has not come to it yet
        callee_type = getattr(callee.node, "type", None)
    signature = get_proper_type(callee_type) if callee_type is not None else None
    if isinstance(signature, Overloaded):
        signature = signature.items[0]
    if not isinstance(signature, CallableType):
        return Trust.NONE
    definition = signature.definition
    if isinstance(definition, FuncDef) and definition.fullname.split(".")[0] in _STANDARD:
        return Trust.FILE if isinstance(callee, MemberExpr) else Trust.FULL
    return Trust.FULL if all(map(_only_reads, _asked_of(signature, call, argument))) else Trust.NONE


def _asked_of(signature: CallableType, call: CallExpr, argument: Expression) -> list[ProperType]:
    place = next((i for i, given in enumerate(call.args) if given is argument), None)
    name = call.arg_names[place] if place is not None else None
    if name is not None:
        found = signature.argument_by_name(name)
    elif place is not None:
        found = signature.argument_by_position(place)
    else:
        found = None
    return [get_proper_type(found.typ)] if found is not None else [get_proper_type(signature.ret_type)]


def _only_reads(asked: ProperType) -> bool:
    """A protocol has read-only fields, so a function that asks for one sets none."""
    if isinstance(asked, UnionType):
        return any(_only_reads(get_proper_type(item)) for item in asked.items)
    return (
        isinstance(asked, Instance)
        and (asked.type.is_protocol or not asked.type.has_base(BATCH))
        and (asked.type.fullname != "builtins.object")
    )
