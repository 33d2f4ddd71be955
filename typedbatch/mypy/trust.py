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
    AssignmentStmt,
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
    LambdaExpr,
    ListComprehension,
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
    YieldExpr,
)
from mypy.types import CallableType, Instance, Overloaded, ProperType, Type, UnionType, get_proper_type

from typedbatch.mypy.fields import BATCH, Rest, alternatives, is_batch, known_fields
from typedbatch.mypy.internals import Api, known_type
from typedbatch.mypy.nodes import children, last_name
from typedbatch.mypy.reach import in_one_loop
from typedbatch.mypy.results import returned
from typedbatch.mypy.scopes import Binding, Scope, functions_around, happens_before, position_of


class Trust(IntEnum):
    """What may be said of a field that is not among the known ones."""

    NONE = 0
    """Nothing: somebody else may have set it."""
    FILE = 1
    """Little: others hold the batch, too. It is not there, if this file makes no field of that name."""
    SCOPE = 2
    """It is not there, unless this function makes a field of that name: all who hold the batch are in it."""
    FULL = 3
    """It is not there."""


_JOINERS = {"typedbatch.batch.cat", "typedbatch.batch.stack", f"{BATCH}.cat", f"{BATCH}.stack"}
_OF_ROWS = {"typedbatch.rows.repeating.repeat", "typedbatch.rows.repeating.chunk", "typedbatch.rows.joining.union"}
_READERS = (
    _JOINERS
    | _OF_ROWS
    | {
        BATCH,
        "typedbatch.rows.repeating.pad_rows",
        "typedbatch.rows.grouping.groups",
        "typedbatch.rows.projecting.project",
        "typedbatch._validation.validate.validate",
        "typedbatch._validation.validate.conforms",
        "typedbatch._validation.validate.extend",
        "typedbatch._validation.convert.convert",
        "copy.copy",
        "copy.deepcopy",
    }
)
_KEEPING = {
    "split", "copy", "to_torch", "to_numpy", "to_at_least_2d", "dropnull", "isnull", "apply_values_transform",
    "cat", "stack", "empty", "empty_", "to", "pin_memory",
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
        if is_batch(next(iter(alternatives(known_type(api, receiver.base))), None)):
            return trust_in(api, scope, receiver.base, seen)
        return trust_in_items(api, scope, receiver.base, seen)
    if isinstance(receiver, MemberExpr) and not isinstance(receiver.node, Var):
        return trust_in(api, scope, receiver.expr, seen)
    if isinstance(receiver, (OpExpr, ConditionalExpr)):
        sides = [side for side in list(children(receiver))[-2:] if known_fields(known_type(api, side)) is not None]
        return min((trust_in(api, scope, side, seen) for side in sides), default=Trust.FILE)
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
        if not isinstance(parts, (ListExpr, TupleExpr)):
            return trust_in_items(api, scope, parts, seen)
        batches = [item for item in parts.items if not isinstance(item, DictExpr)]
        return min((trust_in(api, scope, item, seen) for item in batches), default=Trust.FILE)
    if callee.fullname in _OF_ROWS:
        batches = [arg for arg in call.args if known_fields(known_type(api, arg)) is not None]
        return min((trust_in(api, scope, batch, seen) for batch in batches), default=Trust.FILE)
    if isinstance(callee, MemberExpr) and callee.name in _KEEPING:
        return trust_in(api, scope, callee.expr, seen)
    result = returned(api, call)
    return Trust.FULL if result is not None and result.rest is Rest.NONE else Trust.FILE


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
        return trust_in_items(api, scope, binding.value, seen)
    if not binding.iterated and (type_ is None or known_fields(type_) is None):
        return Trust.FULL  # what is known of the name does not come from here
    shared = not binding.iterated and len(scope.values[id(binding.value)]) > 1
    if shared or (isinstance(binding.value, NameExpr) and not binding.iterated):  # what is written to one is in both
        return min(Trust.SCOPE, trust_in(api, scope, binding.value, seen))
    return trust_in(api, scope, binding.value, seen)


# ---- lists and dicts of batches --------------------------------------------------------------------------------------


def trust_in_items(api: Api, scope: Scope, container: Expression | None, seen: frozenset[Var]) -> Trust:
    """How much is known of the batches in a list or dict: something, if it does not leave the function."""
    if isinstance(container, (ListExpr, TupleExpr, DictExpr)):
        items = [item for _, item in container.items] if isinstance(container, DictExpr) else container.items
        return min((trust_in(api, scope, item, seen) for item in items), default=Trust.SCOPE)
    if isinstance(container, (ListComprehension, GeneratorExpr)):
        made = container.generator if isinstance(container, ListComprehension) else container
        return min(Trust.SCOPE, trust_in(api, scope, made.left_expr, seen))
    if isinstance(container, OpExpr) and container.op == "*":
        return trust_in_items(api, scope, container.left, seen)
    if isinstance(container, IndexExpr):
        return trust_in_items(api, scope, container.base, seen)
    if isinstance(container, CallExpr) and isinstance(container.callee, RefExpr):
        if container.callee.fullname in _CONTAINERS and len(container.args) <= 1:
            return trust_in_items(api, scope, container.args[0], seen) if container.args else Trust.SCOPE
        if isinstance(container.callee, MemberExpr) and container.callee.name in ("values", "copy"):
            return trust_in_items(api, scope, container.callee.expr, seen)
    if isinstance(container, NameExpr) and isinstance(container.node, Var) and container.node not in seen:
        return _trust_in_container(api, scope, container.node, seen | {container.node})
    return Trust.FILE


def _trust_in_container(api: Api, scope: Scope, variable: Var, seen: frozenset[Var]) -> Trust:
    bindings = scope.of(variable)
    if not bindings or not isinstance(scope.root, FuncItem):
        return Trust.FILE
    found = [Trust.SCOPE]
    for binding in bindings:
        fits = binding.value is not None and not binding.iterated
        found.append(trust_in_items(api, scope, binding.value, seen) if fits else Trust.FILE)
    for _, around in scope.uses.get(variable, []):
        found.append(_after_container_use(api, scope, around, seen))
    return min(found)


def _after_container_use(api: Api, scope: Scope, around: tuple[Node, ...], seen: frozenset[Var]) -> Trust:
    parent, outer = around[-1], around[-2] if len(around) > 1 else None
    if isinstance(parent, MemberExpr) and isinstance(outer, CallExpr) and outer.callee is parent:
        if parent.name in _ADDING:
            return min((trust_in(api, scope, item, seen) for item in outer.args[-1:]), default=Trust.FILE)
        return Trust.SCOPE if parent.name in _CONTAINER_METHODS else Trust.FILE
    if isinstance(parent, IndexExpr):
        binding = scope.bindings.get(id(parent))
        if binding is None:
            return Trust.SCOPE
        return trust_in(api, scope, binding.value, seen) if binding.value is not None else Trust.FILE
    if isinstance(parent, CallExpr):
        looks = isinstance(parent.callee, NameExpr) and parent.callee.name in _LOOKING | _CHOOSING
        return Trust.SCOPE if looks or _reads(parent) else Trust.FILE
    if isinstance(parent, (ListExpr, TupleExpr, DictExpr, AssignmentStmt, LambdaExpr, YieldExpr)):
        return Trust.FILE
    return Trust.SCOPE


_CONTAINERS = {
    "builtins.list", "builtins.tuple", "builtins.dict", "builtins.reversed", "builtins.sorted", "builtins.iter",
    "collections.deque",
}  # fmt: skip
_ADDING = {"append", "appendleft", "insert"}
_CONTAINER_METHODS = {"pop", "popleft", "clear", "copy", "index", "sort", "reverse", "keys", "values", "items", "get"}
_CHOOSING = {"min", "max", "sorted", "sum", "any", "all", "deque"}


# ---- uses of a name --------------------------------------------------------------------------------------------------


def _after_uses(api: Api, scope: Scope, name: NameExpr, variable: Var) -> Trust:
    homes = [node for node, _ in scope.uses.get(variable, [])]
    home = next((around for node, around in scope.uses.get(variable, []) if node is name), ())
    trust = Trust.FULL if homes else Trust.FILE
    for node, around in scope.uses.get(variable, []):
        if functions_around(around) != functions_around(home):
            trust = min(trust, _known_to_another(scope))  # a function within this one, or around it, knows the name too
        elif node is not name and happens_before((node, around), name) and not _is_another(scope, name, around, home):
            trust = min(trust, trust_after(api, scope, node, around))
    return trust


def _known_to_another(scope: Scope) -> Trust:
    return Trust.SCOPE if isinstance(scope.root, FuncItem) else Trust.FILE


def _is_another(scope: Scope, name: NameExpr, around: tuple[Node, ...], home: tuple[Node, ...]) -> bool:
    """Was a use further down, in a round of a loop before, one of another batch, as each round makes its own."""
    below = position_of(around[-1]) > position_of(name)
    return below and not in_one_loop(scope, name.node, list(around), list(home))


def trust_after(api: Api, scope: Scope, name: Expression, around: tuple[Node, ...]) -> Trust:
    """What is still known of a batch after it was used by its bare name."""
    parent = around[-1] if around else None
    if isinstance(parent, ConditionalExpr) or (isinstance(parent, OpExpr) and parent.op in ("and", "or")):
        return trust_after(api, scope, name, around[:-1])  # one of its two sides
    if isinstance(parent, MemberExpr) and parent.name in _CHANGING and not _is_called(parent, around):
        return Trust.NONE  # change = batch.update
    if isinstance(parent, MemberExpr) or (isinstance(parent, IndexExpr) and isinstance(parent.index, StrExpr)):
        if any(map(is_batch, alternatives(known_type(api, parent)))):
            return trust_after(api, scope, parent, around[:-1])  # a nested batch
        return Trust.FULL
    if isinstance(parent, (IndexExpr, UnaryExpr, OpExpr, ComparisonExpr, RevealExpr, GeneratorExpr)):
        return Trust.FULL
    if isinstance(parent, (ExpressionStmt, ReturnStmt, AssertStmt, IfStmt, WhileStmt, ForStmt, DelStmt)):
        return Trust.FULL
    if isinstance(parent, OperatorAssignmentStmt):
        return Trust.FULL
    if isinstance(parent, CallExpr):
        return _after_adding(api, scope, parent) or trust_after_call(api, parent, name)
    if isinstance(parent, (ListExpr, TupleExpr)) and len(around) > 1 and _reads(around[-2]):
        return Trust.FULL
    if isinstance(parent, (ListExpr, TupleExpr, DictExpr, AssignmentStmt)):
        return _after_assignment(api, scope, around)
    return Trust.FILE


def _after_adding(api: Api, scope: Scope, call: CallExpr) -> Trust | None:
    """Was it added to a list that does not leave the function."""
    callee = call.callee
    if isinstance(callee, MemberExpr) and callee.name in _ADDING and isinstance(callee.expr, NameExpr):
        return min(Trust.SCOPE, _kept_within(scope, callee.expr))
    return None


def _after_assignment(api: Api, scope: Scope, around: tuple[Node, ...]) -> Trust:
    """Was it given to local names only, or to a list or dict of such a name."""
    statement = next((node for node in reversed(around) if isinstance(node, AssignmentStmt)), None)
    if statement is None or not all(isinstance(target, NameExpr) for target in statement.lvalues):
        return Trust.FILE
    return min(_kept_within(scope, target) for target in statement.lvalues if isinstance(target, NameExpr))


def _kept_within(scope: Scope, name: NameExpr) -> Trust:
    """Is all that can happen to what a local name holds seen in this function."""
    if not isinstance(name.node, Var) or not scope.of(name.node) or not isinstance(scope.root, FuncItem):
        return Trust.FILE
    for _, around in scope.uses.get(name.node, []):
        parent, outer = around[-1], around[-2] if len(around) > 1 else None
        method = isinstance(parent, MemberExpr) and isinstance(outer, CallExpr) and outer.callee is parent
        call = isinstance(parent, CallExpr) and not _reads(parent) and last_name(parent.callee) not in _LOOKING
        if call or isinstance(parent, (ListExpr, TupleExpr, DictExpr, AssignmentStmt, YieldExpr, LambdaExpr)):
            return Trust.FILE
        if method and isinstance(parent, MemberExpr) and parent.name in _CHANGING:
            return Trust.FILE
    return Trust.SCOPE


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
    return _trust_after_call(call, argument, known_type(api, call.callee))


def trust_by_declaration(call: CallExpr, argument: Expression) -> Trust:
    """The same, told without what mypy has found so far: that depends on what it has come to."""
    return _trust_after_call(call, argument, None)


def _trust_after_call(call: CallExpr, argument: Expression, callee_type: Type | None) -> Trust:
    callee = call.callee
    if _reads(call) or (isinstance(callee, NameExpr) and callee.name in _LOOKING):
        return Trust.FULL
    if isinstance(callee, RefExpr) and callee.fullname in ("builtins.setattr", "builtins.vars"):
        return Trust.NONE
    if callee_type is None and isinstance(callee, RefExpr):
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
