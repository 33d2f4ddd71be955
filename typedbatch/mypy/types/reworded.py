"""Errors of mypy's own about a batch, in the plugin's words: where one is returned, assigned, put into a list.

No hook of a plugin is asked there. mypy lets whoever wants look at each error before it is recorded (``ErrorWatcher``),
and this is what looks. An error that holds only as long as a batch gets no fields out of sight is taken back.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from mypy.errors import ErrorInfo, ErrorWatcher
from mypy.nodes import (
    ARG_NAMED,
    ARG_POS,
    AssignmentStmt,
    CallExpr,
    Expression,
    FuncItem,
    MemberExpr,
    NameExpr,
    Node,
    ReturnStmt,
    TupleExpr,
    TypeInfo,
    Var,
    YieldExpr,
)
from mypy.types import CallableType, Instance, TupleType, Type, TypeVarType, get_proper_type

from typedbatch.mypy import messages
from typedbatch.mypy.internals import Api, current_checker, current_type, errors_of, fits, has_batches, known_type
from typedbatch.mypy.pending import complain
from typedbatch.mypy.scopes import scope_around
from typedbatch.mypy.settings import wants_own_codes
from typedbatch.mypy.types.declare import RECORD
from typedbatch.mypy.types.extend import PROTOCOL, declared_fields
from typedbatch.mypy.types.fields import BATCH, Rest, content, is_batch, one_type
from typedbatch.mypy.types.handing import parameter_of
from typedbatch.mypy.types.protocol_match import asked_protocol, judge_declared, lacking
from typedbatch.mypy.whole_program import supersede
from typedbatch.mypy.wording import plain_words

_NO_ATTRIBUTE = re.compile(r'"[^"]*" has no attribute "(\w+)"')
_ANSWERED = ("attr-defined", "return-value", "assignment", "list-item", "dict-item", "misc", "type-var", "arg-type")


class Rewording:
    """Watcher of every error of a run of mypy."""

    def __init__(self) -> None:
        self._watcher: ErrorWatcher | None = None
        self._answered: ErrorInfo | None = None
        self._busy = False

    def watch(self, api: object) -> None:
        """Look at the errors of a run, of which any hook was asked."""
        errors = errors_of(api)
        if errors is None:
            return
        watchers: list[ErrorWatcher] = errors._watchers  # noqa: SLF001  # there is no public way to keep a watcher
        if not any(one is self._watcher for one in watchers):
            self._watcher = ErrorWatcher(errors, filter_errors=self._is_taken_back)
            watchers.insert(0, self._watcher)

    def _is_taken_back(self, file: str, info: ErrorInfo) -> bool:
        api = current_checker()
        if info.severity == "note" and self._answered is not None and info.parent_error is self._answered:
            return True
        if self._busy or api is None or not has_batches(api):
            return False
        if info.severity == "note":
            if not info.message.startswith("Revealed type"):  # which is asked for as it is
                info.message = plain_words(info.message, partial(_is_name_of_batch, api))
            return False
        self._answered = None
        self._busy = True
        try:
            is_taken_back = self._answer(api, info)
            if not is_taken_back:
                supersede(api, file, info)
            return is_taken_back
        except Exception:  # as in any hook: whatever mypy's internals do, a user's run must go on
            if api.options.show_traceback:
                raise
            return False
        finally:
            self._busy = False

    def _answer(self, api: Api, info: ErrorInfo) -> bool:
        code = info.code.code if info.code is not None else ""
        told = _expression_at(api, info) if code in _ANSWERED else None
        text = None
        if told is not None and code == "attr-defined":
            text = _of_attribute(api, told[0], info.message)
        elif told is not None:
            text = _of_value(api, *told, info)
        is_own = text is not None or code.startswith("batch-")
        is_batch = None if is_own else partial(_is_name_of_batch, api)
        info.message = plain_words(info.message if text is None else text, is_batch)
        if text is None:
            return False
        if wants_own_codes():
            info.code = messages.FIELD if code == "attr-defined" else messages.own_code(info.code)
        self._answered = info
        return not text


def _expression_at(api: Api, info: ErrorInfo) -> tuple[Expression, tuple[Node, ...]] | None:
    """Return the expression that an error is about, and the nodes around it."""
    scope = scope_around(api)
    if scope is None:
        return None
    entry = re.match(r"Dict entry (\d+)", info.message)
    if entry is not None:
        found = scope.entry_at((info.line, info.column), int(entry[1]))
    else:
        found = scope.at((info.line, info.column, info.end_line, info.end_column))
    return (found, scope.around(found)) if found is not None else None


def _of_attribute(api: Api, node: Expression, message: str) -> str | None:
    """Describe a field that a protocol or record does not declare."""
    match = _NO_ATTRIBUTE.match(message)
    if match is None or not isinstance(node, MemberExpr):
        return None
    owner = get_proper_type(_type_of_owner(api, node.expr))
    if not isinstance(owner, Instance) or is_batch(owner):
        return None
    declared = dict(declared_fields(owner.type))
    return messages.not_declared(owner.type.name, match[1], declared) if declared else None


def _type_of_owner(api: Api, owner: Expression) -> Type | None:
    """Return the type of an owner, which mypy has not stored yet while it tries out overloads."""
    found = known_type(api, owner)
    if found is None and isinstance(owner, NameExpr):
        found = current_type(api, owner) or (owner.node.type if isinstance(owner.node, Var) else None)
    return found


def _of_value(api: Api, node: Expression, around: tuple[Node, ...], info: ErrorInfo) -> str | None:
    """Describe a batch that is not what is asked for; empty if the run is to say it, or if nothing is wrong."""
    if isinstance(node, CallExpr) and "type variable" in info.message:
        return _of_type_variable(api, node, info)
    if isinstance(node, YieldExpr) and node.expr is not None:
        node, around = node.expr, (*around, node)
    expected = get_proper_type(_asked_type(api, around))
    if isinstance(node, TupleExpr) and isinstance(expected, TupleType):
        return _of_tuple(api, node, expected, info)
    asked = asked_protocol(expected) or _asked_by_text(api, info.message)
    return _of_record(api, node, around) if asked is None else _answer_to(api, node, node, asked, info)


def _of_record(api: Api, node: Expression, around: tuple[Node, ...]) -> str | None:
    """Describe a record of an earlier stage, where one of a later stage is asked for."""
    parent = around[-1] if around else None
    wanted = _parameter_of(api, parent, node) if isinstance(parent, CallExpr) else _asked_type(api, around)
    asked, type_ = get_proper_type(wanted), known_type(api, node)
    if not isinstance(asked, Instance) or not asked.type.has_base(RECORD) or type_ is None:
        return None
    if content(one_type(api, type_)) is not None:  # A plain batch is not a record, whatever its fields are.
        return None
    return judge_declared(api, type_, asked) or None


def _parameter_of(api: Api, call: CallExpr, argument: Expression) -> Type | None:
    """Return the type of the parameter that an argument is for, in a call without ``*args`` and ``**kwargs``."""
    signature = get_proper_type(known_type(api, call.callee))
    is_plain = argument in call.args and all(kind in (ARG_POS, ARG_NAMED) for kind in call.arg_kinds)
    return parameter_of(signature, call, argument) if is_plain and isinstance(signature, CallableType) else None


def _of_tuple(api: Api, node: TupleExpr, expected: TupleType, info: ErrorInfo) -> str | None:
    """Describe a tuple by the batches in it, if all else in it fits."""
    if len(node.items) != len(expected.items):
        return None
    pairs = [(item, known_type(api, item), type_) for item, type_ in zip(node.items, expected.items, strict=True)]
    left = [(item, type_) for item, got, type_ in pairs if got is None or not fits(got, type_)]
    for item, type_ in left:
        asked = asked_protocol(type_)
        text = _answer_to(api, item, node, asked, info) if asked is not None else None
        if text is None or text:
            return text
    return "" if left else None


def _answer_to(api: Api, value: Expression, place: Expression, asked: Instance, info: ErrorInfo) -> str | None:
    """Describe a value; empty for a plain batch, which waits for the run, and None for what is left to mypy."""
    type_ = known_type(api, value)
    if type_ is None:
        return None
    fields = content(one_type(api, type_))
    if fields is None:
        return judge_declared(api, type_, asked) or None
    code = messages.own_code(info.code) if wants_own_codes() else info.code
    is_followed = fields.rest is not Rest.DECLARED
    complain(api, value, lacking(api, value, fields, asked), code, place, is_followed=is_followed)
    return ""


def _of_type_variable(api: Api, call: CallExpr, info: ErrorInfo) -> str | None:
    """Describe an argument that is not what the type variable of its parameter is bound to."""
    signature = get_proper_type(known_type(api, call.callee))
    if not isinstance(signature, CallableType):
        return None
    for argument in call.args:
        for type_ in signature.arg_types:
            asked = asked_protocol(type_) if isinstance(get_proper_type(type_), TypeVarType) else None
            text = _answer_to(api, argument, call, asked, info) if asked is not None else None
            if text is not None:
                return text
    return None


def _asked_type(api: Api, around: tuple[Node, ...]) -> Type | None:
    """Return the type that is asked for where a value is returned, yielded or assigned."""
    parent = around[-1]
    if isinstance(parent, AssignmentStmt) and len(parent.lvalues) == 1:
        return parent.type if parent.type is not None else known_type(api, parent.lvalues[0])
    function = next((node for node in reversed(around) if isinstance(node, FuncItem)), None)
    signature = function.type if function is not None else None
    if not isinstance(signature, CallableType) or not isinstance(parent, (ReturnStmt, YieldExpr)):
        return None
    given = get_proper_type(signature.ret_type)
    if isinstance(parent, YieldExpr):
        return given.args[0] if isinstance(given, Instance) and given.args else None
    is_wrapped = function is not None and (function.is_coroutine or function.is_generator)
    if is_wrapped:
        return given.args[-1] if isinstance(given, Instance) and len(given.args) == 3 else None
    return given


def _is_name_of_batch(api: Api, name: str) -> bool:
    """Return whether a name in a message is that of one of our classes, as seen from the file that is checked."""
    modules: Any = getattr(api, "modules", {})
    for tree in (getattr(api, "tree", None), modules.get("typedbatch")):
        symbol = tree.names.get(name) if tree is not None else None
        if symbol is not None:
            return isinstance(symbol.node, TypeInfo) and any(map(symbol.node.has_base, (BATCH, PROTOCOL)))
    return False


def _asked_by_text(api: Api, message: str) -> Instance | None:
    """Return the protocol that a message names last, without its arguments."""
    names = re.findall(r'"(?:[\w.]+\.)?(\w+)[^"]*"', message)
    tree: Any = getattr(api, "tree", None)
    for name in reversed(names):
        symbol = tree.names.get(name) if tree is not None else None
        node = symbol.node if symbol is not None else None
        if isinstance(node, TypeInfo) and node.is_protocol and node.has_base(PROTOCOL):
            return Instance(node, [variable.default for variable in node.defn.type_vars])
    return None
