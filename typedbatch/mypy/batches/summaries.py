"""Summaries of functions: what one reads of the batches that it is given, what it does to them, and what it returns.

A summary comes from the text of one function alone, without types, so that it is the same in every run of mypy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mypy.nodes import (
    ARG_NAMED,
    ARG_POS,
    ARG_STAR,
    ARG_STAR2,
    CallExpr,
    Decorator,
    EllipsisExpr,
    Expression,
    ExpressionStmt,
    FuncDef,
    MemberExpr,
    MypyFile,
    NameExpr,
    RefExpr,
    Statement,
    StrExpr,
    TypeInfo,
)
from mypy.types import CallableType, Instance, Type, get_proper_type

from typedbatch._program.arrays.values import Many, Several, Value, join
from typedbatch.mypy import messages
from typedbatch.mypy.batches.content import Content, Field, Items, Object, Presence, Ref
from typedbatch.mypy.batches.needs import Needs
from typedbatch.mypy.batches.objects import Objects
from typedbatch.mypy.nodes import last_name, nodes_in
from typedbatch.mypy.types.fields import Rest

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading


_HIGHEST = 8
"""Functions at the top of a longer chain of calls have no summary, which bounds the time for one."""


@dataclass(frozen=True)
class Summary:
    """What a function does.

    Attributes:
        function: the function.
        parameters: the objects that stand for what it is given.
        contents: the contents of all objects when it ends.
        result: what it returns.
        needs: fields that it reads of what it is given.
    """

    function: FuncDef
    parameters: list[Object]
    contents: Mapping[Object, Any]
    result: Any
    needs: Needs


Summarize = Callable[[FuncDef, list[Object], dict[Object, Any], Needs], tuple[Any, dict[Object, Any]] | None]


class Summaries:
    """The summaries of the functions of a file.

    Args:
        module: name of the file's module.
        run: go through a function with objects for its parameters; returns what it returns, and the contents then.
    """

    def __init__(self, module: str, run: Summarize) -> None:
        self._module = module
        self._run = run
        self._made: dict[FuncDef, Summary | None] = {}
        self._heights: dict[FuncDef, int] = {}

    def of(self, function: FuncDef) -> Summary | None:
        """Return the summary of a function; None while it is made, as in a recursion, and where there is none."""
        if function not in self._made:
            self._made[function] = None
            if self._height(function) <= _HIGHEST:
                self._made[function] = self._summary(function)
        return self._made[function]

    def _summary(self, function: FuncDef) -> Summary | None:
        return self._of_body(function) if self._is_here(function) and not function.is_coroutine else None

    def _is_here(self, function: FuncDef) -> bool:
        return home_of(function) in (self._module, "")

    def _height(self, function: FuncDef) -> int:
        """Return how many functions call each other below a function; those that come back to themselves are too high.

        It depends on no order in which functions are asked for, unlike a summary of one that is being made.
        """
        if function not in self._heights:
            self._heights[function] = _HIGHEST + 1
            nodes = nodes_in(function.body) if self._is_here(function) else ()
            calls = [node for node in nodes if isinstance(node, CallExpr)]
            inner = {_called_in(node, function) for node in calls} - {None, function}
            highest = max((self._height(one) for one in inner if one is not None), default=0)
            self._heights[function] = min(1 + highest, _HIGHEST + 1)
        return self._heights[function]

    def _of_body(self, function: FuncDef) -> Summary | None:
        if all(map(_stands_for_anything, function.body.body)):
            return None
        parameters: list[Object] = [((argument.variable, "given"), False) for argument in function.arguments]
        is_method = bool(function.info) and not function.is_static
        given: dict[Object, Any] = dict.fromkeys(parameters[is_method:], Content(rest=Rest.DECLARED))
        types = function.type.arg_types if isinstance(function.type, CallableType) else ()
        for parameter, type_ in list(zip(parameters, types, strict=False))[is_method:]:
            if _is_list(type_):
                item = item_of(parameter)
                given[item] = Content(rest=Rest.DECLARED)
                given[parameter] = Items({}, Ref(frozenset({item})))
        needs = Needs()
        done = self._run(function, parameters, given, needs)
        if done is None:
            return None
        after = [done[1].get(one) for one in parameters]
        if function.is_generator and any(isinstance(one, Content) and one.absent for one in after):
            return None  # The fields are removed some time later.
        return Summary(function, parameters, done[1], done[0], needs)


def _called_in(node: CallExpr, function: FuncDef) -> FuncDef | None:
    """Return the function, or method of the same class, that a function calls."""
    callee = node.callee
    if isinstance(callee, MemberExpr) and function.info and last_name(callee.expr) == "self":
        return method_of(function.info, callee.name)
    return called(node)


def home_of(function: FuncDef) -> str:
    """Return the name of the module that a function is in; empty for a function inside of another."""
    if function.info:
        return function.info.module_name if function.info.fullname == function.fullname.rpartition(".")[0] else ""
    return function.fullname.rpartition(".")[0]


def item_of(parameter: Object) -> Object:
    """Return the object that stands for any item of a list that a function is given."""
    return ((parameter, "item"), True)


def _stands_for_anything(statement: Statement) -> bool:
    """Return whether a statement is a docstring, or ``...`` in place of what a function does."""
    return isinstance(statement, ExpressionStmt) and isinstance(statement.expr, (EllipsisExpr, StrExpr))


def _is_list(type_: Type) -> bool:
    proper = get_proper_type(type_)
    return isinstance(proper, Instance) and proper.type.fullname in _LISTS and len(proper.args) == 1


_LISTS = frozenset({"builtins.list", "typing.Sequence", "typing.Iterable", "typing.Collection", "typing.Iterator"})


def called(node: CallExpr) -> FuncDef | None:
    """Return the function that is called, if its name can mean no other."""
    callee = node.callee
    is_name = isinstance(callee, NameExpr) or (
        isinstance(callee, MemberExpr) and isinstance(callee.expr, RefExpr) and isinstance(callee.expr.node, MypyFile)
    )
    function: Any = getattr(callee, "node", None) if is_name else None
    if isinstance(function, Decorator) and not function.decorators:
        function = function.func
    return function if isinstance(function, FuncDef) and not function.is_property else None


def method_of(owner: TypeInfo, name: str) -> FuncDef | None:
    """Return the method of a class, or of a class that it is derived from; None for what has decorators."""
    found = owner.get(name)
    node = found.node if found is not None else None
    is_plain = isinstance(node, FuncDef) and not node.is_property and not node.is_class and not node.is_static
    return node if is_plain and isinstance(node, FuncDef) else None


def is_overridden(owner: TypeInfo, name: str, tree: MypyFile) -> bool:
    """Return whether a class that a file sees is derived from another one, and has a method of its own."""
    others = (symbol.node for symbol in tree.names.values())
    return any(
        isinstance(one, TypeInfo) and one is not owner and name in one.names and one.has_base(owner.fullname)
        for one in others
    )


class Application:
    """The use of a summary at one call.

    Args:
        reading: reader of expressions of the caller.
        node: the call.
        summary: what the function does.
        values: what it is given, in the order of its parameters.
    """

    def __init__(self, reading: Reading, node: CallExpr, summary: Summary, values: list[Any]) -> None:
        self._reading = reading
        self._node = node
        self._summary = summary
        self._known = dict(zip(summary.parameters, values, strict=True))
        for parameter, value in zip(summary.parameters, values, strict=True):
            if item_of(parameter) in summary.contents:
                self._known[item_of(parameter)] = self._item_of(value)
        self._changed: set[Object] = set()

    def _item_of(self, value: Any) -> Value:
        """Return what any item of a list is for the caller."""
        whole = self._reading.known.objects.whole(value)
        if isinstance(whole, Items):
            return self._reading.batches.any_item(whole)
        several = value.items if isinstance(value, Several) else ()
        return value.item if isinstance(value, Many) else self._reading.known.joined(list(several))

    def apply(self) -> Value:
        """Return what the call gives, once everything is done that the function does."""
        self.check()
        for one in [one for one in self._known if one in self._summary.contents]:
            self._change(one)
        return self.returned()

    def returned(self) -> Value:
        """Return what the call gives."""
        return self._value(self._summary.result)

    def check(self) -> None:
        """Report fields that the function reads, and that the batches which it is given lack."""
        for one in self._known:
            if one in self._summary.contents:
                self._check(one)

    def _check(self, parameter: Object) -> None:
        """Report fields that the function reads and the batch lacks."""
        value = self._known[parameter]
        names = self._summary.needs.read.get(parameter, {})
        if not isinstance(value, Ref):
            return
        contents = [self._reading.known.objects.of(one) for one in value.objects]
        if not all(isinstance(one, Content) for one in contents):
            return
        for name in names:
            if self._reading.is_excused(name) or self._reading.batches.is_member(name):
                continue
            self._reading.batches.judge.need(value, contents, name, self._node)
            if all(one.presence(name) is Presence.ABSENT for one in contents):
                known = {one: None for made in contents for one, held in made.fields.items() if held.sure}
                text = messages.needed(name, self._summary.function.name, known)
                self._reading.report.fail(text, self._given_by(parameter), messages.FIELD)
                return

    def _given_by(self, parameter: Object) -> Expression:
        """Return the argument for a parameter."""
        node, arguments = self._node, self._summary.function.arguments
        at = next(
            (at for at, one in enumerate(self._summary.parameters) if parameter in (one, item_of(one))), len(arguments)
        )
        if at == len(arguments):
            return node
        name = arguments[at].variable.name
        if name in node.arg_names:
            return node.args[node.arg_names.index(name)]
        at -= len(arguments) > 0 and arguments[0].variable.is_self
        return node.args[at] if 0 <= at < len(node.args) else node

    def _change(self, parameter: Object) -> None:
        value, after = self._known[parameter], self._summary.contents.get(parameter)
        if parameter in self._changed:
            return
        if not isinstance(value, Ref):
            self._keep(parameter, after)
            return
        self._changed.add(parameter)
        if isinstance(after, Items) and after == Items({}, Ref(frozenset({item_of(parameter)}))):
            return  # The list is as it was; its items come by themselves.
        if not isinstance(after, Content):
            self._reading.known.objects.escape(value, opened=True)
            return
        objects = self._reading.known.objects
        if not all(isinstance(objects.of(one), Content) for one in value.objects):
            self._change_items(value, after)
            return
        for name, held in after.fields.items():
            if held.line:
                self._set(value, name, held)
            else:
                self._change_inner(value, name, held.value)
        for name in after.absent:
            self._reading.batches.remove_field(self._node, value, name)
        if after.widened:
            self._reading.batches.open(value)
        if after.escaped:
            objects.escape(value, opened=True)

    def _keep(self, parameter: Object, after: Any) -> None:
        """Note that an object of which nothing is known holds what the function puts into it."""
        if not isinstance(after, Content):
            return
        inside = Objects(join, dict(self._summary.contents))
        for one in list(inside.reachable([Ref(frozenset({parameter}))])):
            if one != parameter:
                self._reading.known.objects.escape(self._object(one), opened=True)

    def _change_items(self, value: Ref, after: Content) -> None:
        if after.fields or after.escaped or after.widened:
            self._reading.known.objects.escape(value, opened=True)

    def _set(self, owner: Ref, name: str, held: Field) -> None:
        new = Field(self._value(held.value), self._node.line, held.sure)
        if self._reading.known.objects.has_escaped(owner):
            self._reading.known.objects.escape(new.value)

        def changed(made: Any) -> Any:
            if not isinstance(made, Content):
                return made
            return made.with_field(name, new) if new.sure else made.perhaps_with(name, new, join)

        self._reading.known.objects.change(owner, changed)

    def _change_inner(self, owner: Ref, name: str, inner: Any) -> None:
        """Change a batch that a field of a parameter holds."""
        for one in inner.objects if isinstance(inner, Ref) else ():
            if one not in self._known:
                self._known[one] = self._field_of(owner, name)
                self._change(one)

    def _field_of(self, owner: Ref, name: str) -> Value:
        objects = self._reading.known.objects
        held = [made.fields.get(name) for made in map(objects.of, owner.objects) if isinstance(made, Content)]
        return self._reading.known.joined([one.value if one is not None else None for one in held])

    def _value(self, value: Any) -> Value:
        """Return what a value of the function is for the caller."""
        if isinstance(value, Ref):
            return self._reading.known.joined([self._object(one) for one in value.objects])
        if isinstance(value, Several):
            return Several(tuple(map(self._value, value.items)), value.listed)
        return Many(self._value(value.item)) if isinstance(value, Many) and isinstance(value.item, Ref) else None

    def _object(self, one: Object) -> Value:
        if one in self._known:
            known: Value = self._known[one]
            return known
        after = self._summary.contents.get(one)
        if not isinstance(after, (Content, Items)):
            return None
        made = self._reading.batches.make((self._node, one), Content())
        self._known[one] = made
        for new in made.objects:
            self._reading.known.objects.put(new, self._translated(after))
        return self._reading.known.aged(made) if one[1] else made

    def _translated(self, after: Any) -> Any:
        if isinstance(after, Items):
            known = {key: self._value(item) for key, item in after.known.items()}
            return Items(
                known, self._value(after.others) if isinstance(after.others, Ref) else after.others, after.escaped
            )
        fields = {
            name: Field(self._value(held.value), self._node.line, held.sure)
            for name, held in after.fields.items()
            if held.line
        }
        base = self._copied(after.source)
        if base is None:
            return replace(after, fields=fields, source=None)
        made = replace(base, fields={**base.fields, **fields})
        for name, line in after.absent.items():
            made = made.without(name, line)
        made = made.opened() if after.widened else made
        return made.held() if after.escaped else made

    def _copied(self, source: Object | None) -> Content | None:
        """Return the content of what the function was given, of which it has made a copy."""
        given = self._known.get(source) if source is not None else None
        if not isinstance(given, Ref):
            return None
        copied = self._reading.batches.copy(given, (self._node, "copy", source))
        whole = self._reading.known.objects.whole(copied)
        return whole if isinstance(whole, Content) else None


def bound_values(
    node: CallExpr, function: FuncDef, given: Mapping[Expression, Any], *, of_method: bool = False
) -> list[Any] | None:
    """Return what each parameter of a function gets, the first one of a method nothing; None where it is unclear."""
    names = [argument.variable.name for argument in function.arguments]
    kinds = [argument.kind for argument in function.arguments]
    values: list[Any] = [None] * len(names)
    at = int(of_method)
    for argument, kind, name in zip(node.args, node.arg_kinds, node.arg_names, strict=True):
        value = given[argument]
        if kind is ARG_POS and at < len(names) and kinds[at] not in (ARG_STAR, ARG_STAR2) and not kinds[at].is_named():
            values[at] = value
            at += 1
        elif kind is ARG_NAMED and name in names:
            values[names.index(name)] = value
        else:
            return None
    return values
