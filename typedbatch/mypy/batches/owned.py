"""Batches in attributes of which a file shows everything: what they are made with, and what is written to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from mypy.nodes import (
    AssertStmt,
    AssignmentStmt,
    CallExpr,
    ClassDef,
    ComparisonExpr,
    ConditionalExpr,
    Decorator,
    Expression,
    ExpressionStmt,
    ForStmt,
    FuncDef,
    GeneratorExpr,
    IfStmt,
    IndexExpr,
    IntExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    OpExpr,
    SliceExpr,
    StrExpr,
    TypeInfo,
    UnaryExpr,
    Var,
    WhileStmt,
)
from mypy.types import Instance, LiteralType, Type, get_proper_type

from typedbatch.mypy.batches.content import Content, Object, Ref
from typedbatch.mypy.batches.effects import METHODS
from typedbatch.mypy.batches.handing import leaves_alone
from typedbatch.mypy.batches.summaries import Summaries, called, given_to
from typedbatch.mypy.nodes import last_name, nodes_in, walk
from typedbatch.mypy.types.fields import Rest

_LOOKING = (
    AssertStmt, ComparisonExpr, ExpressionStmt, GeneratorExpr, IfStmt, OperatorAssignmentStmt, OpExpr,
    UnaryExpr, WhileStmt,
)  # fmt: skip
_LIBRARIES = frozenset({"builtins", "typing", "abc", "torch", "numpy", "gymnasium", "collections", "threading"})
_BY_NAME = frozenset({"setattr", "vars", "__dict__"})
_FILLING = frozenset({"update", "setdefault"})
_OPENING: Final = frozenset({"cat_", "stack_", "set_array_at_key", "popitem"})
_ROWS = (SliceExpr, IntExpr, OpExpr, UnaryExpr, ComparisonExpr)


class Owned:
    """The attributes of a file's classes that hold batches.

    Args:
        tree: the file.
        summaries: of its functions.
    """

    def __init__(self, tree: MypyFile, summaries: Summaries) -> None:
        self._tree = tree
        self._summaries = summaries
        self._fields: dict[str, Collection[str] | None] = {}

    def fields_of(self, owner: TypeInfo, name: str) -> Collection[str] | None:
        """Return the names of all fields of the batch that an attribute holds; None where they are not all in sight."""
        if not self._is_own(owner):
            return None
        if name not in self._fields:
            self._fields[name] = None
            self._fields[name] = self._all_fields(name)
        return self._fields[name]

    def is_used_often(self, field: str) -> bool:
        """Return whether a file uses the name of a field more than once, so that it is hardly a slip."""
        items = [node for node in nodes_in(self._tree) if isinstance(node, StrExpr) and node.value == field]
        return len(self._uses.get(field, ())) + len(items) > 1

    def is_here(self, fullname: str) -> bool:
        """Return whether a class or variable is of this file, by its full name."""
        return fullname.rpartition(".")[0] == self._tree.fullname

    def _is_own(self, owner: TypeInfo) -> bool:
        """Return whether only this file can write to the attributes of a class."""
        if owner.module_name != self._tree.fullname or not (self.is_program or owner.name.startswith("_")):
            return False
        bases = [one.module_name.partition(".")[0] for one in owner.mro if one.module_name != self._tree.fullname]
        return _LIBRARIES.issuperset(bases) and not self._writes_by_name

    @cached_property
    def is_program(self) -> bool:
        """Whether the file is run, so that other files do not use what is in it."""
        tests = [one for statement in self._tree.defs if isinstance(statement, IfStmt) for one in statement.expr]
        return any(last_name(node) == "__name__" for test in tests for node in nodes_in(test))

    @cached_property
    def _writes_by_name(self) -> bool:
        return any(last_name(node) in _BY_NAME for node in nodes_in(self._tree))

    @cached_property
    def _uses(self) -> Mapping[str, Sequence[tuple[MemberExpr, tuple[Node, ...]]]]:
        """Every attribute by its name, with the nodes around it."""
        found: dict[str, list[tuple[MemberExpr, tuple[Node, ...]]]] = {}
        for node, around in walk(self._tree):
            if isinstance(node, MemberExpr):
                found.setdefault(node.name, []).append((node, around))
        return found

    def _all_fields(self, name: str) -> Collection[str] | None:
        found: set[str] = set()
        if name in self._declared_in_classes:
            return None
        is_bound = False
        for node, around in self._uses.get(name, ()):
            fields = self._fields_by(node, around)
            if fields is None:
                return None
            is_bound = is_bound or _is_bound(node, around[-1])
            found.update(fields)
        return found if is_bound else None

    @cached_property
    def _declared_in_classes(self) -> set[str]:
        """Names that the body of a class gives a value or, as a dataclass does, has the caller give one."""
        found: set[str] = set()
        for node in nodes_in(self._tree):
            if isinstance(node, ClassDef):
                found.update(_declared_by(node))
        return found

    def _fields_by(self, node: MemberExpr, around: tuple[Node, ...]) -> Collection[str] | None:
        """Return the fields that one use of an attribute may give its batch; None if they cannot be told."""
        parent = around[-1]
        if _is_bound(node, parent):
            return self._bound_fields(node, around)
        if isinstance(parent, AssignmentStmt):
            return None
        if isinstance(parent, MemberExpr):
            return self._fields_by_member(parent, around)
        if isinstance(parent, IndexExpr):
            return self._fields_by_item(parent, around[-2]) if parent.base is node else ()
        if isinstance(parent, CallExpr):
            return () if self._leaves_alone(parent, node) else None
        if isinstance(parent, ForStmt):
            return () if parent.expr is node else None
        if isinstance(parent, ConditionalExpr):
            return () if parent.cond is node else None
        if isinstance(parent, OpExpr) and parent.op in ("and", "or"):
            return () if isinstance(around[-2], (IfStmt, WhileStmt, AssertStmt)) else None
        return () if isinstance(parent, _LOOKING) else None

    def _bound_fields(self, node: MemberExpr, around: tuple[Node, ...]) -> Collection[str] | None:
        """Return the fields of the batch that an attribute is bound to."""
        if last_name(getattr(around[-1], "rvalue", None)) == "None":
            return ()
        function = next((one for one in reversed(around) if isinstance(one, FuncDef)), None)
        summary = self._summaries.of(function) if function is not None else None
        if summary is None:
            return None
        objects = {one for site, _ in self._summaries.kept.get(node, ()) for one in ((site, False), (site, True))}
        contents = [summary.contents[one] for one in objects if one in summary.contents]
        if not contents or not all(map(_is_complete, contents)) or objects & _objects_in(summary.result):
            return None
        others = [held for target, held in self._summaries.kept.items() if target.name != node.name]
        return None if any(objects & held for held in others) else {name for one in contents for name in one.fields}

    def _fields_by_member(self, parent: MemberExpr, around: tuple[Node, ...]) -> Collection[str] | None:
        call = around[-2]
        if isinstance(call, CallExpr) and call.callee is parent:
            if parent.name in _FILLING:
                return _named(call)
            return () if parent.name in METHODS and parent.name not in _OPENING else None
        return (parent.name,) if _is_target(parent, call) else ()

    def _fields_by_item(self, parent: IndexExpr, statement: Node) -> Collection[str] | None:
        if not _is_target(parent, statement):
            return ()
        if isinstance(parent.index, StrExpr):
            return (parent.index.value,)
        return () if isinstance(parent.index, _ROWS) or self._is_rows(parent.index) else None

    def _is_rows(self, index: Expression) -> bool:
        """Return whether an index is no name of a field, by the types of what it is called."""
        if isinstance(index, NameExpr):
            return isinstance(index.node, Var) and is_no_text(index.node.type)
        classes = [symbol.node for symbol in self._tree.names.values() if isinstance(symbol.node, TypeInfo)]
        found = (
            [one.names[index.name].node for one in classes if index.name in one.names]
            if isinstance(index, MemberExpr)
            else []
        )
        return bool(found) and all(isinstance(one, Var) and is_no_text(one.type) for one in found)

    def _leaves_alone(self, call: CallExpr, argument: Expression) -> bool:
        if leaves_alone(call, argument) or (isinstance(call.callee, MemberExpr) and _is_text(call.callee.expr)):
            return True
        function = called(call)
        summary = self._summaries.of(function) if function is not None else None
        parameter = given_to(call, argument, summary) if summary is not None else None
        after = summary.contents.get(parameter) if summary is not None and parameter is not None else None
        if not isinstance(after, Content) or after.escaped or after.widened or after.absent:
            return False
        assert summary is not None
        return not any(held.line for held in after.fields.values()) and parameter not in _objects_in(summary.result)


def _is_text(node: Expression) -> bool:
    return isinstance(node, StrExpr)


def _is_complete(content: Any) -> bool:
    return isinstance(content, Content) and content.rest is Rest.NONE and not content.widened


def is_no_text(type_: Type | None) -> bool:
    """Return whether values of a type are no texts, for sure."""
    proper = get_proper_type(type_)
    item = proper.fallback if isinstance(proper, LiteralType) else proper
    return (
        isinstance(item, Instance)
        and not item.type.has_base("builtins.str")
        and item.type.fullname != "builtins.object"
    )


def _is_bound(node: Expression, parent: Node) -> bool:
    """Return whether an attribute is assigned to."""
    return isinstance(parent, AssignmentStmt) and node in parent.lvalues


def _is_target(node: Expression, statement: Node) -> bool:
    """Return whether a field is set."""
    return isinstance(statement, AssignmentStmt) and node in statement.lvalues


def _declared_by(node: ClassDef) -> Iterator[str]:
    for statement in node.defs.body:
        if isinstance(statement, AssignmentStmt):
            is_given = not getattr(statement.rvalue, "no_rhs", False) or node.decorators
            yield from (last_name(one) for one in statement.lvalues if is_given)
        elif isinstance(statement, Decorator):
            yield statement.name


def _named(call: CallExpr) -> Collection[str] | None:
    """Return the fields that ``update`` and ``setdefault`` set; None if they are not written out."""
    first = call.args[0] if call.args else None
    if isinstance(first, StrExpr) and last_name(call.callee) == "setdefault":
        return (first.value,)
    names = [name for name in call.arg_names if name is not None]
    return names if len(names) == len(call.args) and not any(kind.is_star() for kind in call.arg_kinds) else None


def _objects_in(value: Any) -> set[Object]:
    """Return the objects that a value refers to at once, or as an item."""
    found: set[Object] = set()
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, Ref):
            found |= one.objects
        items = getattr(one, "items", ())
        todo += items if isinstance(items, tuple) else ()
        inner = getattr(one, "item", None)
        todo += [inner] if isinstance(inner, Ref) else []
    return found
