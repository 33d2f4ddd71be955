"""Calls of torch's layers, of what makes them, and of what hands them on: ``ModuleList``, ``deepcopy``, ``.to()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy.nodes import (
    ARG_POS,
    Argument,
    CallExpr,
    Expression,
    FuncDef,
    MemberExpr,
    NameExpr,
    RefExpr,
    ReturnStmt,
)

from typedbatch._program.arrays.tables import KEEPS_LAYER, layer_named
from typedbatch._program.arrays.values import (
    Arguments,
    Array,
    Layer,
    Layers,
    Many,
    Several,
    Value,
)
from typedbatch.mypy.batches.content import Items
from typedbatch.mypy.engine.names import assigned_in
from typedbatch.mypy.nodes import nodes_in

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

_HOME: Final = "torch.nn.modules."
_PARAMETERS: Final = frozenset({"torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"})
_KEPT: Final = _PARAMETERS | {
    "copy.copy",
    "copy.deepcopy",
    "torch.compile",
    "torch.jit._script.script",
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.nn.utils.parametrizations.orthogonal",
    "torch.nn.utils.parametrizations.spectral_norm",
    "torch.nn.utils.parametrizations.weight_norm",
    "torch.nn.utils.spectral_norm.spectral_norm",
    "torch.nn.utils.weight_norm.weight_norm",
}
"""Functions that give a layer, or an array, as they were given it."""
_GROWS: Final = frozenset({"append", "extend", "insert", "add_module", "register_module", "update", "pop", "clear"})
"""Methods that add layers to a container, or take some from it."""
Read = Callable[[CallExpr], Arguments | None]


class Layered:
    """Reads calls that have to do with layers.

    Args:
        reading: What reads other expressions.
        arguments: What reads the arguments of a call.
    """

    def __init__(self, reading: Reading, arguments: Read) -> None:
        self._reading = reading
        self._arguments = arguments

    def read(self, node: CallExpr) -> Value:
        """Return the layer that a call gives; None for any other call."""
        callee = node.callee
        name = callee.fullname if isinstance(callee, RefExpr) else ""
        if name.startswith(_HOME):
            return self._made(node, name.rpartition(".")[2])
        if name in _KEPT and node.args and node.arg_kinds[0] is ARG_POS:
            found = self._fixed(node.args[0])
            if found is not None or name not in _PARAMETERS:
                return found
            made = self._reading.read(node.args[0])
            return made if isinstance(made, Array) else None
        if isinstance(callee, MemberExpr) and callee.name in _GROWS and is_fixed(self._fixed(callee.expr)):
            self._arguments(node)
            self._reading.known.forget_layers()
            return None
        if isinstance(callee, MemberExpr) and callee.name in KEEPS_LAYER:
            owner = self.layer(callee.expr)
            if owner is not None:
                self._arguments(node)
            return owner
        function = callee.node if isinstance(callee, RefExpr) else None
        if not isinstance(function, FuncDef) or not node.args or node.arg_kinds[0] is not ARG_POS:
            return None
        given = self.layer(node.args[0])
        return given if given is not None and _gives_first(function) else None

    def _made(self, node: CallExpr, name: str) -> Value:
        constructor = layer_named(name)
        if constructor is None and name not in ("ModuleList", "ModuleDict"):
            return None
        arguments = self._arguments(node)
        if arguments is None:
            return None
        if constructor is not None:
            return constructor(arguments)
        held = arguments.get(0, "modules")
        if name == "ModuleList":
            return held if is_fixed(held) else None
        whole = self._reading.known.objects.whole(held)
        if not isinstance(whole, Items) or not whole.keyed or whole.escaped:
            return None
        return Layers({key: value for key, value in whole.known.items() if is_fixed(value)})

    def layer(self, node: Expression) -> Layer | None:
        """Return the layer that an expression certainly is."""
        found = self._fixed(node)
        return found if isinstance(found, Layer) else None

    def _fixed(self, node: Expression) -> Value:
        found: Value = None
        if isinstance(node, NameExpr):
            found = self._reading.known.get(node.node)
        elif isinstance(node, CallExpr):
            found = self.read(node)
        return found if is_fixed(found) else None

    def called(self, callee: Expression) -> Layer | None:
        """Return the layer that is called; ``layer.forward`` is one, too."""
        if isinstance(callee, MemberExpr) and callee.name in ("forward", "__call__"):
            callee = callee.expr
        return self.layer(callee)


def is_fixed(value: Value) -> bool:
    """Is it a layer, or several."""
    if isinstance(value, Several):
        return bool(value.items) and all(map(is_fixed, value.items))
    return isinstance(value, (Layer, Layers)) or (isinstance(value, Many) and is_fixed(value.item))


def _gives_first(function: FuncDef) -> bool:
    """Does a function always return its first argument, as one that initializes the weights of a layer."""
    arguments: list[Argument] = getattr(function, "arguments", [])  # mypy's cache does not have them
    first = arguments[0].variable if arguments else None
    if first is None or first in assigned_in(function.body):
        return False
    returned = [node.expr for node in nodes_in(function.body) if isinstance(node, ReturnStmt)]
    return bool(returned) and all(isinstance(one, NameExpr) and one.node is first for one in returned)
