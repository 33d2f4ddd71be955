"""Through a function, statement by statement: branches, loops, assignments, what it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from mypy import nodes
from mypy.nodes import ClassDef, Decorator, Expression, FuncDef, MypyFile, OverloadedFuncDef, Statement
from mypy.types import CallableType, Type

from typedbatch._program.arrays.elementwise import in_place
from typedbatch._program.arrays.held import bind, learn_run
from typedbatch._program.arrays.operators import operate
from typedbatch._program.arrays.sizes import Ranks, Size
from typedbatch._program.arrays.values import Array, Literal, MismatchError, Record, Value, filled_in, join
from typedbatch.mypy.batches.content import NOTHING, Content, Items, Object, Ref
from typedbatch.mypy.batches.needs import Needs
from typedbatch.mypy.declared import declared_by
from typedbatch.mypy.engine.calling import is_followed
from typedbatch.mypy.engine.known import Known
from typedbatch.mypy.engine.layered import is_fixed
from typedbatch.mypy.engine.names import (
    asked_about,
    assigned_in,
    bound_often,
    captured,
    changed_inside,
    compared_sizes,
    filled_inside,
    functions_of,
    handed_on,
)
from typedbatch.mypy.engine.reading import Reading
from typedbatch.mypy.engine.report import Report
from typedbatch.mypy.engine.swapped import check_results
from typedbatch.mypy.engine.ways import catches_missing, is_missing_error, is_true, suppresses, takes_anything
from typedbatch.mypy.internals import known_type

NO_VALUE = Literal(None)
_MOST_ROUNDS = 4
_DEEPEST_LOOP = 3
"""A loop in so many others is gone through once, with nothing known of what it assigns to."""


class Flow:
    """Goes through the body of a function or module.

    Args:
        api: mypy's checker.
        report: what takes mistakes.
        known: what is known at the beginning.
        owner: of the names in its declarations.
        often: gives the names that are assigned to more than once; asked for when there is a function inside.
        of_module: it is the top of a module.
        root: the function or module.
    """

    def __init__(
        self,
        api: Any,
        report: Report,
        known: Known,
        owner: Record | None = None,
        often: Callable[[], Collection[Any]] = tuple,
        *,
        of_module: bool = False,
        root: nodes.Node | None = None,
    ) -> None:
        self._api = api
        self._report = report
        self._known = known
        self._reading = Reading(api, report, known, root)
        self._reading.of_module = of_module
        self._reading.in_first_round = lambda: bool(self._first)
        self._owner = owner
        self._often = often
        self._loops = 0
        self._branches = 0
        self._first: list[int] = []
        self._ended = False
        self._breaks: list[list[Known]] = []
        self._continues: list[list[Known]] = []
        self._returns: list[tuple[Value, Known]] = []
        self._watched: list[dict[Any, Value]] = []
        self._kinds: dict[type[Statement], Callable[[Any], None]] = {
            nodes.ExpressionStmt: lambda node: self._expression(node.expr),
            nodes.AssignmentStmt: self._assignment,
            nodes.OperatorAssignmentStmt: self._in_place,
            nodes.ReturnStmt: self._return,
            nodes.IfStmt: self._if,
            nodes.ForStmt: self._for,
            nodes.WhileStmt: self._while,
            nodes.WithStmt: self._with,
            nodes.TryStmt: self._try,
            nodes.MatchStmt: self._match,
            nodes.Block: lambda node: self.block(node),
            nodes.AssertStmt: self._assert,
            nodes.RaiseStmt: self._end,
            nodes.BreakStmt: lambda node: self._jump(self._breaks),
            nodes.ContinueStmt: lambda node: self._jump(self._continues),
            nodes.DelStmt: self._delete,
            FuncDef: self._inner,
            Decorator: lambda node: self._inner(node.func),
            OverloadedFuncDef: lambda node: None,
            ClassDef: lambda node: self._body_of_class(node),
        }

    def block(self, block: nodes.Block) -> None:
        """Each statement in turn."""
        if not block.is_unreachable:
            self.statements(block.body)

    def statements(self, body: Sequence[Statement]) -> None:
        """Each statement in turn, up to one that leaves."""
        for statement in body:
            if self._ended:
                return
            self._known.objects.seen_here()
            for names in self._watched:
                names.update((name, join(value, self._known.get(name))) for name, value in names.items())
            kind = self._kinds.get(type(statement))
            if kind is not None:
                with suppress(RecursionError):  # Others are read if one is nested too deeply.
                    kind(statement)

    # ---- assignments ----------------------------------------------------------------------------------------------

    def _expression(self, node: Expression) -> None:
        if isinstance(node, nodes.CallExpr) and isinstance(node.analyzed, nodes.RevealExpr):
            self._reveal(node)
            return
        self._reading.read(node)

    def _reveal(self, node: nodes.CallExpr) -> None:
        value = self._reading.read(node.args[0]) if node.args else None
        if isinstance(value, Array) and value.axes is not None and not self._first:
            self._report.note(f"Shape is {value}{_dtype(value)}", node)

    def _assignment(self, node: nodes.AssignmentStmt) -> None:
        if node.is_alias_def or isinstance(node.rvalue, nodes.TempNode):
            return
        value = self._reading.read(node.rvalue)
        if node.type is not None and self._owner is not None and declared_by(node.type) is not None:
            value = self._annotated(node, node.type, value)
        for target in node.lvalues:
            if not self._reading.untyped:
                check_results(self._reading, target, node.rvalue)
            self._reading.bind(target, value, node.rvalue)

    def _annotated(self, node: nodes.AssignmentStmt, type_: Type, value: Value) -> Value:
        """``x: Float[Tensor, "N 4"] = ...``: the names are the function's."""
        declared = declared_by(type_)
        assert declared is not None
        assert self._owner is not None
        if not isinstance(value, Array) or value.axes is None:
            return self._known.declared(type_, self._owner, node)
        try:
            bind(declared, value, self._owner, self._names())
        except MismatchError:
            return value
        said = self._known.declared(type_, self._owner, node)
        return filled_in(value, said) if isinstance(said, Array) else value

    def _names(self) -> dict[str, Size | None]:
        """Sizes of the names in the function's declarations, to which others may be added."""
        assert self._owner is not None
        assert isinstance(self._owner.sizes, dict)
        return self._owner.sizes

    def _in_place(self, node: nodes.OperatorAssignmentStmt) -> None:
        target, value = self._reading.read(node.lvalue), self._reading.read(node.rvalue)
        self._known.objects.escape(value)
        if isinstance(target, Ref):
            if node.op == "+" and not isinstance(self._known.objects.whole(target), Content):
                self._known.objects.escape(target)
        elif isinstance(target, Array):
            out = self._reading.tried(lambda: in_place(node.op, target, value))
            if isinstance(node.lvalue, nodes.NameExpr):
                self._known.put(node.lvalue.node, out if out is not None else target)
        elif isinstance(node.lvalue, nodes.NameExpr):
            if is_fixed(target):
                self._known.forget_layers()
            self._known.put(node.lvalue.node, self._reading.tried(lambda: operate(node.op, target, value)))

    def _delete(self, node: nodes.DelStmt) -> None:
        for target in node.expr.items if isinstance(node.expr, nodes.TupleExpr) else [node.expr]:
            if isinstance(target, nodes.IndexExpr):
                self._known.forget_layers()
            if isinstance(target, nodes.NameExpr):
                self._known.put(target.node, None)
            elif isinstance(target, (nodes.MemberExpr, nodes.IndexExpr)):
                self._reading.batches.delete(target)

    # ---- ways -----------------------------------------------------------------------------------------------------

    def _end(self, node: Statement) -> None:
        if isinstance(node, nodes.RaiseStmt) and node.expr is not None:
            self._reading.read(node.expr)
        self._reading.ways.leave()
        self._ended = True

    def _jump(self, frames: list[list[Known]]) -> None:
        """Leave for the end of a loop, or of its body."""
        frames[-1].append(self._known.copy())
        self._reading.ways.leave()
        self._ended = True

    def _way(self, known: Known, call: Callable[[], None]) -> Known | None:
        """What is known after a way that begins with ``known``; None if it leaves."""
        before, self._ended = self._known.copy(), False
        self._known.become(known)
        call()
        after = None if self._ended else self._known.copy()
        self._known.become(before)
        self._ended = False
        return after

    def _meet(self, ways: Iterable[Known | None], *, implicit: bool = False) -> None:
        """Go on with what is known on all ways that do not leave; ``implicit``: the last is a missing ``else``."""
        open_ = [way for way in ways if way is not None]
        if not open_:
            self._ended = True
            return
        decide = self._reading.ways.decider(implicit=implicit)
        if implicit and len(open_) > 2:  # Where several branches set a field, a missing ``else`` may be meant.
            open_[0].merge(open_[1:-1], decide)
            open_[0].merge(open_[-1:])
        else:
            open_[0].merge(open_[1:], decide)
        self._known.become(open_[0])

    def _if(self, node: nodes.IfStmt) -> None:
        ways: list[Known | None] = []
        for condition, body in zip(node.expr, node.body, strict=True):
            self._condition(condition)
            ways.append(self._branch(self._known.copy(), body))
            if body.is_unreachable:
                ways.pop()
        other = node.else_body
        if other is None:
            ways.append(self._known.copy())
        elif not other.is_unreachable:
            ways.append(self._branch(self._known.copy(), other))
        if None in ways and self._first:
            self._report.quiet += 1  # the rest of this round comes under a condition too
        self._meet(ways, implicit=other is None)

    def _branch(self, known: Known, body: nodes.Block) -> Known | None:
        """A way under a condition; nothing is said of it in the first round of a loop, which may not come there."""
        self._branches += 1
        quiet = bool(self._first) and self._branches > self._first[0]
        self._report.quiet += quiet
        with self._reading.ways.inside():
            after = self._way(known, lambda: self.block(body))
        self._report.quiet -= quiet
        self._branches -= 1
        return after

    def _condition(self, node: Expression) -> None:
        """Read a condition; sizes that it compares may be one another from here on."""
        self._reading.read(node)
        self._report.quiet += 1
        names = compared_sizes(node, self._reading)
        self._report.quiet -= 1
        self._known.forget(names)
        for name in asked_about(node):
            self._known.put(name, None)

    def _assert(self, node: nodes.AssertStmt) -> None:
        self._condition(node.expr)
        self._reading.ways.leave()

    def _loop(self, node: nodes.ForStmt | nodes.WhileStmt, body: Callable[[], None]) -> None:
        """A body that is gone through any number of times."""
        for name in assigned_in(node.body) if self._loops >= _DEEPEST_LOOP else ():
            self._known.put(name, None)
        self._loops += 1
        with self._reading.ways.inside():
            if self._loops > _DEEPEST_LOOP:
                self._known.objects.escape(*self._known.values.values())
                left = self._round(body)
            else:
                left = self._rounds(body)
        self._loops -= 1
        endless = isinstance(node, nodes.WhileStmt) and is_true(node.expr)
        if node.else_body is not None and not endless:
            self.block(node.else_body)
        self._meet([*left, *([] if endless else [self._known])])

    def _round(self, body: Callable[[], None]) -> list[Known]:
        """Go through a loop once, and add what is known after it; return what is known at each ``break``."""
        self._breaks.append([])
        self._continues.append([])
        after = self._way(self._known.copy(), body)
        self._known.merge([*([] if after is None else [after]), *self._continues.pop()])
        return self._breaks.pop()

    def _rounds(self, body: Callable[[], None]) -> list[Known]:
        """Go through a loop as the first time, and then as any time."""
        self._first.append(self._branches)
        quiet = self._report.quiet
        self._round(body)
        self._report.quiet = quiet
        self._first.pop()
        self._known.scopes = self._reading.known.scopes = {}
        changed: list[Any] = []
        for _ in range(_MOST_ROUNDS):
            mark, head = self._report.mark(), dict(self._known.objects.contents)
            values = dict(self._known.values)
            left = self._round(body)
            arrays = [(name, value) for name, value in values.items() if isinstance(value, (Array, Size))]
            changed = [name for name, value in arrays if self._known.get(name) != value]
            if self._known.objects.contents == head and not changed:
                return left
            self._report.take_back(mark)
        for name in changed:
            self._known.put(name, None)
        self._known.objects.escape(*self._known.values.values(), opened=True)
        return self._round(body)

    def _for(self, node: nodes.ForStmt) -> None:
        value = self._reading.read(node.expr)

        def body() -> None:
            self._reading.bind(node.index, self._reading.item_of(value, node.expr), node.expr)
            self.block(node.body)

        self._loop(node, body)

    def _while(self, node: nodes.WhileStmt) -> None:

        def body() -> None:
            self._condition(node.expr)
            self.block(node.body)

        self._loop(node, body)

    def _with(self, node: nodes.WithStmt) -> None:
        for expression, target in zip(node.expr, node.target, strict=True):
            self._reading.read(expression)
            if target is not None:
                self._reading.bind(target, None, expression)
        handlers = [one for one in node.expr if suppresses(one)]
        if not handlers:
            self.block(node.body)
            return
        self._reading.catching += any(map(catches_missing, handlers))
        self._meet([self._known.copy(), self._branch(self._known.copy(), node.body)])
        self._reading.catching -= any(map(catches_missing, handlers))

    def _try(self, node: nodes.TryStmt) -> None:
        before = self._known.copy()
        names = {name: before.get(name) for name in assigned_in(node.body)}  # a handler may come at any line
        self._watched.append(names)
        seen: dict[Any, Any] = {}
        self._known.objects.watching.append(seen)
        catches = any(map(is_missing_error, node.types))
        self._reading.catching += catches
        with self._reading.ways.inside():
            ways = [self._way(self._known.copy(), lambda: self.block(node.body))]
        self._reading.catching -= catches
        self._known.objects.watching.pop()
        self._watched.pop()
        before.objects.contents.update(seen)
        for name, value in names.items():
            before.put(name, value)
        if node.else_body is not None and ways[0] is not None:
            other = node.else_body
            ways = [self._branch(ways[0], other)]
        for handler in node.handlers:
            ways.append(self._branch(before.copy(), handler))
        self._meet(ways)
        if node.finally_body is not None:
            ended, self._ended = self._ended, False
            self.block(node.finally_body)
            self._known.objects.seen_here()  # The exception goes on from here, to a handler further out.
            self._ended = self._ended or ended

    def _match(self, node: nodes.MatchStmt) -> None:
        self._reading.read(node.subject)
        for name in (name for pattern in node.patterns for name in captured(pattern)):
            self._known.put(name, None)
        ways: list[Known | None] = [self._branch(self._known.copy(), body) for body in node.bodies]
        is_complete = any(map(takes_anything, node.patterns, node.guards))
        self._meet(ways if is_complete else [*ways, self._known.copy()], implicit=not is_complete)

    # ---- functions ------------------------------------------------------------------------------------------------

    def summed_up(self, function: FuncDef, needs: Needs) -> tuple[Value, dict[Object, Any]] | None:
        """What a function returns, and the contents of all objects then; None if it never returns."""
        self._reading.untyped, self._reading.needs = True, needs
        self.block(function.body)
        if not self._ended:
            self._returns.append((NO_VALUE, self._known.copy()))
        if not self._returns:
            return None
        first = self._returns[0][1]
        first.merge([known for _, known in self._returns[1:]])
        if not function.is_generator:
            return first.joined([value for value, _ in self._returns]), first.objects.contents
        item = first.joined(self._reading.yielded, NOTHING)
        return first.make(function, Items({}, item)), first.objects.contents

    def _return(self, node: nodes.ReturnStmt) -> None:
        value = self._reading.read(node.expr) if node.expr is not None else None
        if self._reading.untyped:
            self._returns.append((value, self._known.copy()))
        self._reading.ways.leave()
        self._ended = True

    def _inner(self, function: FuncDef) -> None:
        """A function inside: it sees names that are bound once, as they are now."""
        self._reading.capture(function)
        for name in changed_inside(function):
            self._known.unsteady.add(name)
            self._known.put(name, None)
        often = self._often()
        outer = {name: value for name, value in self._known.values.items() if name not in often}
        go_through(self._api, self._report, function, outer, self._known.objects.contents)

    def _body_of_class(self, node: ClassDef) -> None:
        for statement in node.defs.body:
            if isinstance(statement, (FuncDef, Decorator, OverloadedFuncDef)):
                for function in functions_of(statement):
                    self._inner(function)


