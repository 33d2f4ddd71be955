"""What the syntax of a function or file says: which value goes where, and which names may get fields unseen.

A scope is the outermost function around a line, or the file. It is looked at when a first question is asked about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mypy.nodes import (
    ARG_NAMED,
    AssignmentExpr,
    AssignmentStmt,
    Block,
    CallExpr,
    ComparisonExpr,
    ConditionalExpr,
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
    OperatorAssignmentStmt,
    RefExpr,
    StrExpr,
    TryStmt,
    TupleExpr,
    Var,
    WhileStmt,
    WithStmt,
)

from typedbatch.mypy.internals import Api, function_around, known_type, module_around, remember_type
from typedbatch.mypy.tree import last_name, nodes_in, walk

Position = tuple[int, int]


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
        """What a loop goes through, and the sides of a conditional expression, are not the value that a name gets."""
        givers = [binding.value] if binding.iterated and binding.value is not None else sides_of(binding.value)
        if isinstance(binding.target, NameExpr):
            for giver in givers:
                self.given_by.setdefault(id(giver), []).append(binding.target)

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
        """For each way of ``owner`` to the field that some runs take before a line, the nodes around it.

        That is ``owner.name = ...`` in a branch or loop, or further down in a loop around both; and a binding of
        ``owner`` to a batch that is made with the field.
        """
        here = self.around(before)
        found = []
        for node, around in walk(self.root):
            if not self._gives(node, owner, name) or not happens_before((node, around), before):
                continue
            if position_of(node) > position_of(before) or _apart(around, here):
                found.append(around)
        return found

    def items_set(self, owners: set[Var], name: str | None = None) -> list[IndexExpr]:
        """The targets of every ``owner["name"] = ...``; of any name, if none is given."""
        targets = [binding.target for binding in self.bindings.values() if isinstance(binding.target, IndexExpr)]
        items = [item for item in targets if isinstance(item.base, NameExpr) and item.base.node in owners]
        return [i for i in items if name is None or not isinstance(i.index, StrExpr) or i.index.value == name]

    def nested_items_set(self, receiver: Expression, name: str) -> list[IndexExpr]:
        """The targets of every ``b.obs["name"] = ...``, for ``b.obs`` or ``b["obs"]``."""
        targets = [binding.target for binding in self.bindings.values() if isinstance(binding.target, IndexExpr)]
        items = [item for item in targets if isinstance(item.index, StrExpr) and item.index.value == name]
        path = _path_of(receiver)
        return [item for item in items if path is not None and len(path) > 1 and _path_of(item.base) == path]

    def sources(self, receiver: Expression) -> set[Var]:
        """The variables that an expression is made from, and those that they are bound to, and so on."""
        found: set[Var] = set()
        todo = [receiver]
        while todo:
            names = [node.node for node in nodes_in(todo.pop()) if isinstance(node, NameExpr)]
            for variable in [v for v in names if isinstance(v, Var) and v not in found]:
                found.add(variable)
                todo.extend(b.value for b in self.of(variable) if b.value is not None)
        return found

    def fields_set(self, name: str) -> list[Binding]:
        """What every field of that name is set to, whatever batch it is in."""
        return [b for b in self.bindings.values() if isinstance(b.target, MemberExpr) and b.target.name == name]

    def _gives(self, node: Node, owner: object, name: str) -> bool:
        binding = self.bindings.get(id(node))
        if binding is None:
            return False
        if isinstance(node, NameExpr) and node.node is owner:
            return isinstance(binding.value, CallExpr) and name in binding.value.arg_names
        if isinstance(node, MemberExpr) and isinstance(node.expr, NameExpr):
            return node.expr.node is owner and node.name == name
        if isinstance(node, IndexExpr) and isinstance(node.base, NameExpr):
            return node.base.node is owner and isinstance(node.index, StrExpr) and node.index.value == name
        return False

    def around(self, node: Node) -> tuple[Node, ...]:
        """The nodes around an expression of this scope."""
        return next((around for one, around in walk(self.root) if one is node), ())

    def caught(self, node: Expression) -> bool:
        """Is the line in a ``try`` or ``with`` that handles what a missing field raises."""
        around = self.around(node)
        return any(
            handler.body in around and _handles_missing(handler)
            for handler in around
            if isinstance(handler, (TryStmt, WithStmt))
        )


_LOOPS = (ForStmt, WhileStmt)
_HANDLERS = {"suppress", "raises"}
_MISSING_ERRORS = {"AttributeError", "KeyError", "LookupError", "Exception", "BaseException", "MissingFieldError"}


def _handles_missing(statement: TryStmt | WithStmt) -> bool:
    if isinstance(statement, TryStmt):
        types = [
            item for type_ in statement.types for item in (type_.items if isinstance(type_, TupleExpr) else [type_])
        ]
    else:
        calls = [call for call in statement.expr if isinstance(call, CallExpr) and last_name(call.callee) in _HANDLERS]
        types = [item for call in calls for item in call.args]
    return any(item is None or last_name(item) in _MISSING_ERRORS for item in types)


def position_of(node: Any) -> Position:
    """Line and column."""
    return node.line, node.column


def _path_of(place: Expression) -> tuple[object, ...] | None:
    """``b.obs["cam"]`` as ``b``, "obs", "cam"; None for what is no field of a name."""
    if isinstance(place, NameExpr):
        return (place.node,)
    if isinstance(place, MemberExpr):
        parent, name = _path_of(place.expr), place.name
    elif isinstance(place, IndexExpr) and isinstance(place.index, StrExpr):
        parent, name = _path_of(place.base), place.index.value
    else:
        return None
    return None if parent is None else (*parent, name)


def sides_of(value: Expression | None) -> list[Expression]:
    """The two sides of ``a if test else b``; none of anything else."""
    return [value.if_expr, value.else_expr] if isinstance(value, ConditionalExpr) else []


def happens_before(one: tuple[Node, tuple[Node, ...]], other: Expression) -> bool:
    """May ``one``, given with the nodes around it, run before ``other``: it is above, or in a loop with it."""
    node, around = one
    if position_of(node) < position_of(other):
        return True
    loops = [loop for loop in around if isinstance(loop, _LOOPS)]
    return any(position_of(loop) < position_of(other) <= (loop.end_line or 0, 1 << 30) for loop in loops)


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
    targets = {id(binding.target) for node in nodes_in(root) for binding in _bindings(node)}
    for node, around in walk(root):
        if isinstance(node, CallExpr):
            names = zip(node.arg_names, node.arg_kinds, strict=True)
            yield from (name for name, kind in names if kind is ARG_NAMED and name is not None)
        elif isinstance(node, StrExpr):
            if not (around and isinstance(around[-1], IndexExpr) and id(around[-1]) not in targets):
                yield node.value
        else:
            yield from (b.target.name for b in _bindings(node) if isinstance(b.target, MemberExpr))


def _names_asked(root: Node) -> Iterator[str]:
    for node in nodes_in(root):
        if isinstance(node, ComparisonExpr) and any(operator in ("in", "not in") for operator in node.operators):
            yield from (inner.value for inner in nodes_in(node) if isinstance(inner, StrExpr))
        elif isinstance(node, CallExpr) and last_name(node.callee) == "hasattr":
            yield from (argument.value for argument in node.args if isinstance(argument, StrExpr))


def _apart(writer: tuple[Node, ...], reader: tuple[Node, ...]) -> bool:
    """Is a write in a branch or loop that the read is not in; the other branch of one ``if`` counts in loops only."""
    arms = [node for node in writer if isinstance(node, Block) and node not in reader]
    if not arms:
        return False
    choice = writer[writer.index(arms[0]) - 1]
    return choice not in reader or any(isinstance(node, _LOOPS) and node in reader for node in writer)


def may_have_run(writer: tuple[Node, ...], reader: tuple[Node, ...]) -> bool:
    """May a write have run whenever the program comes to a read; both are given by what is around them.

    So after a loop that it was in, which has run or had nothing to do; under an ``if`` of the same words; and under any
    other ``if`` of a loop that both are in, as in ``if step > 0``.
    """
    if any(isinstance(node, _LOOPS) and node not in reader for node in writer):
        return True
    shared = [node for node in writer if node in reader]
    loop = next((node for node in shared if isinstance(node, _LOOPS)), None)
    if loop is not None and any(isinstance(node, IfStmt) for node in reader[reader.index(loop) :]):
        return True
    tests = [
        {str(test) for node in around if isinstance(node, IfStmt) and node not in shared for test in node.expr}
        for around in (writer, reader)
    ]
    return bool(tests[0] & tests[1])


def written_to(
    root: Node, owner: NameExpr | MemberExpr, only_read: Callable[[CallExpr, Expression], bool]
) -> tuple[set[str], bool]:
    """The fields that a file writes to whatever is called as ``owner`` is, and whether it may get others unseen.

    That is so when it is bound more than once, handed to a function that does not only read, or written under a
    computed name.
    """
    names: set[str] = set()
    bound, unseen = 0, False
    for node in nodes_in(root):
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
            unseen |= any(_alike(argument, owner) and not only_read(node, argument) for argument in node.args)
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
