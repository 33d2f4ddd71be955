"""Walking the syntax tree that mypy made. Its own visitors are compiled and cannot be derived from in a plugin."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
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
    """The statements and expressions right inside a node, in the order of the source; patterns of match left out."""
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
    """``x`` of ``x`` and of ``a.b.x``; empty for anything else."""
    return node.name if isinstance(node, (nodes.NameExpr, nodes.MemberExpr)) else ""


_kept: dict[Any, tuple[list[Any], int, int]] | None = None
"""The nodes in each function, block and file, as a list and the part of it, while :func:`keeping` is entered."""
_ROOTS = frozenset({nodes.Block, nodes.FuncDef, nodes.MypyFile})


@contextmanager
def keeping() -> Generator[None]:
    """Walk through each tree once inside the block, in which no tree may change."""
    global _kept
    before, _kept = _kept, {}
    try:
        yield
    finally:
        _kept = before


def nodes_in(node: Any) -> Sequence[Any]:
    """Return a node and all within it."""
    if _kept is None or node.__class__ not in _ROOTS:
        return _all_in(node, {})
    place = _kept.get(node)
    if place is None:
        return _all_in(node, _kept)
    found, start, end = place
    return found if end - start == len(found) else found[start:end]


def _all_in(node: Any, places: dict[Any, tuple[list[Any], int, int]]) -> list[Any]:
    """Return a node and all within it, and store in ``places`` where the functions and blocks are in the list."""
    found: list[Any] = []
    todo = [node]
    open_: list[tuple[Any, int, int]] = []
    level = -1
    while todo:
        current = todo.pop()
        kind = current.__class__
        while len(todo) < level:
            root, start, _ = open_.pop()
            places[root] = found, start, len(found)
            level = open_[-1][2] if open_ else -1
        names = _CHILDREN.get(kind)
        if names is not None:
            if kind in _ROOTS:
                level = len(todo)
                open_.append((current, len(found), level))
            for name in names:
                value = getattr(current, name)
                if value.__class__ is list:
                    for one in value:
                        if one.__class__ is list or one.__class__ is tuple:
                            _add_flat(todo, one)
                        elif one is not None:
                            todo.append(one)
                elif value is not None:
                    todo.append(value)
        found.append(current)
    for root, start, _ in open_:
        places[root] = found, start, len(found)
    return found


def statements_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the statements in a file, with the innermost function around each."""
    todo: list[tuple[Any, Any]] = [(node, None)]
    while todo:
        current, around = todo.pop()
        yield current, around
        inner = current if isinstance(current, nodes.FuncDef) else around
        for name in _STATEMENTS.get(current.__class__, ()):
            value = getattr(current, name)
            if value.__class__ is list:
                todo.extend((one, inner) for one in value if one is not None)
            elif value is not None:
                todo.append((value, inner))


_STATEMENTS: dict[type, tuple[str, ...]] = {
    nodes.MypyFile: ("defs",),
    nodes.ClassDef: ("defs",),
    nodes.Block: ("body",),
    nodes.FuncDef: ("body",),
    nodes.Decorator: ("func",),
    nodes.OverloadedFuncDef: ("items",),
    nodes.IfStmt: ("body", "else_body"),
    nodes.WhileStmt: ("body", "else_body"),
    nodes.ForStmt: ("body", "else_body"),
    nodes.WithStmt: ("body",),
    nodes.TryStmt: ("body", "handlers", "else_body", "finally_body"),
    nodes.MatchStmt: ("bodies",),
}


def walk(node: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """A node and all within it, each with the nodes around it, innermost last."""
    todo: list[tuple[Any, tuple[Any, ...]]] = [(node, ())]
    while todo:
        current, around = todo.pop()
        yield current, around
        if current.__class__ in _CHILDREN:
            inner = (*around, current)
            found = children(current)
            found.reverse()
            todo.extend([(child, inner) for child in found])
