"""Readers of the functions and classes of a file, for summaries, attributes of modules, and calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from mypy import nodes
from mypy.errorcodes import ErrorCode
from mypy.nodes import Context, FuncDef, MypyFile, RefExpr
from mypy.types import CallableType, Instance, get_proper_type

from typedbatch._program.arrays.held import bind, refined
from typedbatch._program.arrays.sizes import Name, Ranks, Size, named
from typedbatch._program.arrays.values import Array, MismatchError, Record, Value
from typedbatch.mypy.batches.content import Object, Ref
from typedbatch.mypy.batches.needs import Needs
from typedbatch.mypy.batches.summaries import Summaries
from typedbatch.mypy.declared import declared_by
from typedbatch.mypy.engine.calling import is_followed
from typedbatch.mypy.engine.changes import Changes
from typedbatch.mypy.engine.flow import Flow, filled_in, learn_names
from typedbatch.mypy.engine.inside import Heard, Inside, Outcome
from typedbatch.mypy.engine.known import Known
from typedbatch.mypy.engine.layered import Attribute
from typedbatch.mypy.engine.members import Members
from typedbatch.mypy.engine.names import handed_on
from typedbatch.mypy.engine.report import Report
from typedbatch.mypy.internals import watch
from typedbatch.mypy.nodes import nodes_in


def summaries_of(api: Any, tree: MypyFile) -> Summaries:
    """Return the summaries of the functions of a file."""

    def run(
        function: FuncDef, parameters: list[Object], contents: dict[Object, Any], needs: Needs
    ) -> tuple[Value, dict[Object, Any]] | None:
        known = Known({}, None, tuple, contents)
        for argument, parameter in zip(function.arguments, parameters, strict=True):
            known.put(argument.variable, Ref(frozenset({parameter})) if parameter in contents else None)
        report = Report(api)
        report.summaries, report.is_deaf = summaries, True
        flow = Flow(api, report, known, root=function)
        return flow.summed_up(function, needs)

    summaries = Summaries(tree.fullname, run)
    return summaries


def members_of(api: Any, tree: MypyFile, inside: Inside) -> Members:
    """Return the attributes of the modules of a file; sizes that a constructor is not given have its names."""

    def read(init: FuncDef, values: Sequence[Value] | None, made: dict[str, Value]) -> None:
        known = Known({}, None, cache(lambda: handed_on(init.body, is_followed)))
        report = _Hearing(api)
        report.members, report.inside = members, inside
        for at, argument in enumerate(init.arguments):
            known.put(argument.variable, _size_of(argument, known, init) if values is None else values[at])
        flow = Flow(api, report, known, certain=True, makes=init, root=init)
        done = flow.known_after(init)
        made.update(
            (one.name, value) for one, value in done.items() if isinstance(one, Attribute) and value is not None
        )

    members = Members(api, tree, read, inside)
    return members


def _size_of(argument: nodes.Argument, known: Known, init: FuncDef) -> Value:
    """Return what stands for a whole number that a constructor is given."""
    type_ = get_proper_type(argument.variable.type)
    if not isinstance(type_, Instance) or type_.type.fullname != "builtins.int":
        return None
    default = argument.initializer
    may_be_zero = default is not None and not (isinstance(default, nodes.IntExpr) and default.value > 0)
    return named(Name(argument.variable.name, known.scope(init), opaque=may_be_zero))


class _Hearing(Report):
    """Mismatches in the order in which they are met."""

    def __init__(self, api: Any) -> None:
        super().__init__(api)
        self.heard: list[Heard] = []

    def mismatch(self, error: MismatchError, context: Context) -> None:
        """Keep what does not fit."""
        if not self.quiet:
            self.heard.append(Heard(error, context))

    def fail(self, text: str, context: Context, code: ErrorCode, origin: int | None = None) -> None:
        """Say nothing of batches."""

    def note(self, text: str, context: Context) -> None:
        """Say nothing."""

    def mark(self) -> int:
        """Return the number of mismatches so far."""
        return len(self.heard)

    def take_back(self, mark: int) -> None:
        """Forget what was heard after a mark."""
        del self.heard[mark:]


def inside_of(api: Any, tree: MypyFile) -> tuple[Inside, Members]:
    """Return what reads calls of the functions and modules of a file."""

    def run(function: FuncDef, values: Sequence[Value], ranks: Ranks) -> Outcome:
        if api.options.fine_grained_incremental:
            _watch_names(api, function)
        report = _Hearing(api)
        report.members, report.inside, report.ranks = members, inside, ranks
        known = Known({}, None, cache(lambda: handed_on(function.body, is_followed)))
        known.ranks = ranks
        sizes: dict[str, Size | None] = {}
        type_ = function.type if isinstance(function.type, CallableType) else None
        owner = Record(type_, known.scope(function), sizes)
        for argument, value in zip(function.arguments, values, strict=True):
            known.put(argument.variable, _given(argument, value, owner, sizes, report))
        if report.heard:
            return Outcome(None, report.heard)
        learn_names(owner, sizes, type_, ranks)
        for argument in function.arguments:
            known.put(argument.variable, _said(argument, known.get(argument.variable), owner, known))
        flow = Flow(
            api, report, known, type_.ret_type if type_ is not None else None, owner, certain=True, root=function
        )
        done = flow.summed_up(function, Needs())
        value = None if done is None else done[0]
        said = None if type_ is None else known.declared(type_.ret_type, owner, (function, "result"))
        return Outcome(refined(said, None if isinstance(value, Ref) else value), report.heard)

    inside = Inside(tree.fullname, Changes(tree), run)
    members = members_of(api, tree, inside)
    return inside, members


def _watch_names(api: Any, function: FuncDef) -> None:
    """Have the daemon check the current function again when something changes that the body of a called one names."""
    for node in nodes_in(function.body):
        if isinstance(node, RefExpr) and node.fullname and node.kind == nodes.GDEF:
            watch(api, node.fullname)


def _given(
    argument: nodes.Argument,
    value: Value,
    owner: Record,
    sizes: dict[str, Size | None],
    report: Report,
) -> Value:
    """Return what a parameter is given, held against its declaration."""
    declared = declared_by(argument.variable.type) if argument.variable.type is not None else None
    if declared is None or not isinstance(value, Array):
        return value
    try:
        bind(declared, value, owner, sizes)
    except MismatchError as error:
        what = f'Argument "{argument.variable.name}" {error}'
        report.mismatch(MismatchError(what, dtype=error.dtype), argument)
    return value


def _said(argument: nodes.Argument, value: Value, owner: Record, known: Known) -> Value:
    """Return a value with what only the declaration of the parameter says."""
    type_ = argument.variable.type
    said = known.declared(type_, owner, argument.variable) if type_ is not None else None
    if not isinstance(said, Array) or not isinstance(value, Array):
        return value if value is not None or not isinstance(said, (Array, Record)) else said
    dtypes = said.dtypes if value.dtypes is None else value.dtypes
    return said if value.axes is None else filled_in(value, said).typed(dtypes)
