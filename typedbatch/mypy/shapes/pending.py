"""When shapes are looked at: at the end of a file, when mypy knows all types in it.

mypy checks what it has put off after the rest of a file. The first hook that is called in a file puts off a function of
our own, whose body calls a hook of ours; that one goes through each function in which hooks have been called.
"""

from __future__ import annotations

from typing import Any

from mypy.checker import DeferredNode
from mypy.nodes import GDEF, Block, CallExpr, ExpressionStmt, FuncDef, MypyFile, NameExpr
from mypy.plugin import FunctionContext
from mypy.types import CallableType, NoneType, Type

from typedbatch.mypy.shapes.flow import functions_of, go_through, of_module
from typedbatch.mypy.shapes.report import Report

CALLED = "builtins.object"
_LAST = "<shapes>"

_pending: dict[MypyFile, dict[Any, None]] = {}


def note(api: Any) -> None:
    """Something was called here: look at the function around it when the file is done."""
    tree: MypyFile | None = getattr(api, "tree", None)
    if tree is None or tree.is_stub or api.path in api.errors.ignored_files:
        return
    around = api.scope.top_level_function()
    if around is not None and around.name == _LAST:
        return
    waiting = _pending.setdefault(tree, {})
    waiting[around] = None
    if not any(deferred.node.name == _LAST for deferred in api.deferred_nodes):
        api.deferred_nodes.append(DeferredNode(_last(api, tree), None))


def _last(api: Any, tree: MypyFile) -> FuncDef:
    """A function that is checked after all others."""
    info = api.named_generic_type(CALLED, []).type
    callee = NameExpr("object")
    callee.node, callee.fullname, callee.kind = info, CALLED, GDEF
    type_ = CallableType([], [], [], NoneType(), api.named_generic_type("builtins.function", []))
    function = FuncDef(_LAST, [], Block([ExpressionStmt(CallExpr(callee, [], [], []))]), type_)
    function._fullname = f"{tree.fullname}.{_LAST}"  # noqa: SLF001  # mypy sets it itself, and has no other way
    function.def_or_infer_vars = True  # so that mypy goes into it in each of its passes
    return function


def look(ctx: FunctionContext) -> Type:
    """Called for ``object()``: in a function of our own, go through those that wait."""
    api: Any = ctx.api
    around = api.scope.top_level_function()
    if around is None or around.name != _LAST:
        return ctx.default_return_type
    for function in _pending.pop(api.tree, {}):
        target, api.tscope.function = api.tscope.function, function  # whose report it is, for the daemon
        try:
            _go_through(api, function)
        finally:
            api.tscope.function = target
    return ctx.default_return_type


def _go_through(api: Any, function: Any) -> None:
    report = Report(api)
    if function is None:
        of_module(api, report, api.tree)
    for one in functions_of(function) if function is not None else ():
        try:
            go_through(api, report, one)
        except Exception:  # whatever is in this one, the others are looked at
            if api.options.show_traceback:
                raise
