"""Attributes that the constructor of a torch module sets: layers and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from mypy.nodes import AssignmentStmt, Expression, FuncDef, IndexExpr, MemberExpr, MypyFile, TypeInfo

from typedbatch.mypy.arrays.values import Value
from typedbatch.mypy.engine.scopes import scope_of
from typedbatch.mypy.nodes import nodes_in

MODULE = "torch.nn.modules.module.Module"
_GROWS = frozenset({"append", "extend", "insert", "add_module", "update", "pop"})


class Members:
    """The attributes of the classes of a file that are modules of torch's.

    Args:
        api: mypy's checker.
        tree: the file.
        read: go through a constructor, and set what it gives each attribute.
    """

    def __init__(self, api: Any, tree: MypyFile, read: Callable[[FuncDef, dict[str, Value]], None]) -> None:
        self._api = api
        self._tree = tree
        self._read = read
        self._made: dict[TypeInfo, dict[str, Value]] = {}

    def get(self, owner: TypeInfo, name: str) -> Value:
        """Return what an attribute is that is set once, in a constructor; None for any other."""
        if not owner.has_base(MODULE):
            return None
        for base in owner.mro:
            found = self._of(base).get(name) if base.module_name == self._tree.fullname else None
            if found is not None:
                is_set_once = scope_of(self._api, self._tree).held[name].bound <= 1  # none for a buffer
                return found if is_set_once and name not in self._grown else None
        return None

    @cached_property
    def _grown(self) -> set[str]:
        """Attributes whose layers are added to or replaced somewhere in the file."""
        changed: list[Expression] = []
        for node in nodes_in(self._tree):
            if isinstance(node, MemberExpr) and node.name in _GROWS:
                changed.append(node.expr)
            elif isinstance(node, AssignmentStmt):
                changed += [target.base for target in node.lvalues if isinstance(target, IndexExpr)]
        return {node.name for node in changed if isinstance(node, MemberExpr)}

    def _of(self, owner: TypeInfo) -> Mapping[str, Value]:
        if owner not in self._made:
            made = self._made[owner] = {}
            symbol = owner.names.get("__init__")
            if symbol is not None and isinstance(symbol.node, FuncDef):
                self._read(symbol.node, made)
        return self._made[owner]
