"""Statements: assignments, conditions, loops, contexts, exceptions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from typedbatch._program import array_members, operations
from typedbatch._program.classes import declared_fields
from typedbatch._program.contexts import Contexts, handled
from typedbatch._program.frames import Attempt, Call, Loop
from typedbatch._program.guards import names_in
from typedbatch._program.heap import Changes, DictObject, InstanceObject, ListObject, ScopeObject
from typedbatch._program.shipped import shipped
from typedbatch._program.swapped import check_results
from typedbatch._program.values import (
    ARRAY,
    NONE,
    UNKNOWN,
    Atom,
    External,
    Literal,
    Made,
    Member,
    Ref,
    Result,
    Value,
    is_none,
    literal_of,
    text_of,
    union,
)  # fmt: skip
from typedbatch.batch import Batch

_ROUNDS: Final = 3
"""Rounds of a loop. In all but the last, what a condition guards is not reported."""


class Statements(Contexts):
    """A run that goes through statements."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._statements: dict[type[ast.stmt], Callable[[Any], None]] = {
            ast.AnnAssign: self._annotated_assignment,
            ast.Assert: self._assert,
            ast.Assign: self._assignment,
            ast.AsyncFor: self._for,
            ast.AsyncWith: self._with,
            ast.AugAssign: self._augmented,
            ast.Break: self._break,
            ast.Continue: self._continue,
            ast.Delete: self._delete,
            ast.Expr: lambda node: self._ignore(self.evaluate(node.value)),
            ast.For: self._for,
            ast.Global: self._global,
            ast.If: self._if_statement,
            ast.Match: self._match,
            ast.Nonlocal: self._nonlocal,
            ast.Raise: self._raise,
            ast.Return: self._return,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.While: self._while,
            ast.With: self._with,
        }

    def run_block(self, body: list[ast.stmt]) -> None:
        """Run statements, until the branch is left."""
        for statement in body:
            if not self.is_alive():
                return
            self.step()
            run = self._statements.get(type(statement))
            if run is not None:
                run(statement)

    @staticmethod
    def _ignore(value: Value) -> None:
        pass

    # Assignments

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target."""
        if not self.is_alive():
            return
        match target:
            case ast.Name(id=name):
                self.set_name(name, value)
            case ast.Attribute(value=owner, attr=name):
                found = self.evaluate(owner)
                if self.is_alive():
                    self.set_attribute(found, name, value, target)
            case ast.Subscript(value=owner, slice=index):
                found = self.evaluate(owner)
                is_dict = all(isinstance(self.object_at(atom), DictObject) for atom in found)
                self.trusting += is_dict
                key = self.evaluate(index)
                self.trusting -= is_dict
                if self.is_alive():
                    self.set_item(found, key, value, index, target)
            case ast.Starred(value=inner):
                self.assign(inner, self.list_of(None, value))
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value)
            case _:
                pass

    def set_name(self, name: str, value: Value) -> None:
        """Set a variable."""
        scope = self.heap.read(self.frame.scope)
        assert isinstance(scope, ScopeObject)
        outer = scope.elsewhere.get(name)
        if outer is None and scope.parent is None and name in scope.names:
            self.rebound[self.frame.scope, name] = None
        if outer is not None:
            self.rebound[outer, name] = None
        target = outer or self.frame.scope
        if (target, name) in self.rebound or (scope.parent is None and any(map(self.is_loose, value))):
            self.loose.setdefault(target, {})[name] = None
        self.write_scope(target).names[name] = value

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        is_starred = any(isinstance(target, ast.Starred) for target in targets)
        every = [self.iterate((atom,), targets[0]) for atom in value]
        known = [items for items, _ in every if items is not None and len(items) == len(targets)]
        if not is_starred and known and len(known) == len(every):
            for at, target in enumerate(targets):
                self.assign(target, union(*(items[at] for items in known)))
            return
        element = union(*(union(other, *(items or ())) for items, other in every))
        for target in targets:
            self.assign(target, element or UNKNOWN)

    def _assignment(self, node: ast.Assign) -> None:
        self.keeps(node.value)
        value = self.evaluate(node.value)
        for target in node.targets:
            if isinstance(target, ast.Tuple) and self.is_alive():
                check_results(self, target, node.value, self.called.get(node.value, ()))
            self.assign(target, value)

    def _annotated_assignment(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.keeps(node.value)
            value = self.evaluate(node.value)
            if self.is_alive():
                self.need_annotated(node.annotation, value, node.value)
                value = self.check_assigned(node, value)
            self.assign(node.target, self.annotated(node.annotation) if value == UNKNOWN else value)

    def _augmented(self, node: ast.AugAssign) -> None:
        left, right = self.evaluate(node.target), self.evaluate(node.value)
        if not self.is_alive() or any(self.is_batch(atom) for atom in left):
            return
        is_container = [isinstance(self.object_at(atom), (DictObject, ListObject)) for atom in left]
        if any(is_container):  # Changed in place, wherever else it is held.
            members = tuple(
                Member(atom, "extend" if isinstance(self.object_at(atom), ListObject) else "update")
                for atom, changes in zip(left, is_container, strict=True)
                if changes
            )
            self.call(members, Call([right], node=node))
        else:
            made = operations.assigned_in_place(self, left, right, operations.SIGNS[type(node.op)], node)
            if made is None:
                self.operated(left, right, node.op, node)
            if made is not None or left not in (ARRAY, UNKNOWN):
                self.assign(node.target, made or UNKNOWN)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                self.delete_attribute(self.evaluate(target.value), target.attr, target)
            elif isinstance(target, ast.Subscript):
                value, index = self.evaluate(target.value), self.evaluate(target.slice)
                self.are_layers_changed |= any(isinstance(atom, Made) for atom in value)
                if self.is_alive():
                    self._delete_item(value, index, target)

    def _delete_item(self, value: Value, index: Value, node: ast.Subscript) -> None:
        name = text_of(index)
        for atom in value:
            found = self.object_at(atom)
            if not isinstance(atom, Ref):
                continue
            if isinstance(found, (DictObject, ListObject)):
                self.call((Member(atom, "pop"),), Call([index], node=node))
            elif self.is_batch(atom) and name is not None:
                self.delete_attribute(value, name, node)
                return
            elif self.is_batch(atom):
                self.call((Member(atom, "popitem"),), Call(node=node))

    def _global(self, node: ast.Global) -> None:
        top = self.scope_of_module(self.frame.source)
        if top is not None:
            self.write_scope(self.frame.scope).elsewhere.update(dict.fromkeys(node.names, top))

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            scope = self.heap.read(self.frame.scope)
            outer = scope.parent if isinstance(scope, ScopeObject) else None
            while outer is not None:
                found = self.heap.read(outer)
                if not isinstance(found, ScopeObject):
                    break
                if name in found.names:
                    self.write_scope(self.frame.scope).elsewhere[name] = outer
                    break
                outer = found.parent

    # Conditions

    def narrow(self, test: ast.expr, *, holds: bool) -> None:
        """Leave out what a name or attribute cannot be, as a test holds, or does not."""
        if not self.is_alive():
            return
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                self.narrow(inner, holds=not holds)
            case ast.BoolOp(op=operator, values=parts) if isinstance(operator, ast.And) == holds:
                for part in parts:
                    self.narrow(part, holds=holds)
            case ast.Compare(left=left, ops=[operator], comparators=[ast.Constant(value=None)]):
                if isinstance(operator, (ast.Is, ast.Eq)) == holds:
                    self._keep(left, lambda atom: atom in UNKNOWN or isinstance(atom, Literal))
                else:
                    self._keep(left, lambda atom: not is_none(atom))
            case ast.Name() | ast.Attribute() if holds:
                self._keep(test, lambda atom: not (isinstance(atom, Literal) and not atom.value))
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, classes]):
                self._narrow_instance(value, classes, holds=holds)
            case _:
                pass

    def _narrow_instance(self, value: ast.expr, classes: ast.expr, *, holds: bool) -> None:
        with self.silently():
            found = self.evaluate(classes)
        is_plain = [isinstance(atom, External) and shipped(atom.name) is Batch for atom in found]
        is_batch = any(is_plain) or any(declared_fields(atom) is not None for atom in found)
        if not holds:
            if is_plain == [True]:
                self._keep(value, lambda atom: not self.is_batch(atom))
        elif is_batch:
            self._keep(value, lambda atom: atom in UNKNOWN or isinstance(atom, Result) or self.is_batch(atom))
        elif len(found) == 1:
            self._keep(value, lambda atom: not self.is_batch(atom))

    def _keep(self, target: ast.expr, keeps: Callable[[Atom], bool]) -> None:
        """Keep some atoms of a name, or of an attribute of one."""
        if isinstance(target, ast.Name):
            value = self.lookup(target.id)
            kept = tuple(atom for atom in value if keeps(atom)) or UNKNOWN
            if kept != value:
                self.set_name(target.id, kept)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = self.lookup(target.value.id)
            found = self.object_at(owner[0]) if len(owner) == 1 else None
            if isinstance(found, InstanceObject) and isinstance(owner[0], Ref) and target.attr in found.attributes:
                kept = tuple(atom for atom in found.attributes[target.attr] if keeps(atom)) or UNKNOWN
                if kept != found.attributes[target.attr]:
                    self._set_of_instance(owner[0], target.attr, kept, is_sure=True)

    def _assert(self, node: ast.Assert) -> None:
        truth = self.truth(self.evaluate(node.test))
        if truth is None:
            self.forget_asked(node.test)
        self.narrow(node.test, holds=True)
        self.note_raised()
        self.may_raise()
        if truth is False:
            self.leave()

    def _if_statement(self, node: ast.If, *, is_in_chain: bool = False) -> None:
        truth = self.tested(node.test)
        if not self.is_alive():
            return
        if truth is not None:
            self.run_block(node.body if truth else node.orelse)
            return
        question = self.question(node.test)
        guards, ends, dispatches, raises = self.guards, [], question.is_of_class, self.raises
        self.frame.dispatches += dispatches
        is_chain = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        for holds, body in ((True, node.body), (False, node.orelse)):
            mark = self.heap.begin()
            self.guard(node.test, holds=holds)
            self.narrow(node.test, holds=holds)
            if not holds and is_chain and isinstance(node.orelse[0], ast.If):
                self.step()
                self._if_statement(node.orelse[0], is_in_chain=True)
            else:
                self.run_block(body)
            self.guards = guards
            ends.append(self.heap.end(mark))
        self.frame.dispatches -= dispatches
        # A chain without else may name all cases that there are.
        decides = not is_chain and not (is_in_chain and not node.orelse) and not question.is_of_fields
        condition = self.condition(node) if decides and (None in ends or self.raises == raises) else None
        self.heap.apply(self.heap.join(ends[0], ends[1], condition))
        if not self.is_alive() or None not in ends:
            return
        if self.flags_in(node.test, holds=ends[0] is not None) or self.doubted_by(node.test):
            self.guard(node.test, holds=ends[0] is not None)  # For what follows, until the block ends.

    def _match(self, node: ast.Match) -> None:
        subject = self.evaluate(node.subject)
        if not self.is_alive():
            return
        operations.take_question(self, subject)
        guards, found, raises = self.guards, literal_of(subject), self.raises
        joined: Changes | None = None
        is_total, was_true = False, False
        is_of_flags = any(isinstance(case.pattern, ast.MatchSingleton) for case in node.cases)
        for case in node.cases:
            pattern = case.pattern
            is_true = isinstance(pattern, ast.MatchSingleton) and pattern.value is True
            if is_true and self.decided(node.subject) is False:
                continue
            is_total = is_total or (isinstance(pattern, ast.MatchAs) and pattern.pattern is None and not case.guard)
            fits = _fits(pattern, found) if case.guard is None else None
            if fits is False:
                continue
            is_total = is_total or fits is True
            mark = self.heap.begin()
            was_true = was_true or is_true
            # As a flag only beside a case of True; but it may choose among texts by any case.
            self.guard(node.subject if was_true else ast.Tuple([node.subject]), holds=is_true)
            self._capture(pattern, subject)
            if case.guard is None or self.tested(case.guard) is not False:
                self.run_block(case.body)
            self.guards = guards
            condition = self.condition(node) if self.raises == raises and not is_of_flags else None
            joined = self.heap.join(joined, self.heap.end(mark), condition)
            if fits:
                break
        # Cases without a last one for all else may be all that there are.
        self.heap.apply(joined if is_total else self.heap.join({}, joined))

    def _capture(self, pattern: ast.pattern, subject: Value) -> None:
        for inner in ast.walk(pattern):
            name = getattr(inner, "name", None) or getattr(inner, "rest", None)
            if isinstance(name, str):
                self.set_name(name, subject if inner is pattern else UNKNOWN)
        if not isinstance(pattern, (ast.MatchValue, ast.MatchAs, ast.MatchOr, ast.MatchSingleton)):
            self.escape(subject)

    # Loops

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterated = self.evaluate(node.iter)
        items, element = self.iterate(iterated, node.iter)
        if not self.is_alive():
            return
        if items is not None and len(items) <= array_members.MOST_ROUNDS:
            self._loop(node, [partial(self.assign, node.target, item) for item in items], is_known=True)
            later, element = self.iterate(iterated, node.iter)
            if self.is_alive() and later != items:  # It has grown meanwhile.
                self._loop(node, [partial(self.assign, node.target, element)] * self._rounds())
        else:
            any_item = union(element, *(items or ()))
            begins = [partial(self.assign, node.target, any_item)] * self._rounds()
            self._loop(node, begins, is_entered=bool(items) or array_members.is_never_empty(self, iterated))

    def _while(self, node: ast.While) -> None:
        def begin() -> None:
            if self.tested(node.test) is False:
                self._break(node)
            self.narrow(node.test, holds=True)

        self._loop(node, [begin] * self._rounds())

    def _rounds(self) -> int:
        """Return the number of rounds of a loop, which are fewer within others, as these repeat it."""
        within = sum(guard < 0 for guard in self.guards)
        return max(1, _ROUNDS - max(0, within - 1))

    def _loop(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        rounds: Sequence[Callable[[], None]],
        *,
        is_known: bool = False,
        is_entered: bool = False,
    ) -> None:
        """Run the rounds of a loop. Unless their number is known, each may be the last, or there may be none.

        Args:
            node: The loop.
            rounds: Functions that begin each round.
            is_known: Whether the number of rounds is known.
            is_entered: Whether there is a round.
        """
        guards, loop, moving = self.guards, Loop(self.heap.begin()), dict[str, Value]()
        self.frame.loops.append(loop)
        self.frame.varying.append(set() if isinstance(node, ast.While) else names_in(node.target))
        for number, begin in enumerate(rounds, 1):
            if not self.is_alive():
                break
            trial, loop.round_mark = self.trial, self.heap.begin()
            loop.continues = []
            self.guard(is_loop=True)
            if is_known or (is_entered and number == 1):
                self.certain.add(self.guards[-1])
            if not is_known and number < len(rounds) and self.trial is None:
                self.trial = (len(self.guards), self.exits)
            begin()
            if self.is_alive():
                self.run_block(node.body)
            self.trial, self.guards = trial, guards
            if not is_known and number == len(rounds):
                moving = self._moving(loop.round_mark)
            changes = self.heap.end(loop.round_mark)
            for other in loop.continues:
                changes = self.heap.join(changes, other)
            self.heap.apply(changes if is_known else self.heap.join({}, changes))
        self.frame.loops.pop()
        self.frame.varying.pop()
        self.run_block(node.orelse)
        changes = self.heap.end(loop.mark)
        for other in loop.breaks:
            changes = self.heap.join(changes, other)
        is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
        # Only objects that are there before the loop; those that a round makes are followed already.
        further = {name: tuple(atom for atom in value if self.object_at(atom)) for name, value in moving.items()}
        self.heap.apply({} if changes is None and not is_known and not is_endless else changes)
        for name, value in further.items():
            if value and self.is_alive():
                self.escape(value)
                self.set_name(name, union(self.lookup(name), UNKNOWN))

    def _moving(self, mark: int) -> dict[str, Value]:
        """Return what variables have become in a round of a loop that they were not before, as ``node = node.next``."""
        scope, changes = self.frame.scope, self.heap.since(mark)
        after, before = changes.get(scope), self.heap.before(scope)
        if not isinstance(after, ScopeObject) or not isinstance(before, ScopeObject):
            return {}
        return {
            name: tuple(atom for atom in value if isinstance(atom, Ref) and atom not in before.names.get(name, ()))
            for name, value in after.names.items()
            if value is not before.names.get(name)
        }

    def _break(self, node: ast.Break | ast.While) -> None:
        if self.frame.loops:
            loop = self.frame.loops[-1]
            loop.breaks.append(self.heap.since(loop.mark))
        self.leave()

    def _continue(self, node: ast.Continue) -> None:
        if self.frame.loops:
            loop = self.frame.loops[-1]
            loop.continues.append(self.heap.since(loop.round_mark))
        self.leave()

    # Exits

    def _return(self, node: ast.Return) -> None:
        self.keeps(node.value)
        value = self.evaluate(node.value) if node.value is not None else NONE
        if self.is_alive():
            code = self.frame.code
            if code is not None and code.returns is not None and node.value is not None and not code.is_generator:
                self.need_annotated(code.returns, value, node.value)
                value = self.checked_result(code.returns, value, node.value)
            self.frame.returns.append((value, self.heap.since(self.frame.mark)))
        self.leave()

    def _raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self.evaluate(node.exc)
        self.note_raised()
        self.raises += 1
        self.leave()

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        guards, before = self.guards, self._exits_so_far()
        found = handled([handler.type for handler in node.handlers])
        attempt = Attempt(self.heap.begin(), found.missing)
        self._handle(found, 1)
        self.attempts.append(attempt)
        for statement in node.body:
            if self.is_alive():
                self.run_block([statement])
                self.note_raised()
        self.attempts.pop()
        passing = Attempt(attempt.mark)
        if node.finalbody:
            self.attempts.append(passing)
        self.run_block(node.orelse)  # It is not run if what the body asks for is not there.
        self._handle(found, -1)
        ended = self.heap.end(attempt.mark)
        at_raise: Changes | None = {}
        for raised in attempt.raised:
            at_raise = self.heap.join(at_raise, raised)
        for handler in node.handlers:
            mark = self.heap.begin()
            self.heap.apply(at_raise)
            self.guard()
            if handler.name is not None:
                self.set_name(handler.name, UNKNOWN)
            self.run_block(handler.body)
            self.guards = guards
            ended = self.heap.join(ended, self.heap.end(mark))
        if node.finalbody:
            self.attempts.pop()
            self._finish_exits(before, partial(self.run_block, node.finalbody))
            self._run_finally(node, ended, at_raise, passing.raised)
        else:
            self.heap.apply(ended)

    def _run_finally(
        self, node: ast.Try | ast.TryStar, ended: Changes | None, at_raise: Changes | None, raised: list[Changes]
    ) -> None:
        """Run the ``finally`` of a ``try``, after its end and with an exception that passes through it."""
        passing = None if node.handlers else at_raise
        for changes in raised:
            passing = self.heap.join(passing, changes)
        if passing is not None and self.attempts:
            self._pass_on(passing, node.finalbody)
        self.heap.apply(at_raise if ended is None else ended)
        self.run_block(node.finalbody)
        if ended is None:
            self.heap.is_alive = False

    def _pass_on(self, at_raise: Changes, body: list[ast.stmt]) -> None:
        """Note what the ``try`` around finds if an exception passes through the ``finally`` of this one."""
        mark = self.heap.begin()
        with self.silently():
            self.heap.apply(at_raise)
            self.run_block(body)
            self.note_raised()
        self.heap.end(mark)


def _fits(pattern: ast.pattern, found: Literal | None) -> bool | None:
    """Return whether a constant fits a pattern; None if that is not known."""
    match pattern:
        case ast.MatchValue(value=ast.Constant(value=asked)) if found is not None:
            return bool(asked == found.value)
        case ast.MatchOr(patterns=patterns):
            each = [_fits(one, found) for one in patterns]
            return True if True in each else None if None in each else False
        case _:
            return None