def go_through(
    api: Any,
    report: Report,
    function: FuncDef,
    outer: Mapping[Any, Value] | None = None,
    objects: Mapping[Any, Any] | None = None,
) -> None:
    """Read a function's body, and report what does not fit in it.

    Args:
        api: mypy's checker.
        report: what takes mistakes.
        function: the function.
        outer: what is known of names outside of it.
        objects: the objects that these refer to.
    """
    if function.is_dynamic() and not api.options.check_untyped_defs:
        return
    type_ = function.type if isinstance(function.type, CallableType) else None
    known = Known(dict(outer or {}), None, cache(lambda: handed_on(function.body, is_followed)), dict(objects or {}))
    known.ranks = report.ranks
    sizes: dict[str, Size | None] = {}
    owner = Record(type_, known.scope(function), sizes)
    for argument in function.arguments:
        var, declared = argument.variable, argument.variable.type
        starred = argument.kind in (nodes.ARG_STAR, nodes.ARG_STAR2)
        if declared is None and var.is_self:
            declared = known_type(api, argument.initializer) if argument.initializer is not None else None
        value = None if declared is None or starred else known.declared(declared, owner, var)
        known.put(var, value)
    learn_names(owner, sizes, type_, report.ranks)
    Flow(api, report, known, owner, cache(lambda: bound_often(function)), root=function).block(function.body)


def learn_names(owner: Record, sizes: dict[str, Size | None], type_: CallableType | None, ranks: Ranks) -> None:
    """The names in what a function takes are sizes when it is called; those in its result alone are not."""
    for expected in type_.arg_types if type_ is not None else ():
        declared = declared_by(expected)
        for text in declared.names if declared is not None else ():
            sizes.setdefault(text, owner.size(text, None))
        for run in declared.runs if declared is not None else ():
            if run.key not in sizes and not run.broadcasts:
                learn_run(run, owner, sizes, ranks)


def of_module(api: Any, report: Report, tree: MypyFile) -> None:
    """Read what is at the top of a module, without its functions."""
    elsewhere = (FuncDef, Decorator, ClassDef, OverloadedFuncDef)
    known = Known(None, None, cache(lambda: handed_on(tree, is_followed)))
    known.ranks = report.ranks
    known.unsteady = changed_inside(tree) | filled_inside(tree)
    Flow(api, report, known, of_module=True, root=tree).statements(
        [one for one in tree.defs if not isinstance(one, elsewhere)]
    )


def _dtype(value: Array) -> str:
    from typedbatch._program.arrays.dtypes import told

    return "" if value.dtypes is None else f", {told(value.dtypes)}"
