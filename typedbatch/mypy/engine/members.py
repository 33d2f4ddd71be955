"""Attributes that the constructor of a torch module sets: layers and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mypy.nodes import CallExpr, Expression, FuncDef, MypyFile, TypeInfo

from typedbatch._program.arrays.values import Arguments, Layer, Value
from typedbatch.mypy.engine.changes import Changes
from typedbatch.mypy.engine.inside import Inside, function_of, values_given

MODULE = "torch.nn.modules.module.Module"
_DEEPEST = 5

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
        self.changes: Changes = inside.changes
        self._read = read
        self._inside = inside
        self._made: dict[TypeInfo, dict[str, Value]] = {}
        self._building: list[TypeInfo] = []
        self._built: dict[Any, Layer] = {}

    def get(self, owner: TypeInfo, name: str) -> Value:
        """Return what an attribute is that is set in a constructor only; None for any other."""
        if not self._is_followed(owner):
            return None
        for base in owner.mro:
            found = self._of(base).get(name) if base.module_name == self._tree.fullname else None
            if found is not None:
                return found if self.is_fixed(owner, name) else None
        return None

    def of_module(self, module: Layer, name: str) -> Value:
        """Return what an attribute of a module is that a constructor made, by the same rule."""
        if module.owner is None:
            return None if self.changes.are_anywhere else module.attributes.get(name)
        return module.attributes.get(name) if self.is_fixed(module.owner, name, exactly=True) else None

    def is_fixed(self, owner: TypeInfo, name: str, *, exactly: bool = False) -> bool:
        """Return whether an attribute is as a constructor sets it; ``exactly`` if the object is of no derived class."""
        return not self.changes.are_anywhere and not self.changes.sets(owner, name, exactly=exactly)

    def build(self, owner: TypeInfo, node: CallExpr, given: Mapping[Expression, Value]) -> Layer | None:
        """Return the new module that a call makes; None for a class that is not one of the file's modules.

        Args:
            owner: The class.
            node: The call.
            given: What its arguments are.
        """
        is_ours = owner.module_name == self._tree.fullname and self._is_followed(owner)
        if not is_ours or owner in self._building or len(self._building) == _DEEPEST:
            return None
        found = owner.get("__init__")
        key = (owner, tuple(given.values()), tuple(node.arg_names), tuple(node.arg_kinds))
        if key in self._built:
            return self._built[key]
        self._building.append(owner)
        attributes = self.made_by(found.node if found is not None else None, node, given)
        self._building.pop()

        def call(arguments: Arguments) -> Value:
            function = function_of(owner, "forward")
            if function is None or arguments.named or len(arguments.given) != len(function.arguments) - 1:
                return None
            return self._inside.call(function, [layer, *arguments.given])

        layer = self._built[key] = Layer(call, owner, attributes)
        return layer

    def _is_followed(self, owner: TypeInfo) -> bool:
        return owner.has_base(MODULE) and not self.changes.are_anywhere and self.changes.is_plain(owner)

    def made_by(self, init: object, node: CallExpr, given: Mapping[Expression, Value]) -> dict[str, Value]:
        """Return the attributes that a constructor of the file sets, by the arguments of a call."""
        made: dict[str, Value] = {}
        if isinstance(init, FuncDef) and self._inside.has(init):
            values = values_given(node, init, given, None)
            if values is not None:
                self._read(init, values, made)
        return made

    def _of(self, owner: TypeInfo) -> Mapping[str, Value]:
        if owner not in self._made:
            made = self._made[owner] = {}
            symbol = owner.names.get("__init__")
            if symbol is not None and isinstance(symbol.node, FuncDef):
                self._read(symbol.node, None, made)
        return self._made[owner]
