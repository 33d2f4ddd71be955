"""Declaration of the class ``Batch`` for mypy with the plugin: a type parameter, and attributes of any name.

They are not in the source, because other checkers must keep refusing what they cannot know. mypy asks plugins about an
attribute only where a class shows ``__getattr__``, and about setting one only where ``__setattr__`` is decorated.
"""

from __future__ import annotations

from mypy.nodes import ARG_POS, INVARIANT, MDEF, Argument, Decorator, FuncDef, SymbolTableNode, TypeInfo, Var
from mypy.plugin import ClassDefContext
from mypy.plugins.common import add_method_to_class
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    Type,
    TypeVarId,
    TypeVarType,
    get_proper_type,
)

from typedbatch.mypy.types.fields import BATCH, anything

RECORD = "typedbatch.records.BatchRecord"
OPEN_FIELDS = "typedbatch._checkers.OpenFields"
FIELDS = "<fields>"
"""Name of the symbol of a record that stands for all of its fields."""
_NAMES = ("__getattr__", "__setattr__")


def open_batch(ctx: ClassDefContext) -> None:
    """Give ``Batch`` an invariant type parameter and the two methods. Called in every pass of mypy over the class."""
    info = ctx.cls.info
    bound = ctx.api.named_type("builtins.object")
    parameter = TypeVarType(
        "Fields", f"{BATCH}.Fields", TypeVarId(1, namespace=BATCH), [], bound, anything(), INVARIANT
    )
    ctx.cls.type_vars = [parameter]
    info.type_vars = [parameter.name]
    for statement in ctx.cls.defs.body:
        if isinstance(statement, FuncDef) and statement.name == "__init__":
            _leave_parameter_open(info, statement)
    if "__getattr__" not in info.names:
        name, value = _argument("name", ctx.api.named_type("builtins.str")), _argument("value", anything())
        add_method_to_class(ctx.api, ctx.cls, "__getattr__", [name], anything())
        add_method_to_class(ctx.api, ctx.cls, "__array__", [], anything())  # np.mean(batch) works
        method = add_method_to_class(ctx.api, ctx.cls, "__setattr__", [name, value], NoneType())
        if isinstance(method, FuncDef):
            _decorate(info, method)


def leave_out_protocol(ctx: ClassDefContext) -> None:
    """Take ``BatchProtocol`` out of the bases of ``Batch``, where it is for other checkers.

    With it, mypy joins batches of different fields over their bases, which takes exponential time for nested ones.
    """
    info = ctx.cls.info
    info.bases = [ctx.api.named_type("builtins.object")]
    info.mro = [info, info.bases[0].type]


def close(ctx: ClassDefContext) -> None:
    """Classes derived from ``Batch`` stay closed: a variable of that name hides the method that they would inherit."""
    for name in _NAMES:
        if name not in ctx.cls.info.names:
            _define(ctx.cls.info, name, _variable(ctx.cls.info, name, anything()))


def derived(ctx: ClassDefContext) -> None:
    """Give a record a symbol that changes with its fields, on which those who ask for all of them depend.

    mypy's daemon checks again what has used a member that changed; ``extend`` uses all, and those to come.
    """
    info = ctx.cls.info
    names = [f"{name}{'?' * _has_value(symbol.node)}" for name, symbol in sorted(info.names.items()) if name[:1] != "<"]
    text = LiteralType(" ".join(names), ctx.api.named_type("builtins.str"))
    _define(info, FIELDS, _variable(info, FIELDS, text))


def _has_value(node: object) -> bool:
    return isinstance(node, Var) and node.has_explicit_value


def _leave_parameter_open(info: TypeInfo, init: FuncDef) -> None:
    """Give ``self`` a type, without which mypy would take ``map(Batch, rows)`` for batches of Never."""
    for signature in (init.type, init.unanalyzed_type):
        if isinstance(signature, CallableType) and isinstance(get_proper_type(signature.arg_types[0]), AnyType):
            signature.arg_types[0] = Instance(info, [anything()])


def _decorate(info: TypeInfo, method: FuncDef) -> None:
    decorated = Decorator(method, [], _variable(info, method.name, method.type))
    decorated.var.is_ready = True
    _define(info, method.name, decorated)
    info.defn.defs.body[-1] = decorated


def _variable(info: TypeInfo, name: str, type_: Type | None) -> Var:
    variable = Var(name, type_)
    variable.info = info
    variable._fullname = f"{info.fullname}.{name}"  # noqa: SLF001  # as mypy's own plugins set it
    return variable


def _define(info: TypeInfo, name: str, node: Var | Decorator) -> None:
    info.names[name] = SymbolTableNode(MDEF, node, plugin_generated=True)


def _argument(name: str, type_: Type) -> Argument:
    return Argument(Var(name, type_), type_, None, ARG_POS)
