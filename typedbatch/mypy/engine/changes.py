"""Changes that a file makes to attributes, layers, functions and names after their definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from mypy.nodes import (
    AssignmentStmt,
    CallExpr,
    DelStmt,
    Expression,
    ForStmt,
    FuncDef,
    IndexExpr,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    Statement,
    StrExpr,
    TupleExpr,
    TypeInfo,
    WithStmt,
)

from typedbatch._program.arrays.tables import RESHAPED_IN_PLACE
from typedbatch.mypy.engine.names import assigned_in, targets_of
from typedbatch.mypy.nodes import last_name, nodes_in, statements_in

GROWS: Final = frozenset({"append", "extend", "insert", "add_module", "register_module", "update", "pop", "clear"})
"""Methods that add layers to a container, or take some from it."""
_NAMING: Final = frozenset({"setattr", "delattr", "object", "patch", "add_module", "register_module", "set_submodule"})
_ANYTHING: Final = frozenset({"_modules", "_parameters", "_buffers", "__dict__"})
_HOOKS: Final = frozenset({"register_forward_hook", "register_forward_pre_hook", "register_parametrization"})
_DATA: Final = frozenset({"data", "weight", "bias", "in_features", "out_features", "forward", "__call__"})
_SPECIAL: Final = frozenset({"__call__", "__new__", "__getattr__", "__setattr__", "__getattribute__"})


_GROWING: Final[frozenset[Any]] = frozenset({
    MemberExpr, CallExpr, AssignmentStmt, OperatorAssignmentStmt, DelStmt, ForStmt, WithStmt,
})  # fmt: skip
_CHANGING: Final[frozenset[Any]] = frozenset({MemberExpr, CallExpr, AssignmentStmt, DelStmt})


class Changes:
    """The changes of one file.

    Args:
        tree: The file.
    """

    def __init__(self, tree: MypyFile) -> None:
        self._tree = tree

    @cached_property
    def are_anywhere(self) -> bool:
        """Whether the file has hooks, ``setattr`` with a computed name, or new weights, which may change any module."""
        return any(_changes_anything(node) for node in nodes_in(self._tree) if node.__class__ in _CHANGING)

    @cached_property
    def grown(self) -> set[str]:
        """Attributes whose layers are added to, replaced or removed, and those that a text names."""
        seen = [node for node in nodes_in(self._tree) if node.__class__ in _GROWING]
        return {name for node in seen for name in self._grown_by(node)}

    def _grown_by(self, node: Node) -> Iterator[str]:
        if isinstance(node, MemberExpr) and node.name in GROWS:
            yield from self._names_of(node.expr)
        if isinstance(node, CallExpr) and last_name(node.callee) in _NAMING:
            yield from (part for one in node.args if isinstance(one, StrExpr) for part in one.value.split("."))
        for target in targets_of(node) if isinstance(node, Statement) else ():
            if isinstance(target, IndexExpr):
                yield from self._names_of(target.base)
            elif isinstance(node, OperatorAssignmentStmt):
                yield from self._names_of(target)

    def _names_of(self, node: Expression) -> Sequence[str]:
        """Return the attribute that an expression or a local name is."""
        if isinstance(node, MemberExpr):
            return [node.name]
        return self._aliases.get(node.node, ()) if isinstance(node, NameExpr) else ()

    @cached_property
    def _aliases(self) -> dict[Any, list[str]]:
        """The attributes that names are bound to."""
        found: dict[Any, list[str]] = {}
        for node in nodes_in(self._tree):
            if node.__class__ is AssignmentStmt and isinstance(node.rvalue, (MemberExpr, IndexExpr)):
                value = node.rvalue.base if isinstance(node.rvalue, IndexExpr) else node.rvalue
                for target in node.lvalues:
                    if isinstance(target, NameExpr) and isinstance(value, MemberExpr):
                        found.setdefault(target.node, []).append(value.name)
        return found

    @cached_property
    def setters(self) -> dict[str, list[FuncDef | None]]:
        """The methods that set an attribute of ``self``, by its name; None for one of any other object."""
        found: dict[str, list[FuncDef | None]] = {}
        for node, around in statements_in(self._tree):
            for target in targets_of(node):
                for member in target.items if isinstance(target, (TupleExpr, ListExpr)) else [target]:
                    if isinstance(member, MemberExpr):
                        found.setdefault(member.name, []).append(_method_around(member, around))
        return found

    def sets(self, owner: TypeInfo, name: str, *, exactly: bool = False) -> bool:
        """Return whether an attribute is set outside of the constructors of a class.

        Args:
            owner: The class.
            name: The attribute.
            exactly: Whether the object is of no derived class.
        """
        setters = self.setters.get(name, ())
        return name in self.grown or not all(_constructs(one, owner, exactly=exactly) for one in setters)

    @cached_property
    def _definitions(self) -> Counter[str]:
        functions = Counter(node.fullname for node in nodes_in(self._tree) if isinstance(node, FuncDef))
        names = Counter(getattr(name, "fullname", "") for name in self._assigned.elements())
        return functions + names

    def is_defined_once(self, function: FuncDef) -> bool:
        """Return whether nothing else has the name of a function, or sets the method."""
        is_set = bool(function.info) and (function.name in self.setters or function.name in self.grown)
        return self._definitions[function.fullname] == 1 and not is_set

    @cached_property
    def _assigned(self) -> Counter[Any]:
        return Counter(assigned_in(self._tree))

    def is_assigned_once(self, name: Any) -> bool:
        """Return whether a name of the file is assigned to in one place."""
        return self._assigned[name] == 1

    def is_plain(self, owner: TypeInfo) -> bool:
        """Return whether the objects of a class do what its methods say, with no decorators or special methods."""
        here = [base for base in owner.mro if base.module_name == self._tree.fullname]
        several = any(len([one for one in base.bases if one.type in here]) > 1 for base in here)
        special = any(name in base.names for base in here for name in _SPECIAL)
        decorated = any(base.defn.decorators for base in here)
        return not (several or special or decorated)


def reshapes(function: FuncDef) -> bool:
    """Does a function give an array another shape in place, perhaps one that it is given."""
    for node in nodes_in(function.body):
        if isinstance(node, CallExpr) and last_name(node.callee) in RESHAPED_IN_PLACE:
            return True
        if isinstance(node, AssignmentStmt) and any(last_name(target) == "shape" for target in node.lvalues):
            return any(isinstance(target, MemberExpr) for target in node.lvalues)
    return False


def _changes_anything(node: Node) -> bool:
    if isinstance(node, MemberExpr):
        return node.name in _ANYTHING or node.name in _HOOKS
    if isinstance(node, CallExpr):
        name = last_name(node.callee)
        named = len(node.args) > 1 and isinstance(node.args[1], StrExpr)
        return name == "vars" or (name in ("setattr", "delattr") and not named)
    if isinstance(node, AssignmentStmt):
        ties = last_name(node.rvalue) == "weight"
        return any(isinstance(one, MemberExpr) and one.name in _DATA and not ties for one in node.lvalues)
    return isinstance(node, DelStmt) and isinstance(node.expr, MemberExpr)


def _method_around(member: MemberExpr, inner: FuncDef | None) -> FuncDef | None:
    """Return the method whose first parameter has an attribute; None for the attributes of others."""
    if inner is None or not inner.info or not inner.arguments:
        return None
    is_self = isinstance(member.expr, NameExpr) and member.expr.node is inner.arguments[0].variable
    return inner if is_self else None


def _constructs(method: FuncDef | None, owner: TypeInfo, *, exactly: bool) -> bool:
    """Is a method a constructor that objects of a class go through, or a method of an unrelated class."""
    if method is None:
        return False
    if method.info in owner.mro:
        return method.name == "__init__"
    return exactly or not method.info.has_base(owner.fullname)
