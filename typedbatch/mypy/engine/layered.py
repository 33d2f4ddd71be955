"""Calls of torch's layers, of what makes them, and of what hands them on: ``ModuleList``, ``deepcopy``, ``.to()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from mypy.nodes import (
    ARG_POS,
    Argument,
    CallExpr,
    Expression,
    FuncDef,
    IndexExpr,
    MemberExpr,
    NameExpr,
    RefExpr,
    ReturnStmt,
    StrExpr,
    SuperExpr,
    TypeInfo,
)

from typedbatch._program.arrays.sizes import Size
from typedbatch._program.arrays.tables import KEEPS_LAYER, layer_named
from typedbatch._program.arrays.values import (
    Arguments,
    Array,
    Layer,
    Layers,
    Literal,
    Many,
    Scalar,
    Several,
    Value,
)
from typedbatch.mypy.batches.content import Items
from typedbatch.mypy.engine.changes import GROWS
from typedbatch.mypy.engine.members import MODULE
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
Read = Callable[[CallExpr], Arguments | None]


class Attribute(NamedTuple):
    """An attribute that the constructor sets which is read."""

    name: str


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
        if self._reading.makes is not None:
            self._construct(node, self._reading.makes)
        name = callee.fullname if isinstance(callee, RefExpr) else ""
        if name.startswith(_HOME):
            return self._made(node, name.rpartition(".")[2])
        if isinstance(callee, RefExpr) and isinstance(callee.node, TypeInfo) and callee.node.has_base(MODULE):
            return self._of_class(node, callee.node)
        if name in _KEPT and node.args and node.arg_kinds[0] is ARG_POS:
            found = self._fixed(node.args[0])
            if found is not None or name not in _PARAMETERS:
                return found
            made = self._reading.read(node.args[0])
            return made if isinstance(made, Array) else None
        if isinstance(callee, MemberExpr) and callee.name in GROWS and is_fixed(self._fixed(callee.expr)):
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
        arguments, members = self._arguments(node), self._reading.report.members
        if arguments is None or (members is not None and members.changes.are_anywhere):
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

    def _of_class(self, node: CallExpr, owner: TypeInfo) -> Layer | None:
        """Return a module of a class of the file."""
        members = self._reading.report.members
        if members is None:
            return None
        given = {one: self._reading.read(one) for one in node.args}
        self._reading.known.objects.escape(*given.values(), opened=True)
        return members.build(owner, node, given)

    def _construct(self, node: CallExpr, constructor: FuncDef) -> None:
        """Set the attributes that ``self.register_buffer`` or ``super().__init__`` sets."""
        callee, known, members = node.callee, self._reading.known, self._reading.report.members
        is_buffer = isinstance(callee, MemberExpr) and callee.name == "register_buffer" and len(node.args) > 1
        if is_buffer and isinstance(node.args[0], StrExpr):
            made = self._reading.read(node.args[1])
            known.put(Attribute(node.args[0].value), made if isinstance(made, Array) else None)
        if isinstance(callee, MemberExpr) and callee.name == "__init__":  # of a class by its name
            known.forget_layers()
        if isinstance(callee, SuperExpr) and callee.name == "__init__" and members is not None:
            bases = constructor.info.mro[1:]
            found = next((base.names["__init__"].node for base in bases if "__init__" in base.names), None)
            given = {one: self._reading.read(one) for one in node.args}
            for name, value in members.made_by(found, node, given).items():
                known.put(Attribute(name), value)

    def layer(self, node: Expression) -> Layer | None:
        """Return the layer that an expression certainly is."""
        found = self._fixed(node)
        return found if isinstance(found, Layer) else None

    def _fixed(self, node: Expression) -> Value:
        found: Value = None
        if isinstance(node, NameExpr):
            found = self._reading.known.get(node.node)
        elif isinstance(node, MemberExpr):
            found = self._reading.member(node)
        elif isinstance(node, IndexExpr) and isinstance(node.base, MemberExpr):
            found = self._reading.read(node) if self._reading.member(node.base) is not None else None
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


def is_kept(value: Value, source: Expression) -> bool:
    """Is a value one that an attribute keeps: a number, a flag, a layer, or a parameter; a tensor may be replaced."""
    if isinstance(value, Array):
        return (
            isinstance(source, CallExpr)
            and isinstance(source.callee, RefExpr)
            and source.callee.fullname in _PARAMETERS
        )
    return isinstance(value, (Size, Scalar, Literal)) or is_fixed(value)


def _gives_first(function: FuncDef) -> bool:
    """Does a function always return its first argument, as one that initializes the weights of a layer."""
    arguments: list[Argument] = getattr(function, "arguments", [])  # mypy's cache does not have them
    first = arguments[0].variable if arguments else None
    if first is None or first in assigned_in(function.body):
        return False
    returned = [node.expr for node in nodes_in(function.body) if isinstance(node, ReturnStmt)]
    return bool(returned) and all(isinstance(one, NameExpr) and one.node is first for one in returned)
