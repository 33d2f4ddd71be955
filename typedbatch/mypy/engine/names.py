"""Which names a part of a program assigns to, and which sizes a condition compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mypy import nodes
from mypy.nodes import Expression, Node
from mypy.patterns import Pattern

from typedbatch._program.arrays.sizes import Name, Size
from typedbatch._program.arrays.tables import RESHAPED_IN_PLACE
from typedbatch._program.arrays.values import Array, names_of
from typedbatch.mypy.batches.handing import leaves_alone
from typedbatch.mypy.nodes import last_name, nodes_in, walk

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

_LOOKS = (
    nodes.ForStmt, nodes.GeneratorExpr, nodes.DictionaryComprehension, nodes.ConditionalExpr, nodes.OpExpr,
    nodes.UnaryExpr, nodes.ComparisonExpr, nodes.SliceExpr, nodes.ReturnStmt, nodes.IfStmt, nodes.WhileStmt,
    nodes.AssertStmt,
)  # fmt: skip
_TARGETS: frozenset[Any] = frozenset({
    nodes.AssignmentStmt, nodes.OperatorAssignmentStmt, nodes.DelStmt, nodes.ForStmt, nodes.AssignmentExpr,
    nodes.WithStmt,
})  # fmt: skip
"""All that ``targets_of`` knows."""
_ASKS = frozenset({"ndim", "dim", "dtype", "is_floating_point", "is_complex", "issubdtype", "isscalar", "is_scalar"})


def assigned_in(body: Node) -> list[Any]:
    """Names that are assigned to, each as often as it is; those of a loop twice."""
    assigning = [node for node in nodes_in(body) if node.__class__ in _TARGETS]
    return [name.node for node in assigning for target in targets_of(node) for name in names_in(target)]


def targets_of(node: Node) -> list[Expression]:
    """Return what a statement or expression assigns to; the target of a loop twice."""
    if isinstance(node, nodes.AssignmentStmt):
        return node.lvalues
    if isinstance(node, nodes.OperatorAssignmentStmt):
        return [node.lvalue]
    if isinstance(node, nodes.DelStmt):
        return [node.expr]
    if isinstance(node, nodes.ForStmt):
        return [node.index, node.index]
    if isinstance(node, nodes.AssignmentExpr):
        return [node.target]
    return [target for target in node.target if target is not None] if isinstance(node, nodes.WithStmt) else []


def names_in(target: Expression) -> Iterator[nodes.NameExpr]:
    """Yield the names in the target of an assignment."""
    if isinstance(target, nodes.NameExpr):
        yield target
    elif isinstance(target, (nodes.TupleExpr, nodes.ListExpr)):
        for item in target.items:
            yield from names_in(item)
    elif isinstance(target, nodes.StarExpr):
        yield from names_in(target.expr)


def captured(pattern: Pattern) -> Iterator[Any]:
    """Yield the names that a pattern of ``match`` binds."""
    names = [getattr(pattern, field, None) for field in ("name", "capture", "rest")]
    yield from (name.node for name in names if isinstance(name, nodes.NameExpr))
    for field in ("pattern", "patterns", "positionals", "keyword_values", "values"):
        inner = getattr(pattern, field, None)
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, Pattern):
                yield from captured(one)


def bound_often(function: nodes.FuncDef) -> set[Any]:
    """Names of a function that are bound more than once."""
    assigned = Counter([*assigned_in(function.body), *(argument.variable for argument in function.arguments)])
    return {name for name, times in assigned.items() if times > 1}


def functions_of(statement: nodes.Statement) -> list[nodes.FuncDef]:
    """The functions with a body in a definition."""
    if isinstance(statement, nodes.FuncDef):
        return [statement]
    if isinstance(statement, nodes.Decorator):
        return [statement.func]
    if isinstance(statement, nodes.OverloadedFuncDef):
        parts = [*statement.items, *([statement.impl] if statement.impl is not None else [])]
        return [function for part in parts for function in functions_of(part)]
    return []


def handed_on(body: Node, reads: Callable[[nodes.CallExpr], bool]) -> set[Any]:
    """Names that are used in other ways than to look at what they are: lists under them may be added to.

    Args:
        body: of a function or module.
        reads: whether a call does nothing to its arguments.
    """
    found = {
        inner.node
        for node in nodes_in(body)
        if node.__class__ in _TARGETS
        for target in targets_of(node)
        if not isinstance(target, nodes.NameExpr) or isinstance(node, nodes.OperatorAssignmentStmt)
        for inner in nodes_in(target)
        if isinstance(inner, nodes.NameExpr)
    }
    for node, around in walk(body):
        if not isinstance(node, nodes.NameExpr) or not around or node.node in found:
            continue
        parent = around[-1]
        if isinstance(parent, nodes.IndexExpr):
            looks = parent.base is node
        elif isinstance(parent, nodes.CallExpr):
            looks = node is parent.callee or reads(parent)
        elif isinstance(parent, nodes.AssignmentStmt):
            looks = parent.rvalue is not node
        else:
            looks = isinstance(parent, _LOOKS)
        if not looks:
            found.add(node.node)
    return found


def filled_inside(tree: Node) -> set[Any]:
    """Return the names of a file of which its functions set fields, or which they hand on."""
    nodes_of_functions = [node for one in nodes_in(tree) if isinstance(one, nodes.FuncDef) for node in nodes_in(one)]
    found = [target for node in nodes_of_functions for target in targets_of(node)]
    for call in nodes_of_functions:
        if isinstance(call, nodes.CallExpr):
            found += [call.callee, *(one for one in call.args if not leaves_alone(call, one))]
    owners = [getattr(one, "expr", getattr(one, "base", one)) for one in found]
    return {name.node for name in owners if isinstance(name, nodes.NameExpr) and name.kind == nodes.GDEF}


def changed_inside(function: Node) -> set[Any]:
    """Names of outside that a function assigns to, or gives another shape in place, whenever it is called."""
    outside = {
        name
        for node in nodes_in(function)
        if isinstance(node, (nodes.NonlocalDecl, nodes.GlobalDecl))
        for name in node.names
    }
    found = {name for name in assigned_in(function) if getattr(name, "name", None) in outside}
    for node in nodes_in(function):
        if isinstance(node, nodes.CallExpr) and isinstance(node.callee, nodes.MemberExpr):
            receiver = node.callee.expr
            if isinstance(receiver, nodes.NameExpr) and node.callee.name in RESHAPED_IN_PLACE:
                found.add(receiver.node)
    return found


def compared_sizes(condition: Expression, reading: Reading) -> set[Name]:
    """Names of sizes that a condition compares, with anything but 0."""
    found: set[Name] = set()
    for node in nodes_in(condition):
        if isinstance(node, nodes.ComparisonExpr) and any(
            sign in ("==", "!=", "in", "not in") for sign in node.operators
        ):
            values = [reading.read(operand) for operand in node.operands]
            if not any(isinstance(value, Size) and value.number == 0 for value in values):
                found.update(name for value in values if not isinstance(value, Array) for name in names_of(value))
    return found


def asked_about(condition: Expression) -> list[Any]:
    """Names of arrays of which a condition asks the number of axes or the dtype: they may not be as declared."""
    found = []
    for node in nodes_in(condition):
        if isinstance(node, nodes.MemberExpr) and node.name in _ASKS:
            found.append(node.expr)
        elif isinstance(node, nodes.CallExpr) and last_name(node.callee) == "len":
            found += [one.expr for one in node.args if isinstance(one, nodes.MemberExpr) and one.name == "shape"]
        elif isinstance(node, nodes.CallExpr) and last_name(node.callee) in _ASKS:
            found += node.args
    return [node.node for node in found if isinstance(node, nodes.NameExpr)]


def module_of(node: Expression) -> str | None:
    """``torch`` or ``numpy``, for a name that is one of these modules, or one inside; None for everything else."""
    if isinstance(node, nodes.RefExpr) and isinstance(node.node, nodes.MypyFile):
        return node.node.fullname
    return None
