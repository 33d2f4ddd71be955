"""Syntax of a function or file: which value goes where, and which names may get fields unseen.

A scope is the outermost function around a line, or the file. It is looked at when a first question is asked about it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mypy.nodes import (
    ARG_NAMED,
    AssignmentExpr,
    AssignmentStmt,
    CallExpr,
    ConditionalExpr,
    DelStmt,
    DictExpr,
    DictionaryComprehension,
    EllipsisExpr,
    Expression,
    ForStmt,
    GeneratorExpr,
    IndexExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    RefExpr,
    StrExpr,
    TupleExpr,
    Var,
    WithStmt,
)

from typedbatch.mypy.internals import Api, function_around, known_type, module_around, remember_type
from typedbatch.mypy.nodes import children, last_name, nodes_in, walk

Position = tuple[int, int]
Place = tuple[int, int, int | None, int | None]
"""Lines and columns of the first letter and behind the last."""


@dataclass(frozen=True)
class Binding:
    """A target and what it is bound to.

    Attributes:
        value: the expression; None when it is not written out, as an item of an unpacked call.
        iterated: the target gets the items of ``value``, one by one.
        augmented: ``target += value``.
        unpacked: the expression whose n-th item the target gets, and n.
    """

    target: Expression
    value: Expression | None
    iterated: bool = False
    augmented: bool = False
    unpacked: tuple[Expression, int] | None = None


@dataclass
class Held:
    """Changes of a file to a batch that is held in a place of one name, whoever's attribute it is.

    Attributes:
        names: the fields that are written.
        made: those that it is made with.
        bound: how often it is bound.
        unseen: it gets fields whose names are not written out.
        handed: the calls that it is handed to, each with the argument.
    """

    names: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    bound: int = 0
    unseen: bool = False
    handed: list[tuple[CallExpr, Expression]] = field(default_factory=list)


_kept: dict[int, tuple[Scope, Expression]] = {}
_kept_files: dict[int, tuple[Scope, Expression]] = {}
"""Scopes of files, apart: each function of a file asks for that of the file."""


def scope_around(api: Api) -> Scope | None:
    """Return the syntax of the function or file that is being checked."""
    root = function_around(api) or module_around(api)
    return scope_of(api, root) if root is not None else None


def scope_of(api: Api, root: Node) -> Scope:
    """Return the syntax of a function or file, which is kept as long as mypy keeps the types in it.

    The daemon uses a syntax tree again, with other variables or changed in place, when it checks a file once more.
    """
    kept = _kept_files if isinstance(root, MypyFile) else _kept
    scope, token = kept.get(id(root), (None, None))
    if scope is None or token is None or scope.root is not root or known_type(api, token) is None:
        if len(kept) > _MOST_KEPT:
            kept.clear()
        scope, token = Scope(root), EllipsisExpr()
        remember_type(api, token)
        kept[id(root)] = scope, token
    return scope


_MOST_KEPT = 8


@dataclass
class Scope:
    """A function or file, ``root``, seen as syntax."""

    root: Node
    bindings: dict[int, Binding] = field(default_factory=dict)
    values: dict[int, list[Expression]] = field(default_factory=dict)
    given_by: dict[int, list[NameExpr]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in nodes_in(self.root):
            for binding in _bindings(node):
                self.bindings[id(binding.target)] = binding
                self._note_giver(binding)
                if binding.value is not None and not binding.iterated:
                    self.values.setdefault(id(binding.value), []).append(binding.target)
            if isinstance(node, DelStmt):
                targets = node.expr.items if isinstance(node.expr, TupleExpr) else [node.expr]
                self.deleted.update(map(id, targets))

    def _note_giver(self, binding: Binding) -> None:
        """Note what a name gets its value from: a loop, or one side of a conditional expression."""
        givers = [binding.value] if binding.iterated and binding.value is not None else sides_of(binding.value)
        if isinstance(binding.target, NameExpr):
            for giver in givers:
                self.given_by.setdefault(id(giver), []).append(binding.target)

    def of(self, variable: Var) -> list[Binding]:
        """Return every binding of a variable."""
        return self._of.get(variable, [])

    @cached_property
    def _of(self) -> dict[Var, list[Binding]]:
        found: dict[Var, list[Binding]] = {}
        for binding in self.bindings.values():
            if isinstance(binding.target, NameExpr) and isinstance(binding.target.node, Var):
                found.setdefault(binding.target.node, []).append(binding)
        return found

    def bindings_of(self, variable: object) -> list[Binding]:
        """Return every binding of what may be a variable."""
        return self.of(variable) if isinstance(variable, Var) else []

    @cached_property
    def nodes(self) -> list[NameExpr | MemberExpr | IndexExpr | CallExpr | DictExpr]:
        """All that can make or remove a field: names, attributes, items, calls and dict displays."""
        kinds = (NameExpr, MemberExpr, IndexExpr, CallExpr, DictExpr)
        return [node for node in nodes_in(self.root) if isinstance(node, kinds)]

    @cached_property
    def held(self) -> dict[object, Held]:
        """Changes of each attribute, by its name, and of each variable of a file or class."""
        found: dict[object, Held] = defaultdict(Held)
        for node in nodes_in(self.root):
            for binding in _bindings(node):
                _note_written(found, binding)
            if isinstance(node, CallExpr):
                _note_handed(found, node)
        return found

    @cached_property
    def made(self) -> frozenset[str]:
        """Names that fields may get here: of keywords, of attributes that are set, and every text."""
        return frozenset(_names_made(self.root))

    def fields_set(self, name: str) -> list[Binding]:
        """Return what every field of a name is set to, whatever batch it is in."""
        return [b for b in self.bindings.values() if isinstance(b.target, MemberExpr) and b.target.name == name]

    @cached_property
    def _parents(self) -> dict[int, Node]:
        return {id(child): node for node in nodes_in(self.root) for child in children(node)}

    def at(self, place: Place) -> Expression | None:
        """Return the outermost expression that begins and ends there."""
        return self._at.get(place)

    def entry_at(self, start: Position, number: int) -> Expression | None:
        """Return the value of a number in the innermost dict display around a place that has as many."""
        displays = [node for node in self.nodes if isinstance(node, DictExpr) and len(node.items) > number]
        around = [one for one in displays if position_of(one) <= start <= (one.end_line or 0, one.end_column or 0)]
        return max(around, key=position_of).items[number][1] if around else None

    @cached_property
    def _at(self) -> dict[Place, Expression]:
        found: dict[Place, Expression] = {}
        for node in nodes_in(self.root):
            if isinstance(node, Expression):
                place = (node.line, node.column, node.end_line, node.end_column)
                found.setdefault(place, node)
        return found

    def around(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes around an expression of this scope, innermost last."""
        found: list[Node] = []
        while node is not self.root and (parent := self._parents.get(id(node))) is not None:
            found.append(parent)
            node = parent
        return tuple(reversed(found))


