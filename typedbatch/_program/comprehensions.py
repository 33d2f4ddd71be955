"""Comprehensions, whose elements are followed one by one where their number is known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from typedbatch._program import array_members
from typedbatch._program.calls import Calls
from typedbatch._program.guards import names_in
from typedbatch._program.heap import Key
from typedbatch._program.values import UNKNOWN, Value, literal_of, union

_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Comprehensions(Calls):
    """A run that evaluates comprehensions."""

    def keeps(self, *nodes: ast.expr | None) -> None:
        """Take note that expressions are kept, so that generators and coroutines among them run later."""
        self.later.update(node for node in nodes if isinstance(node, (ast.Call, ast.GeneratorExp)))

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        """Return the list, set or iterator of a comprehension."""
        self.keeps(node.elt)
        is_known, found = self._elements(node, lambda: (self.evaluate(node.elt),))
        items = [item for (item,) in found]
        return self.list_of(items if is_known else None, union(*items)) if self.is_alive() else UNKNOWN

    def dict_comprehension(self, node: ast.DictComp) -> Value:
        """Return the dict of a comprehension."""
        is_known, found = self._elements(node, lambda: (self.evaluate(node.key), self.evaluate(node.value)))
        items: dict[Key, Value] = {}
        rest: Value = ()
        for key, value in found:
            name = literal_of(key)
            if name is None:
                is_known, rest = False, union(rest, value)
            else:
                items[name.value] = value
        return self.dict_of(items, is_exact=is_known, rest=rest) if self.is_alive() else UNKNOWN

    def _elements(
        self, node: _Comprehension, element: Callable[[], tuple[Value, ...]]
    ) -> tuple[bool, list[tuple[Value, ...]]]:
        """Return whether the elements of a comprehension are known one by one, and their values."""
        is_later = isinstance(node, ast.GeneratorExp) and node in self.later
        self.quiet += is_later
        scope, self.frame.scope = self.frame.scope, self.scope(self.frame.scope)
        around, self.frame.around = self.frame.around, self.frame.around or scope
        found: list[tuple[Value, ...]] = []
        is_known = self._generate(node.generators, element, found)
        self.frame.scope, self.frame.around = scope, around
        self.quiet -= is_later
        return is_known, found

    def _generate(
        self,
        generators: Sequence[ast.comprehension],
        element: Callable[[], tuple[Value, ...]],
        found: list[tuple[Value, ...]],
    ) -> bool:
        """Go through the generators of a comprehension, and return whether all elements are known one by one."""
        if not generators:
            found.append(element())
            return True
        first, guards = generators[0], self.guards
        iterated = self.evaluate(first.iter)
        items, other = self.iterate(iterated, first.iter)
        items = array_members.rounds_of(self, iterated) if items is None else items
        self.frame.varying.append(names_in(first.target))
        rounds = items if items is not None and len(items) <= array_members.MOST_ROUNDS else None
        is_known = rounds is not None
        for item in rounds if rounds is not None else (union(other, *(items or ())),):
            mark = self.heap.begin()
            if rounds is None:
                self.guard(is_loop=True)
            self.assign(first.target, item)
            may_skip, skips = self._filtered(first.ifs)
            if may_skip:
                is_known = False
            if not skips:
                is_known = self._generate(generators[1:], element, found) and is_known
            changes = self.heap.end(mark)
            if rounds is None and changes is not None:
                self.many.update(ref for ref in changes if self.heap.read(ref) is None)
            if may_skip or rounds is None or changes is None:
                changes = self.heap.join({}, changes)
            self.heap.apply(changes)
            self.guards = guards
        self.frame.varying.pop()
        return is_known

    def _filtered(self, tests: Sequence[ast.expr]) -> tuple[bool, bool]:
        """Return whether the conditions of a comprehension may leave an element out, and whether they do."""
        may_skip = False
        for test in tests:
            truth = self.truth(self.evaluate(test))
            self.narrow(test, holds=True)
            if truth is False:
                return may_skip, True
            if truth is None:
                self.guard(test)
            may_skip = may_skip or truth is None
        return may_skip, False

    # What is in expressions and statements

    def truth(self, value: Value) -> bool | None:
        """Return whether a value is true, or None if it may be either."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target."""
        raise NotImplementedError

    def narrow(self, test: ast.expr, *, holds: bool) -> None:
        """Leave out what a name cannot be, as a test holds, or does not."""
        raise NotImplementedError
