"""Reports at the end of a file: findings of the run, and complaints about batches that the run may clear.

mypy checks what it has put off after the rest of a file. The first hook that is called in a file puts off a function of
our own, whose body calls a hook of ours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mypy.errorcodes import ErrorCode
from mypy.nodes import GDEF, Block, CallExpr, Expression, ExpressionStmt, FuncDef, MypyFile, NameExpr, Node
from mypy.plugin import FunctionContext
from mypy.types import CallableType, NoneType, Type

from typedbatch.mypy.internals import Api, function_around, is_reported, module_around, put_off, reporting_for
from typedbatch.mypy.whole_program import TEXTS, Wanted, is_judged, is_of_program, report_findings, use_code

CALLED = "builtins.object"
_LAST = "<last>"


class _Complaint(NamedTuple):
    """An error about a batch that is handed over.

    Attributes:
        function: The function around it.
        place: Where it is shown.
        is_followed: Whether the run follows the batch.
    """

    function: Node | None
    place: Expression
    text: str
    code: ErrorCode | None
    is_followed: bool


_wanted = Wanted()
_expected: dict[str, MypyFile] = {}
_complaints: dict[str, dict[Expression, _Complaint]] = {}


def want(wanted: Wanted) -> None:
    """Say what is reported from now on: mypy has one plugin of a kind, and hooks that are not its methods."""
    global _wanted
    _wanted = wanted
    _complaints.clear()


def expect(api: Api) -> None:
    """Report what a run of the program finds in the file that is being checked, when all else in it is done."""
    tree, around = module_around(api), function_around(api)
    is_own = isinstance(around, FuncDef) and around.name == _LAST
    if tree is None or is_own or not is_reported(api):
        return
    if api.options.fine_grained_incremental:  # The tree of a file stays the same object when its text changes.
        is_expected = TEXTS in tree.names or is_of_program(tree, api)
    elif _expected.get(tree.fullname) is tree:
        return
    else:
        _expected[tree.fullname] = tree
        is_expected = is_of_program(tree, api)
    if is_expected:
        put_off(api, _LAST, lambda: _last(api, tree))


def complain(
    api: Api,
    value: Expression,
    text: str,
    code: ErrorCode | None,
    place: Expression | None = None,
    *,
    is_followed: bool,
) -> None:
    """Report a batch at the end of the file, unless the run knows better; what the run says gets the code, too.

    Args:
        api: The checker.
        value: The batch.
        text: What is wrong with it; empty if nothing is, whatever was said of it when mypy came here before.
        code: Code of the error.
        place: Where it is shown; None for the batch.
        is_followed: Whether the run follows the batch, so that it knows better wherever it comes to this place.
    """
    tree = module_around(api)
    if tree is None:
        return
    waiting = _complaints.setdefault(tree.fullname, {})
    waiting.pop(value, None)
    use_code(api, tree, value, code)
    if text:
        waiting[value] = _Complaint(function_around(api), place or value, text, code, is_followed)
    put_off(api, _LAST, lambda: _last(api, tree))  # mypy may check functions after what was put off before.


def _last(api: Any, tree: MypyFile) -> FuncDef:
    """Return a function that is checked after all others."""
    info = api.named_generic_type(CALLED, []).type
    callee = NameExpr("object")
    callee.node, callee.fullname, callee.kind = info, CALLED, GDEF
    type_ = CallableType([], [], [], NoneType(), api.named_generic_type("builtins.function", []))
    function = FuncDef(_LAST, [], Block([ExpressionStmt(CallExpr(callee, [], [], []))]), type_)
    function._fullname = f"{tree.fullname}.{_LAST}"  # noqa: SLF001  # mypy sets it itself, and has no other way
    function.def_or_infer_vars = True  # so that mypy goes into it in each of its passes
    return function


def look(ctx: FunctionContext) -> Type:
    """Called for ``object()``: in a function of our own, report what has waited."""
    around, tree = function_around(ctx.api), module_around(ctx.api)
    if tree is not None and isinstance(around, FuncDef) and around.name == _LAST:
        report_findings(ctx.api, tree, _wanted)
        for value, one in _complaints.pop(tree.fullname, {}).items():
            if not is_judged(tree, value, is_followed=one.is_followed):
                with reporting_for(ctx.api, one.function):
                    ctx.api.fail(one.text, one.place, code=one.code)
    return ctx.default_return_type
