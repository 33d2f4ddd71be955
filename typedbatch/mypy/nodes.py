"""Walking the syntax tree that mypy made. Its own visitors are compiled and cannot be derived from in a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mypy import nodes

_CHILDREN: dict[type, tuple[str, ...]] = {
    # statements
    nodes.MypyFile: ("defs",),
    nodes.ClassDef: ("defs",),
    nodes.Block: ("body",),
    nodes.FuncDef: ("arguments", "body"),
    nodes.Argument: ("initializer",),
    nodes.Decorator: ("func",),
    nodes.OverloadedFuncDef: ("items",),
    nodes.ExpressionStmt: ("expr",),
    nodes.AssignmentStmt: ("lvalues", "rvalue"),
    nodes.OperatorAssignmentStmt: ("lvalue", "rvalue"),
    nodes.ReturnStmt: ("expr",),
    nodes.AssertStmt: ("expr", "msg"),
    nodes.DelStmt: ("expr",),
    nodes.RaiseStmt: ("expr", "from_expr"),
    nodes.IfStmt: ("expr", "body", "else_body"),
    nodes.WhileStmt: ("expr", "body", "else_body"),
    nodes.ForStmt: ("index", "expr", "body", "else_body"),
    nodes.WithStmt: ("expr", "target", "body"),
    nodes.TryStmt: ("body", "types", "handlers", "else_body", "finally_body"),
    nodes.MatchStmt: ("subject", "guards", "bodies"),
    # expressions
    nodes.CallExpr: ("callee", "args"),
    nodes.MemberExpr: ("expr",),
    nodes.IndexExpr: ("base", "index"),
    nodes.UnaryExpr: ("expr",),
    nodes.OpExpr: ("left", "right"),
    nodes.ComparisonExpr: ("operands",),
    nodes.SliceExpr: ("begin_index", "end_index", "stride"),
    nodes.ListExpr: ("items",),
    nodes.TupleExpr: ("items",),
    nodes.SetExpr: ("items",),
    nodes.DictExpr: ("items",),
    nodes.ConditionalExpr: ("cond", "if_expr", "else_expr"),
    nodes.StarExpr: ("expr",),
    nodes.AwaitExpr: ("expr",),
    nodes.YieldExpr: ("expr",),
    nodes.YieldFromExpr: ("expr",),
    nodes.AssignmentExpr: ("target", "value"),
    nodes.LambdaExpr: ("arguments", "body"),
    nodes.ListComprehension: ("generator",),
    nodes.SetComprehension: ("generator",),
    nodes.GeneratorExpr: ("sequences", "indices", "condlists", "left_expr"),
    nodes.DictionaryComprehension: ("sequences", "indices", "condlists", "key", "value"),
    nodes.CastExpr: ("expr",),
    nodes.AssertTypeExpr: ("expr",),
    nodes.RevealExpr: ("expr",),
}


def children(node: Any) -> list[Any]:
    """Return the statements and expressions right inside a node, in the order of the source, without patterns."""
    found: list[Any] = []
    for name in _CHILDREN.get(type(node), ()):
        value = getattr(node, name)
        if value.__class__ is list or value.__class__ is tuple:
            _add_flat(found, value)
        elif value is not None:
            found.append(value)
    return found


def _add_flat(found: list[Any], values: Any) -> None:
    for value in values:
        if value.__class__ is list or value.__class__ is tuple:
            _add_flat(found, value)
        elif value is not None:
            found.append(value)


def last_name(node: Any) -> str:
    """Return ``x`` of ``x`` and of ``a.b.x``; empty for anything else."""
    return node.name if isinstance(node, (nodes.NameExpr, nodes.MemberExpr)) else ""


def nodes_in(node: Any) -> list[Any]:
    """Return a node and all within it."""
    found: list[Any] = []
    todo = [node]
    while todo:
        current = todo.pop()
        for name in _CHILDREN.get(current.__class__, ()):
            value = getattr(current, name)
            if value.__class__ is list:
                _add_flat(todo, value)
            elif value is not None:
                todo.append(value)
        found.append(current)
    return found


def walk(node: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield a node and all within it, each with the nodes around it, innermost last."""
    todo: list[tuple[Any, tuple[Any, ...]]] = [(node, ())]
    while todo:
        current, around = todo.pop()
        yield current, around
        if current.__class__ in _CHILDREN:
            inner = (*around, current)
            found = children(current)
            found.reverse()
            todo.extend([(child, inner) for child in found])
