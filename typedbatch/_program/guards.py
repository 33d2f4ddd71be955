"""Conditions that the run is behind: flags that they decide, texts that they may choose among, and answers."""

from __future__ import annotations

import ast

from typedbatch._program.heap import Condition, Field, Place, ScopeObject
from typedbatch._program.objects import Objects
from typedbatch._program.questions import Question, question_in
from typedbatch._program.values import UNKNOWN, Atom, Ref, Value, constant, text_of


def names_in(*nodes: ast.AST) -> set[str]:
    """Return the names of variables in some nodes."""
    return {inner.id for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name)}


class Guards(Objects):
    """Objects, and the conditions under which they are changed and read.

    Attributes:
        exits: Number of statements so far that may have ended the call early.
        imported: Variables that are imported from another module of the program, each with what it is there.
        rebound: Variables that are set elsewhere than in their own scope.
        trusting: Above 0 where the texts of an undecided test are taken as they are, as for the keys of a dict.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exits = 0
        self.rebound: dict[tuple[Ref, str], None] = {}
        self.imported: dict[tuple[Ref, str], tuple[Ref, str]] = {}
        self.trusting = 0
        self._guards_made = 0
        self._flags: dict[int, dict[tuple[Ref, str], bool]] = {}
        self._questions: dict[ast.AST, Question] = {}
        self._deciding: dict[ast.AST, set[str]] = {}
        self._sources_in: dict[ast.AST, dict[str, set[str]]] = {}
        self._doubted: dict[int, set[tuple[Ref, str]]] = {}
        self._denied: dict[tuple[Place | Atom, str], tuple[int, tuple[int, ...]]] = {}

    def lookup(self, name: str) -> Value:
        """Return the value of a name."""
        raise NotImplementedError

    def guard(self, test: ast.expr | None = None, *, holds: bool = True, is_loop: bool = False) -> None:
        """Go behind a condition, until the caller sets ``guards`` back.

        Args:
            test: Expression that decides.
            holds: Whether it is true here.
            is_loop: Whether the condition is that a round of a loop comes.
        """
        self._guards_made += 1
        self.guards = (*self.guards, -self._guards_made if is_loop else self._guards_made)
        flags = self.flags_in(test, holds=holds) if test is not None else {}
        if flags:
            self._flags[self._guards_made] = flags
        if test is not None and (doubted := self.doubted_by(test)):
            self._doubted[self._guards_made] = doubted

    def doubted_by(self, test: ast.expr) -> set[tuple[Ref, str]]:
        """Return the variables of texts in a test that is not decided, and those that vary with them in a loop.

        The test may choose among texts, so they may be others where it holds, or does not.
        """
        names = self._deciding.get(test)
        if names is None:
            names = self._deciding[test] = {*self.question(test).names}
            made_of, todo = self._made_of(), [*names]
            while todo:
                more = made_of.get(todo.pop(), set()) - names
                names |= more
                todo += more
        varying = set[str]().union(*(one for one in self.frame.varying if names & one))
        found = {name: self.scope_of(name) for name in names | varying}
        return {
            (scope, name)
            for name, scope in found.items()
            if scope is not None and (name in varying or text_of(self.lookup(name)) is not None)
        }

    def question(self, test: ast.expr) -> Question:
        """Return what a condition asks."""
        found = self._questions.get(test)
        if found is None:
            found = self._questions[test] = question_in(test)
        return found

    def _made_of(self) -> dict[str, set[str]]:
        """Return the variables that the function or module sets, with the names in what they are set to."""
        node = self.frame.source.tree if self.frame.code is None else self.frame.code.node
        if node not in self._sources_in:
            found = self._sources_in[node] = dict[str, set[str]]()
            for one in ast.walk(node):
                if isinstance(one, (ast.Assign, ast.AugAssign, ast.NamedExpr)):
                    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                    for name in names_in(*targets):
                        found.setdefault(name, set()).update(names_in(one.value))
        return self._sources_in[node]

    def is_doubted(self, variable: tuple[Ref, str]) -> bool:
        """Return whether a condition around may choose among the texts that a variable may be."""
        return not self.trusting and any(variable in self._doubted.get(guard, ()) for guard in self.guards)

    def scope_of(self, name: str) -> Ref | None:
        """Return the scope of a variable, or None if there is none."""
        scope: Ref | None = self.frame.scope
        while scope is not None and isinstance(found := self.heap.read(scope), ScopeObject):
            if name in found.names:
                return scope
            scope = found.parent
        return None

    def flags_in(self, test: ast.expr, *, holds: bool) -> dict[tuple[Ref, str], bool]:
        """Return the variables of modules that decide a test, as ``if DEBUG and not TRAIN``, with their truth."""
        match test:
            case ast.Name(id=name):
                flag = self._flag_of(name)
                return {} if flag is None else {flag: holds}
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.flags_in(inner, holds=not holds)
            case ast.BoolOp(op=operator, values=parts) if isinstance(operator, ast.And) == holds:
                return {flag: value for part in parts for flag, value in self.flags_in(part, holds=holds).items()}
            case _:
                return {}

    def _flag_of(self, name: str) -> tuple[Ref, str] | None:
        """Return the variable of a module that is set once, and in the module that it is imported from."""
        scope = self.scope_of(name)
        found = self.heap.read(scope) if scope is not None else None
        if scope is None or not isinstance(found, ScopeObject) or found.parent is not None:
            return None
        flag = (scope, name)
        while flag in self.imported:
            flag = self.imported[flag]
        return None if flag in self.rebound else flag

    def decided(self, test: ast.expr) -> bool | None:
        """Return the truth of a test that a condition around has decided, or None."""
        flags = self.flags_in(test, holds=True) if isinstance(test, (ast.Name, ast.UnaryOp)) else {}
        for flag, holds in flags.items():
            for guard in reversed(self.guards):
                known = self._flags.get(abs(guard), {})
                if flag in known:
                    return known[flag] == holds
        return None

    def condition(self, node: ast.AST) -> Condition:
        """Return the ``if`` that has just ended, as a condition of what was set in its branches."""
        place = Place(self.frame.source, node)
        return Condition(self.guards, self.exits, self.frame.number, self.round(), place)

    def asked(self, value: Value, name: str | None) -> Value:
        """Return the answer to the question whether batches have a field, and take note of it if it may be either."""
        found = self.batch_at(value[0]) if self.is_one(value) else None
        if name is not None and found is not None and len(value) == 1 and not found.is_open and found.declared is None:
            field = found.fields.get(name)
            if field is None:
                key = (found.place or value[0], name)
                exits, guards = self._denied.get(key, (self.exits, self.guards))
                self._denied[key] = min(exits, self.exits), tuple(one for one in guards if one in self.guards)
            if field is None or (field.is_sure and not field.is_assumed):
                return constant(field is not None)
        self.may_have(value, name)
        return UNKNOWN

    def is_answered(self, atom: Atom, name: str) -> bool:
        """Return whether the answer that a batch lacks a field may decide whether the run comes to where it is."""
        found = self.batch_at(atom)
        denied = self._denied.get(((found.place if found is not None else None) or atom, name))
        return denied is not None and (self.exits > denied[0] or any(one > 0 for one in {*self.guards} - {*denied[1]}))

    def may_have(self, value: Value, name: str | None) -> None:
        """Take note that the program asks whether batches have a field, so that it may be there; None for any field."""
        for atom in value:
            found = self.batch_at(atom)
            if found is None or not isinstance(atom, Ref):
                continue
            if name is None:
                self.open_batch(atom)
            elif name not in found.fields or not found.fields[name].is_sure:
                before = found.fields.get(name, Field(UNKNOWN))
                self.write_batch(atom).fields[name] = before._replace(is_sure=False, condition=None)
