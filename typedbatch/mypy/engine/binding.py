"""A function of another file, parsed from its text, with its names bound as mypy binds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mypy.errors import Errors
from mypy.fastparse import parse
from mypy.nodes import (
    GDEF,
    LDEF,
    ClassDef,
    DictionaryComprehension,
    FuncDef,
    GeneratorExpr,
    GlobalDecl,
    Import,
    ImportAll,
    ImportFrom,
    LambdaExpr,
    MatchStmt,
    MemberExpr,
    MypyFile,
    NameExpr,
    NonlocalDecl,
    RefExpr,
    SymbolTableNode,
    TryStmt,
    TypeInfo,
    Var,
    YieldExpr,
    YieldFromExpr,
)
from mypy.options import Options

from typedbatch.mypy.engine.names import names_in, targets_of
from typedbatch.mypy.nodes import nodes_in


def bound(modules: dict[str, MypyFile], module: str, function: FuncDef, text: str) -> FuncDef | None:
    """Return a function that is parsed from its text; None if the text is not one function.

    Args:
        modules: the modules of the build.
        module: name of the module that the function is in.
        function: the function as mypy knows it, perhaps without a body.
        text: its text.
    """
    options = Options()
    errors = Errors(options)
    tree = parse(text, "<function>", module, errors, options)
    if errors.is_errors() or len(tree.defs) != 1 or not isinstance(tree.defs[0], FuncDef) or module not in modules:
        return None
    parsed = tree.defs[0]
    if any(isinstance(node, _NOT_FOLLOWED) for node in nodes_in(parsed.body)):
        return None
    parsed.type, parsed.info = function.type, function.info
    parsed.is_generator = any(isinstance(node, (YieldExpr, YieldFromExpr)) for node in nodes_in(parsed.body))
    parsed._fullname = function.fullname  # noqa: SLF001  # mypy sets it itself, and has no other way
    _Binder(modules, modules[module]).bind(parsed)
    return parsed


_NOT_FOLLOWED = (MatchStmt, GlobalDecl, NonlocalDecl, ImportAll, FuncDef, ClassDef, LambdaExpr)
"""Statements and expressions that bind names in other ways, or have names of their own."""


class _Binder:
    """The names that a function can see.

    Args:
        modules: the modules of the build.
        home: the module of the function.
    """

    def __init__(self, modules: dict[str, MypyFile], home: MypyFile) -> None:
        self._modules = modules
        self._home = home

    def bind(self, function: FuncDef) -> None:
        """Set what each name in a function refers to."""
        local: dict[str, Any] = {one.variable.name: one.variable for one in function.arguments}
        for node in nodes_in(function.body):
            for name in _bound_at(node):
                local.setdefault(name, Var(name))
        for node in nodes_in(function.body):
            if isinstance(node, NameExpr):
                self._bind_name(node, local)
        for node in nodes_in(function.body):
            if isinstance(node, MemberExpr):
                self._bind_member(node)

    def _bind_name(self, node: NameExpr, local: dict[str, Any]) -> None:
        if node.name in local:
            node.node, node.kind = local[node.name], LDEF
            return
        found = self._home.names.get(node.name) or self._modules["builtins"].names.get(node.name)
        if found is not None:
            _refer(node, found)

    def _bind_member(self, node: MemberExpr) -> None:
        owner = node.expr
        if isinstance(owner, MemberExpr) and owner.node is None:
            self._bind_member(owner)
        inside = owner.node if isinstance(owner, RefExpr) else None
        if isinstance(inside, (MypyFile, TypeInfo)):
            found = inside.names.get(node.name)
            if found is not None:
                _refer(node, found)


def _bound_at(node: Any) -> Iterator[str]:
    """Yield the names that a statement or expression binds."""
    for target in targets_of(node):
        for name in names_in(target):
            yield name.name
    if isinstance(node, (GeneratorExpr, DictionaryComprehension)):
        for index in node.indices:
            for name in names_in(index):
                yield name.name
    elif isinstance(node, TryStmt):
        yield from (one.name for one in node.vars if one is not None)
    elif isinstance(node, Import):
        yield from (alias or name.partition(".")[0] for name, alias in node.ids)
    elif isinstance(node, ImportFrom):
        yield from (alias or name for name, alias in node.names)


def _refer(node: RefExpr, found: SymbolTableNode) -> None:
    node.node, node.kind = found.node, GDEF
    node.fullname = found.fullname or ""
