"""Attributes that the constructor of a torch module sets: layers and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from mypy.nodes import (
    AssignmentStmt,
    CallExpr,
    Expression,
    FuncDef,
    IndexExpr,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    Statement,
    TupleExpr,
    TypeInfo,
)

from typedbatch.mypy.arrays.values import Arguments, Layer, Value
from typedbatch.mypy.engine.inside import Inside, function_of, values_given
from typedbatch.mypy.engine.names import targets_of
from typedbatch.mypy.nodes import nodes_in, walk

MODULE = "torch.nn.modules.module.Module"
_DEEPEST = 5
_GROWS = frozenset({"append", "extend", "insert", "add_module", "update", "pop"})

Read = Callable[[FuncDef, Sequence[Value] | None, dict[str, Value]], None]


class Members:
    """The attributes of the classes of a file that are modules of torch's.

    Args:
        api: mypy's checker.
        tree: the file.
        read: go through a constructor with what its parameters are, or with names for sizes, and set what it gives
            each attribute.
        inside: what reads the calls of modules.
    """

    def __init__(self, api: Any, tree: MypyFile, read: Read, inside: Inside) -> None:
        self._api = api
        self._tree = tree
        self._read = read
        self._inside = inside
        self._made: dict[TypeInfo, dict[str, Value]] = {}
        self._building: list[TypeInfo] = []

    def get(self, owner: TypeInfo, name: str) -> Value:
        """Return what an attribute is that is set in a constructor only; None for any other."""
        if not owner.has_base(MODULE):
            return None
        for base in owner.mro:
            found = self._of(base).get(name) if base.module_name == self._tree.fullname else None
            if found is not None:
                return found if self._is_fixed(owner, name) else None
        return None

    def of_module(self, module: Layer, name: str) -> Value:
        """Return what an attribute of a module is that a constructor made, by the same rule."""
        found = module.attributes.get(name)
        return found if module.owner is None or self._is_fixed(module.owner, name, exactly=True) else None

    def _is_fixed(self, owner: TypeInfo, name: str, *, exactly: bool = False) -> bool:
        """Is an attribute set in constructors only; ``exactly`` if the object is of no derived class."""
        setters = self._setters.get(name, ())
        return name not in self._grown and all(_constructs(one, owner, exactly=exactly) for one in setters)

    @cached_property
    def _setters(self) -> dict[str, list[FuncDef | None]]:
        """The methods that set an attribute of ``self``; None for one of any other object."""
        found: dict[str, list[FuncDef | None]] = {}
        for node, around in walk(self._tree):
            for target in targets_of(node) if isinstance(node, Statement) else ():
                for member in target.items if isinstance(target, (TupleExpr, ListExpr)) else [target]:
                    if isinstance(member, MemberExpr):
                        found.setdefault(member.name, []).append(_method_around(member, around))
        return found

    def build(self, owner: TypeInfo, node: CallExpr, given: Mapping[Expression, Value]) -> Layer | None:
        """Return the new module that a call makes; None for a class that is not one of the file's modules.

        Args:
            owner: The class.
            node: The call.
            given: What its arguments are.
        """
        is_ours = owner.has_base(MODULE) and owner.module_name == self._tree.fullname
        if not is_ours or owner in self._building or len(self._building) == _DEEPEST:
            return None
        found = owner.get("__init__")
        self._building.append(owner)
        attributes = self.made_by(found.node if found is not None else None, node, given)
        self._building.pop()

        def call(arguments: Arguments) -> Value:
            function = function_of(owner, "forward")
            if function is None or arguments.named or len(arguments.given) != len(function.arguments) - 1:
                return None
            return self._inside.call(function, [layer, *arguments.given])

        layer = Layer(call, owner, attributes)
        return layer

    def made_by(self, init: object, node: CallExpr, given: Mapping[Expression, Value]) -> dict[str, Value]:
        """Return the attributes that a constructor of the file sets, by the arguments of a call."""
        made: dict[str, Value] = {}
        if isinstance(init, FuncDef) and self._inside.has(init):
            values = values_given(node, init, given, None)
            if values is not None:
                self._read(init, values, made)
        return made

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
                self._read(symbol.node, None, made)
        return self._made[owner]


def _method_around(member: MemberExpr, around: Sequence[Node]) -> FuncDef | None:
    """Return the method whose first parameter has an attribute; None for the attributes of others."""
    for function in (one for one in around if isinstance(one, FuncDef) and one.info and one.arguments):
        if isinstance(member.expr, NameExpr) and member.expr.node is function.arguments[0].variable:
            return function
    return None


def _constructs(method: FuncDef | None, owner: TypeInfo, *, exactly: bool) -> bool:
    """Is a method a constructor that objects of a class go through, or a method of an unrelated class."""
    if method is None:
        return False
    if method.info in owner.mro:
        return method.name == "__init__"
    return exactly or not method.info.has_base(owner.fullname)