def position_of(node: Any) -> Position:
    """Line and column."""
    return node.line, node.column


def sides_of(value: Expression | None) -> list[Expression]:
    """Return the two sides of ``a if test else b``; none for other expressions."""
    return [value.if_expr, value.else_expr] if isinstance(value, ConditionalExpr) else []


def _bindings(node: Node) -> Iterator[Binding]:
    if isinstance(node, AssignmentStmt):
        for target in node.lvalues:
            yield from _pairs(target, node.rvalue)
    elif isinstance(node, OperatorAssignmentStmt):
        if not isinstance(node.lvalue, NameExpr):
            yield Binding(node.lvalue, None, augmented=True)
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
        if items is not None or isinstance(item, TupleExpr) or value is None:
            yield from _pairs(item, items[place] if items is not None else None)
        else:
            yield Binding(item, None, unpacked=(value, place))


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
    bindings = [binding for node in nodes_in(root) for binding in _bindings(node)]
    targets = {id(binding.target) for binding in bindings if not binding.augmented}  # b.x += 1 reads it first
    for node, around in walk(root):
        if isinstance(node, CallExpr):
            names = zip(node.arg_names, node.arg_kinds, strict=True)
            yield from (name for name, kind in names if kind is ARG_NAMED and name is not None)
        elif isinstance(node, StrExpr):
            if not (around and isinstance(around[-1], IndexExpr) and id(around[-1]) not in targets):
                yield node.value
        else:
            made = [b.target for b in _bindings(node) if not b.augmented]
            yield from (target.name for target in made if isinstance(target, MemberExpr))


def place_of(node: Node) -> object:
    """Return the key of a place in ``Scope.held``: the variable of a name, or the name of an attribute."""
    if isinstance(node, NameExpr):
        return node.node
    return node.name if isinstance(node, MemberExpr) else None


def _note_written(found: dict[object, Held], binding: Binding) -> None:
    target = binding.target
    found[place_of(target)].bound += 1
    if isinstance(binding.value, CallExpr) and last_name(binding.value.callee) == "Batch":
        found[place_of(target)].made.update(name for name in binding.value.arg_names if name is not None)
    if binding.augmented:
        return  # It reads the field first.
    if isinstance(target, MemberExpr):
        found[place_of(target.expr)].names.add(target.name)
    elif isinstance(target, IndexExpr) and isinstance(target.index, StrExpr):
        found[place_of(target.base)].names.add(target.index.value)
    elif isinstance(target, IndexExpr):
        found[place_of(target.base)].unseen = True


def _note_handed(found: dict[object, Held], call: CallExpr) -> None:
    for argument in call.args:
        found[place_of(argument)].handed.append((call, argument))
    if isinstance(call.callee, MemberExpr) and call.callee.name in _FILLING:
        found[place_of(call.callee.expr)].unseen = True


_FILLING = ("update", "setdefault", "cat_", "stack_", "set_array_at_key")
