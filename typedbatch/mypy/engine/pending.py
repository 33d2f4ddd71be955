"""When shapes are looked at: at the end of a file, when mypy knows all types in it.

mypy checks what it has put off after the rest of a file. The first hook that is called in a file puts off a function of
our own, whose body calls a hook of ours. That one goes through each function in which hooks have been called, or whose
result has a declared shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mypy.nodes import (
    GDEF,
    Block,
    CallExpr,
    ClassDef,
    Context,
    Decorator,
    ExpressionStmt,
    FuncDef,
    ImportAll,
    ImportFrom,
    MypyFile,
    NameExpr,
)
from mypy.plugin import FunctionContext
from mypy.types import CallableType, NoneType, Type

from typedbatch._program.source import counts
from typedbatch.mypy.batches.questions import unanswered
from typedbatch.mypy.declared import declares_result
from typedbatch.mypy.engine.flow import go_through, of_module
from typedbatch.mypy.engine.names import functions_of
from typedbatch.mypy.engine.observing import observe_in
from typedbatch.mypy.engine.readers import summaries_of
from typedbatch.mypy.engine.report import Report, Send
from typedbatch.mypy.engine.unused import note_unused
from typedbatch.mypy.internals import function_around, is_reported, module_around, put_off, reporting_for
from typedbatch.mypy.nodes import keeping
from typedbatch.mypy.whole_program import TEXTS, is_of_program, report_findings

CALLED = "builtins.object"
_LAST = "<shapes>"

_pending: dict[MypyFile, dict[Any, None]] = {}
_switched_off = False
_notes_unused_dims = False


def switch(*, on: bool, unused_dims: bool = False) -> None:
    """Look at shapes, or not: mypy has one plugin of a kind, and hooks that are not its methods.

    Args:
        on: Whether shapes are looked at.
        unused_dims: Whether names of sizes are noted that stand once.
    """
    global _switched_off, _notes_unused_dims
    _switched_off, _notes_unused_dims = not on, unused_dims


def note(api: Any) -> None:
    """Something was called here: look at the function around it when the file is done."""
    tree, around = module_around(api), function_around(api)
    if tree is None or around in _pending.get(tree, ()) or not is_reported(api):
        return
    if (isinstance(around, FuncDef) and around.name == _LAST) or not _counts(tree, api):
        return
    _pending.setdefault(tree, {})[around] = None
    put_off(api, _LAST, lambda: _last(api, tree))


def expect(api: Any) -> None:
    """Report what a run of the program finds in the file that is being checked, when all else in it is done."""
    tree, around = module_around(api), function_around(api)
    is_own = isinstance(around, FuncDef) and around.name == _LAST
    if tree is None or is_own or not is_reported(api):
        return
    if api.options.fine_grained_incremental:  # The tree of a file stays the same object when its text changes.
        is_expected = _is_of_program(tree, api)
    elif _expected.get(tree.fullname) is tree:
        return
    else:
        _expected[tree.fullname] = tree
        is_expected = is_of_program(tree, api)
    if is_expected:
        put_off(api, _LAST, lambda: _last(api, tree))


_expected: dict[str, MypyFile] = {}


def _is_of_program(tree: MypyFile, api: Any) -> bool:
    return TEXTS in tree.names or is_of_program(tree, api)


def _counts(tree: MypyFile, api: Any) -> bool:
    """Return whether a file is of a program, or would be if its text were valid, as it may not be while it is typed."""
    names = [
        name
        for one in tree.imports
        for name in (
            [one.id] if isinstance(one, (ImportFrom, ImportAll)) else [id_ for id_, _ in getattr(one, "ids", ())]
        )
    ]
    return any(map(counts, names)) or _is_of_program(tree, api)


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
    around, tree = function_around(ctx.api), module_around(ctx.api)
    if tree is None or not isinstance(around, FuncDef) or around.name != _LAST:
        return ctx.default_return_type
    with keeping():
        _look(ctx, tree)
    return ctx.default_return_type


def _look(ctx: FunctionContext, tree: MypyFile) -> None:
    report = Report(ctx.api, shapes=not _switched_off)
    report.summaries = summaries_of(ctx.api, tree)
    report.observe = observe_in(ctx.api, tree)
    waiting = _pending.pop(tree, {})
    said: list[tuple[Any, dict[Context, Send]]] = []
    for function in [*waiting, *(one for one in _declared(tree) if one not in waiting)]:
        with reporting_for(ctx.api, function):
            said += [(function, one) for one in _go_through(ctx.api, report, tree, function)]
            for one in functions_of(function) if _notes_unused_dims and function is not None else ():
                note_unused(ctx.api, one)
    _send(ctx.api, said)
    for question in unanswered():
        ctx.api.fail(question.message, question.place, code=question.code)
    report_findings(ctx.api, tree, shapes=not _switched_off)


def _send(api: Any, said: Sequence[tuple[Any, dict[Context, Send]]]) -> None:
    """Tell mypy all reports of a file."""
    for function, reports in said:
        with reporting_for(api, function):
            for one in reports.values():
                one()


def _declared(tree: MypyFile) -> Iterator[FuncDef]:
    """Yield the functions of a file whose result has a declared shape; one may call nothing, and return an argument."""
    for statement in tree.defs:
        for inner in statement.defs.body if isinstance(statement, ClassDef) else [statement]:
            function = inner.func if isinstance(inner, Decorator) else inner
            type_ = function.type if isinstance(function, FuncDef) else None
            if isinstance(function, FuncDef) and isinstance(type_, CallableType) and declares_result(type_):
                yield function


def _go_through(api: Any, report: Report, tree: MypyFile, function: Any) -> Iterator[dict[Context, Send]]:
    for one in functions_of(function) if function is not None else [None]:
        try:
            if one is None:
                of_module(api, report, tree)
            else:
                go_through(api, report, one)
        except Exception:  # whatever is in this one, the others are looked at
            if api.options.show_traceback:
                raise
        yield report.taken()
