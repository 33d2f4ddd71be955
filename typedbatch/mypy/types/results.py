"""What functions of this file return whose batches are written out: ``return Batch(obs=obs, act=act)``.

They are declared ``-> Batch``, which says nothing. Only the syntax is read, and only that of the file that is being
checked: what a cache or another order of files would leave out can make no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mypy.nodes import (
    ARG_NAMED,
    CallExpr,
    Decorator,
    DictExpr,
    Expression,
    FuncDef,
    FuncItem,
    IndexExpr,
    MemberExpr,
    NameExpr,
    RefExpr,
    ReturnStmt,
    StrExpr,
    Var,
)
from mypy.types import Instance, get_proper_type

from typedbatch.mypy.engine.scopes import Scope, scope_of
from typedbatch.mypy.internals import Api, known_type, module_around
from typedbatch.mypy.nodes import children
from typedbatch.mypy.types.fields import BATCH, Fields, Rest, anything, met


def returned(api: Api, call: CallExpr) -> Fields | None:
    """The fields, by name alone, of the batch that a call gives; None where they are not to be seen.

    A method may be another one in a derived class: its batch may have any other field.
    """
    function, is_method = _called(api, call)
    if function is None or function.is_generator or function.is_coroutine or function.abstract_status:
        return None
    scope = scope_of(api, function)
    results = [_result(scope, statement.expr) for statement in _returns(function)]
    fields = [one for one in results if one is not None]
    if not fields or len(fields) < len(results):
        return None
    made = met(api, fields)
    return made.opened() if is_method else made


def _called(api: Api, call: CallExpr) -> tuple[FuncDef | None, bool]:
    """The function of this file that is called, and if it is a method."""
    callee, module = call.callee, module_around(api)
    if module is None:
        return None, False
    if isinstance(callee, RefExpr) and callee.node is not None:
        node, is_method = callee.node, isinstance(callee, MemberExpr)
        name = callee.fullname
        is_here = name.rpartition(".")[0] == module.fullname
        return (_plain(node), is_method) if is_here else (None, False)
    if not isinstance(callee, MemberExpr):
        return None, False
    owner = get_proper_type(known_type(api, callee.expr))
    if not isinstance(owner, Instance):
        return None, False
    found = owner.type.get(callee.name)
    is_here = found is not None and any(
        base.module_name == module.fullname and base.names.get(callee.name) is found for base in owner.type.mro
    )
    return (_plain(found.node), True) if found is not None and is_here else (None, False)


def _plain(node: Any) -> FuncDef | None:
    """A function as it is written; None where a decorator or overloads may make another of it."""
    if isinstance(node, Decorator) and not node.decorators and not node.var.is_property:
        node = node.func
    return node if isinstance(node, FuncDef) else None


def _returns(function: FuncDef) -> Iterator[ReturnStmt]:
    todo: list[Any] = [function.body]
    while todo:
        node = todo.pop()
        if isinstance(node, ReturnStmt):
            yield node
        elif not isinstance(node, (FuncItem, Expression)):
            todo.extend(children(node))


def _result(scope: Scope, value: Expression | None) -> Fields | None:
    """The fields of a batch that is returned, written out there or in the name that it had; None for another value.

    What a branch sets counts as there, and a name that is more than written to and read may get any field.
    """
    if not isinstance(value, NameExpr) or not isinstance(value.node, Var):
        return _written_out(value)
    made = [_written_out(binding.value) for binding in scope.of(value.node)]
    known = [fields for fields in made if fields is not None]
    if not known or len(known) < len(made):
        return None
    held = scope.held[value.node]
    names = sorted({*held.names, *(name for fields in known for name in fields.known)})
    used = [around[-1] for _, around in scope.uses.get(value.node, ())]
    is_kept = all(isinstance(user, (MemberExpr, IndexExpr, ReturnStmt)) for user in used) and not held.unseen
    fields = Fields(dict.fromkeys(names, anything()))
    return fields if is_kept and all(one.rest is Rest.NONE for one in known) else fields.opened()


def _written_out(value: Expression | None) -> Fields | None:
    """The fields of ``Batch(...)``; None for any other expression."""
    if not isinstance(value, CallExpr) or not isinstance(value.callee, RefExpr) or value.callee.fullname != BATCH:
        return None
    fields = Fields()
    for argument, kind, name in zip(value.args, value.arg_kinds, value.arg_names, strict=True):
        if kind is ARG_NAMED and name is not None:
            fields = fields.updated({name: anything()} if name not in ("copy", "meta") else {})
        elif isinstance(argument, DictExpr):
            fields = _of_display(argument, fields)
        else:
            fields = fields.opened(types_too=True)
    return fields


def _of_display(display: DictExpr, fields: Fields) -> Fields:
    for key, _ in display.items:
        fields = fields.updated({key.value: anything()}) if isinstance(key, StrExpr) else fields.opened(types_too=True)
    return fields
