"""A file without the bodies of functions that do not matter for a line, which mypy checks in a fraction of the time."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain

from typedbatch.cli.mypy_run import tree_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def reduced(text: str, line: int) -> str:
    """Return a text of as many lines, in which only functions have a body that the one around a line leads to.

    Args:
        text: Readable text of a file.
        line: Line, from 1.
    """
    tree = tree_of(text)
    functions = list(_functions_of(tree))
    kept = _kept(tree, functions, line)
    lines = text.split("\n")
    for function, _ in functions:
        first = min(_first_line(statement) for statement in function.body)
        if function not in kept and function.end_lineno is not None and first > _signature_end(function):
            lines[first - 1] = " " * function.body[0].col_offset + "raise"
            lines[first : function.end_lineno] = [""] * (function.end_lineno - first)
    return "\n".join(lines)


def _functions_of(tree: ast.Module) -> Iterator[tuple[_Function, ast.ClassDef | None]]:
    """Yield the functions and methods of a file, each with its class."""
    todo: list[tuple[ast.stmt, ast.ClassDef | None]] = [(statement, None) for statement in tree.body]
    while todo:
        node, owner = todo.pop()
        if isinstance(node, _Function):
            yield node, owner
        elif isinstance(node, ast.ClassDef):
            todo += [(statement, node) for statement in node.body]
        else:
            todo += [(child, owner) for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def _kept(tree: ast.Module, functions: Iterable[tuple[_Function, ast.ClassDef | None]], line: int) -> set[_Function]:
    """Return the function around a line, those whose names it uses, and so on."""
    functions = list(functions)
    around = [one for one in functions if _first_line(one[0]) <= line <= (one[0].end_lineno or 0)]
    kept = {function for function, _ in around}
    classes = {owner for _, owner in around}
    top = [statement for statement in tree.body if not isinstance(statement, (*_Function.__args__, ast.ClassDef))]
    names = set(chain.from_iterable(map(_names_in, kept or top)))
    before = -1
    while before < len(kept):
        before = len(kept)
        for function, owner in functions:
            is_used = function.name in names
            sets = owner is not None and (owner in classes or owner.name in names) and sets_attributes(function)
            if function not in kept and (is_used or sets):
                kept.add(function)
                names.update(_names_in(function))
    return kept


def _names_in(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr


def sets_attributes(function: ast.AST) -> bool:
    """Return whether a method sets attributes of ``self``, which others see."""
    return any(
        isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id in ("self", "cls")
        for inner in ast.walk(function)
    )


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _signature_end(function: _Function) -> int:
    """Return the last line that the parameters and annotations of a function may be on."""
    parts = [*ast.walk(function.args), *([function.returns] if function.returns is not None else [])]
    return max([function.lineno, *(getattr(part, "end_lineno", 0) for part in parts)])
