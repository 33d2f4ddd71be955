"""What the syntax of a function or file says: which value goes where, and which names may get fields unseen.

A scope is the outermost function around a line, or the file. It is looked at when a first question is asked about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mypy.nodes import (
    ARG_NAMED,
    AssignmentExpr,
    AssignmentStmt,
    CallExpr,
    ComparisonExpr,
    DelStmt,
    DictionaryComprehension,
    EllipsisExpr,
    Expression,
    ForStmt,
    FuncItem,
    GeneratorExpr,
    IfStmt,
    IndexExpr,
    MemberExpr,
    NameExpr,
    Node,
    RefExpr,
    StrExpr,
    TryStmt,
    TupleExpr,
    Var,
    WhileStmt,
    WithStmt,
)

from typedbatch.mypy.internals import Api, function_around, known_type, module_around, remember_type
from typedbatch.mypy.tree import last_name, walk

Position = tuple[int, int]


@dataclass(frozen=True)
class Binding:
    """A target and what it is bound to.

    Attributes:
        value: the expression; None when it is not written out, as an item of an unpacked call.
        iterated: the target gets the items of ``value``, one by one.
    """

    target: Expression
    value: Expression | None
    iterated: bool = False


_kept: dict[int, tuple[Scope, Expression]] = {}


def scope_around(api: Api) -> Scope | None:
    """The syntax of the function or file that is being checked."""
    root = function_around(api) or module_around(api)
    return scope_of(api, root) if root is not None else None


def scope_of(api: Api, root: Node) -> Scope:
    """The syntax of a function or file. It is kept for as long as mypy keeps the types that it found in it.

    The daemon uses a syntax tree again, with other variables or changed in place, when it checks a file once more.
    """
    scope, token = _kept.get(id(root), (None, None))
    if scope is None or token is None or scope.root is not root or known_type(api, token) is None:
        if len(_kept) > _MOST_KEPT:
            _kept.clear()
        scope, token = Scope(root), EllipsisExpr()
        remember_type(api, token)
        _kept[id(root)] = scope, token
    return scope


_MOST_KEPT = 8


@dataclass
class Scope:
    """A function or file, ``root``, seen as syntax."""

    root: Node
    bindings: dict[int, Binding] = field(default_factory=dict)
    values: dict[int, list[Expression]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node, _ in walk(self.root):
            for binding in _bindings(node):
                self.bindings[id(binding.target)] = binding
                if binding.value is not None and not binding.iterated:
                    self.values.setdefault(id(binding.value), []).append(binding.target)
            if isinstance(node, DelStmt):
                targets = node.expr.items if isinstance(node.expr, TupleExpr) else [node.expr]
                self.deleted.update(map(id, targets))

    def of(self, variable: Var) -> list[Binding]:
        """Every binding of a variable."""
        return [b for b in self.bindings.values() if isinstance(b.target, NameExpr) and b.target.node is variable]

    @cached_property
    def uses(self) -> dict[Var, list[tuple[NameExpr, tuple[Node, ...]]]]:
        """Where each variable is read, with the nodes around it."""
        found: dict[Var, list[tuple[NameExpr, tuple[Node, ...]]]] = {}
        for node, around in walk(self.root):
            if isinstance(node, NameExpr) and isinstance(node.node, Var) and id(node) not in self.bindings:
                found.setdefault(node.node, []).append((node, around))
        return found

    @cached_property
    def made(self) -> frozenset[str]:
        """Names that fields may get here: of keywords, of attributes that are set, and every text."""
        return frozenset(_names_made(self.root))

    @cached_property
    def asked(self) -> frozenset[str]:
        """Names that are asked for before they are read: ``hasattr(b, "x")``, ``"x" in b``."""
        return frozenset(_names_asked(self.root))

    def writes(self, owner: object, name: str, before: Expression) -> list[tuple[Node, ...]]:
        """For each ``owner.name = ...`` that may have run before a line, the nodes around it."""
        return [
            around
            for node, around in walk(self.root)
            if _field_written(node, owner, self.bindings) == name and happens_before((node, around), before)
        ]

    def around(self, node: Node) -> tuple[Node, ...]:
        """The nodes around an expression of this scope."""
        return next((around for one, around in walk(self.root) if one is node), ())

    def caught(self, node: Expression) -> bool:
        """Is the line in a ``try`` that handles what a missing field raises."""
        return any(
            _position(one.body.body[0]) <= _position(node) <= (one.body.body[-1].end_line or 0, 1 << 30)
            for one in self._tries
        )

    @cached_property
    def _tries(self) -> list[TryStmt]:
        return [node for node, _ in walk(self.root) if isinstance(node, TryStmt) and _handles_missing(node)]


_MISSING_ERRORS = {"AttributeError", "KeyError", "LookupError", "Exception", "BaseException", "MissingFieldError"}


def _handles_missing(statement: TryStmt) -> bool:
    for type_ in statement.types:
        items = type_.items if isinstance(type_, TupleExpr) else [type_]
        if any(item is None or (last_name(item) in _MISSING_ERRORS) for item in items):
            return True
    return False


def _position(node: Any) -> Position:
    return node.line, node.column


def happens_before(one: tuple[Node, tuple[Node, ...]], other: Expression) -> bool:
    """May ``one``, given with the nodes around it, run before ``other``: it is above, or in a loop with it."""
    node, around = one
    if _position(node) < _position(other):
        return True
    loops = [loop for loop in around if isinstance(loop, (ForStmt, WhileStmt))]
    return any(_position(loop) < _position(other) <= (loop.end_line or 0, 1 << 30) for loop in loops)


def _bindings(node: Node) -> Iterator[Binding]:
    if isinstance(node, AssignmentStmt):
        for target in node.lvalues:
            yield from _pairs(target, node.rvalue)
    elif isinstance(node, AssignmentExpr):
        yield Binding(node.target, node.value)
    elif isinstance(node, ForStmt):
        yield from _loop_pairs(node.index, node.expr)
    elif isinstance(node, (GeneratorExpr, DictionaryComprehension)):
        for target, value in zip(node.indices, node.sequences, strict=True):
            yield from _loop_pairs(target, value)
    elif isinstance(node, WithStmt):
        for entered in node.target:
            if entered is not None:
                yield from _pairs(entered, None)


def _pairs(target: Expression, value: Expression | None) -> Iterator[Binding]:
    if not isinstance(target, TupleExpr):
        yield Binding(target, value)
        return
    items = value.items if isinstance(value, TupleExpr) and len(value.items) == len(target.items) else None
    for place, item in enumerate(target.items):
        yield from _pairs(item, items[place] if items is not None else None)


def _loop_pairs(target: Expression, value: Expression) -> Iterator[Binding]:
    if not isinstance(target, TupleExpr):
        yield Binding(target, value, iterated=True)
    elif isinstance(value, CallExpr) and isinstance(value.callee, RefExpr) and len(target.items) == 2:
        counted = value.callee.fullname == "builtins.enumerate" and value.args
        yield Binding(target.items[0], None)
        if counted and not isinstance(target.items[1], TupleExpr):
            yield Binding(target.items[1], value.args[0], iterated=True)
        else:
            yield from _pairs(target.items[1], None)
    else:
        yield from _pairs(target, None)


def _names_made(root: Node) -> Iterator[str]:
    for node, _ in walk(root):
        if isinstance(node, CallExpr):
            names = zip(node.arg_names, node.arg_kinds, strict=True)
            yield from (name for name, kind in names if kind is ARG_NAMED and name is not None)
        elif isinstance(node, StrExpr):
            yield node.value
        else:
            yield from (b.target.name for b in _bindings(node) if isinstance(b.target, MemberExpr))


def _names_asked(root: Node) -> Iterator[str]:
    for node, _ in walk(root):
        if isinstance(node, ComparisonExpr) and any(operator in ("in", "not in") for operator in node.operators):
            yield from (inner.value for inner, _ in walk(node) if isinstance(inner, StrExpr))
        elif isinstance(node, CallExpr) and last_name(node.callee) == "hasattr":
            yield from (argument.value for argument in node.args if isinstance(argument, StrExpr))


def _field_written(node: Node, owner: object, bindings: dict[int, Binding]) -> str | None:
    if id(node) not in bindings:
        return None
    if isinstance(node, MemberExpr) and isinstance(node.expr, NameExpr) and node.expr.node is owner:
        return node.name
    if isinstance(node, IndexExpr) and isinstance(node.base, NameExpr) and node.base.node is owner:
        return node.index.value if isinstance(node.index, StrExpr) else None
    return None


def loops_left(writer: tuple[Node, ...], reader: tuple[Node, ...]) -> bool:
    """Was the write in a loop that the read is behind: it has run, or there was nothing to do."""
    return any(isinstance(node, (ForStmt, WhileStmt)) and node not in reader for node in writer)


def same_condition(writer: tuple[Node, ...], reader: tuple[Node, ...]) -> bool:
    """Are both under an ``if`` of the same words, each in its own."""
    tests = [
        {str(test) for node in here if isinstance(node, IfStmt) and node not in there for test in node.expr}
        for here, there in ((writer, reader), (reader, writer))
    ]
    return bool(tests[0] & tests[1])


def written_to(root: Node, owner: NameExpr | MemberExpr) -> tuple[set[str], bool]:
    """The fields that a file writes to whatever is called as ``owner`` is, and whether it may get others unseen.

    That is so when it is bound more than once, handed to a function, or written under a computed name.
    """
    names: set[str] = set()
    bound, unseen = 0, False
    for node, _ in walk(root):
        for binding in _bindings(node):
            target = binding.target
            bound += _alike(target, owner)
            if isinstance(target, MemberExpr) and _alike(target.expr, owner):
                names.add(target.name)
            elif isinstance(target, IndexExpr) and _alike(target.base, owner):
                if isinstance(target.index, StrExpr):
                    names.add(target.index.value)
                else:
                    unseen = True
        if isinstance(node, CallExpr):
            unseen |= any(_alike(argument, owner) for argument in node.args)
            if isinstance(node.callee, MemberExpr) and _alike(node.callee.expr, owner):
                unseen |= node.callee.name in ("update", "setdefault", "cat_", "stack_", "set_array_at_key")
    return names, unseen or bound > 1


def _alike(node: Node, owner: NameExpr | MemberExpr) -> bool:
    if isinstance(node, NameExpr) and isinstance(owner, NameExpr):
        return node.node is owner.node
    return isinstance(node, MemberExpr) and node.name == owner.name


def functions_around(around: tuple[Node, ...]) -> list[Node]:
    """The functions and lambdas among the nodes around something, outermost first."""
    return [node for node in around if isinstance(node, FuncItem)]
