"""Is a line reached by every run that gets past a branch, so that what only the branch does may be missing there.

A read under a condition may go with the write: the same flag, a flag held elsewhere, an early return. Nothing of that
can be ruled out by looking, so a field that may be missing is reported only where no condition stands in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from mypy.nodes import (
    ARG_NAMED,
    AssertStmt,
    Block,
    CallExpr,
    ConditionalExpr,
    DictExpr,
    DictionaryComprehension,
    Expression,
    ForStmt,
    GeneratorExpr,
    IfStmt,
    IndexExpr,
    ListExpr,
    MatchStmt,
    MemberExpr,
    NameExpr,
    Node,
    OpExpr,
    StrExpr,
    TryStmt,
    TupleExpr,
    Var,
    WhileStmt,
    WithStmt,
)

from typedbatch.mypy.nodes import children, last_name, nodes_in
from typedbatch.mypy.scopes import HANDLERS, LOOPS, Scope, functions_around, position_of

_BY_NAME = ("setdefault", "pop", "set_array_at_key", "setattr", "delattr")

Path = list[Node]


def where_decided(scope: Scope, receiver: Expression, name: str, read: Expression) -> Node | None:
    """The line that a field depends on, which may be missing at a read; None where the read may depend on the same."""
    here = _path(scope, read)
    found: Node | None = None
    for event, owner in _events(scope, receiver, name):
        path = _path(scope, event)
        if event is read or functions_around(tuple(path)) != functions_around(tuple(here)):
            continue
        if in_one_loop(scope, owner, path, here):
            return None
        choice = _choice(path, here)
        if choice is None or position_of(choice) > position_of(read):
            continue
        if not _always_follows(scope, choice, path, here, name):
            return None
        if found is None or position_of(event) > position_of(found):
            found = event
    return found


def in_turns(scope: Scope, receiver: Expression, name: str, read: Expression) -> bool:
    """May the field have been made in a round of a loop, though it is not there when mypy comes to the read first."""
    here = _path(scope, read)
    for event, owner in _events(scope, receiver, name):
        path = _path(scope, event)
        if in_one_loop(scope, owner, path, here):
            return True
        choice = _choice(path, here)
        apart = choice is not None and not isinstance(choice, Block) and position_of(choice) < position_of(read)
        if apart and any(isinstance(node, LOOPS) and node in here for node in path):
            return True  # what is not reached in the first round may be in the second
    return False


def _events(scope: Scope, receiver: Expression, name: str) -> Iterator[tuple[Node, object]]:
    """Where a field of that name is made or removed, or the batch is bound to another one; and which variable that is.

    What happens to the batches that this one was made from may be in it, too.
    """
    variable = receiver.node if isinstance(receiver, NameExpr) else None
    variables = carrying(scope, receiver)
    for node in scope.nodes:
        if isinstance(node, NameExpr):
            if variable is not None and node.node is variable and id(node) in scope.bindings:
                yield node, variable
        elif isinstance(node, (MemberExpr, IndexExpr)):
            owner = node.expr if isinstance(node, MemberExpr) else node.base
            own = owner.node if isinstance(owner, NameExpr) else variable
            if _names(node, name) and _is_changed(scope, node) and (variable is None or own in variables):
                yield node, own
        elif isinstance(node, CallExpr):
            by_name = last_name(node.callee) in _BY_NAME
            named = name in node.arg_names or (by_name and any(_is_text(argument, name) for argument in node.args))
            if named and not _makes_another(scope, node, variables):
                yield node, variable
        elif any(_is_text(key, name) for key, _ in node.items) and not _makes_another(scope, node, variables):
            yield node, variable


def carrying(scope: Scope, receiver: Expression) -> set[object]:
    """The variables whose batches an expression has the fields of: ``b`` and ``c``, where ``b = c.copy()``."""
    found: set[object] = set()
    todo = [receiver]
    while todo:
        node = todo.pop()
        if isinstance(node, NameExpr):
            if node.node not in found:
                found.add(node.node)
                todo.extend(b.value for b in scope.bindings_of(node.node) if b.value is not None)
        elif isinstance(node, CallExpr):
            todo.extend(arg for arg, kind in zip(node.args, node.arg_kinds, strict=True) if kind is not ARG_NAMED)
            todo.extend([node.callee.expr] if isinstance(node.callee, MemberExpr) else [])
        elif isinstance(node, (IndexExpr, MemberExpr)):
            todo.append(node.base if isinstance(node, IndexExpr) else node.expr)
        elif isinstance(node, (ConditionalExpr, OpExpr, ListExpr, TupleExpr)):
            todo.extend(children(node))
    return found


def _names(node: MemberExpr | IndexExpr, name: str) -> bool:
    return node.name == name if isinstance(node, MemberExpr) else _is_text(node.index, name)


def _is_text(node: object, text: str) -> bool:
    return isinstance(node, StrExpr) and node.value == text


def _is_changed(scope: Scope, node: Expression) -> bool:
    return id(node) in scope.bindings or id(node) in scope.deleted


def _makes_another(scope: Scope, node: CallExpr | DictExpr, variables: set[object]) -> bool:
    """Is this the value of another local name, or a call of its method."""
    if isinstance(node, CallExpr) and isinstance(node.callee, MemberExpr):
        owner = node.callee.expr
        if isinstance(owner, NameExpr) and isinstance(owner.node, Var) and owner.node not in variables:
            return True
    targets = scope.values.get(id(node), [])
    return bool(targets) and all(isinstance(one, NameExpr) and one.node not in variables for one in targets)


def _path(scope: Scope, node: Node) -> Path:
    """The nodes around one, and itself; but for ``with``, which runs its block in any case, unless it suppresses."""
    around = [*scope.around(node), node]
    open_ = [one for one in around if isinstance(one, WithStmt) and not _suppresses(one)]
    bodies = [one.body for one in open_]
    return [one for one in around if not (one in open_ or one in bodies) or one is node]


def _suppresses(statement: WithStmt) -> bool:
    return any(isinstance(call, CallExpr) and last_name(call.callee) in HANDLERS for call in statement.expr)


def in_one_loop(scope: Scope, variable: object, one: Path, other: Path) -> bool:
    """Are both in a loop that does not make the batch of a variable anew in each round."""
    loops = [node for node in one if isinstance(node, LOOPS) and node in other]
    made = [_path(scope, binding.target) for binding in scope.bindings_of(variable)]
    return any(not any(_is_made_in(loop, path, other) for path in made) for loop in loops)


def _is_made_in(loop: Node, path: Path, here: Path) -> bool:
    """In each round that comes to a read: as a loop's own variable, or in a body under no condition of its own."""
    if loop not in path:
        return False
    inner = path[path.index(loop) + 1 :]
    return not any(isinstance(node, Block) and node not in here for node in inner[1:])


def _choice(path: Path, here: Path) -> Node | None:
    """What decides whether an event happens, on the way from where it meets the read; None if nothing does."""
    shared = [node for node in path if node in here]
    rest = path[len(shared) :]
    if any(isinstance(node, (Block, ConditionalExpr, GeneratorExpr, DictionaryComprehension)) for node in rest):
        return rest[0]
    return None


def _always_follows(scope: Scope, choice: Node, path: Path, here: Path, name: str) -> bool:
    """Does every run that gets past a choice come to the read, and is the field missing on a way that can be taken."""
    if any(isinstance(node, LOOPS) for node in path[path.index(choice) :]):
        return False  # a loop that has nothing to do leaves nothing to read, for all that is seen
    meeting = path[path.index(choice) - 1]
    if isinstance(meeting, (IfStmt, TryStmt, MatchStmt)) or _is_conditional(here[here.index(meeting) + 1 :]):
        return False
    if _gives_in_every_arm(choice, name):
        return False
    tested = _words_of_tests(choice)
    for node, around in scope.exits:
        if functions_around(around) != functions_around(tuple(here)):
            continue
        after = position_of(choice) < position_of(node) and choice not in around
        between = after and position_of(node) < position_of(here[-1]) and node not in here
        guard = position_of(node) < position_of(choice) and tested & _words_of_tests(*around, node)
        if between or guard:
            return False
    return True


def _is_conditional(path: Path) -> bool:
    """Is the last node of a path evaluated on some ways only, once the first is."""
    for outer, inner in pairwise(path):
        if isinstance(outer, (IfStmt, WhileStmt)):
            conditional = inner is not outer.expr[0] if isinstance(outer, IfStmt) else inner is not outer.expr
        elif isinstance(outer, ForStmt):
            conditional = inner is not outer.expr
        elif isinstance(outer, MatchStmt):
            conditional = inner is not outer.subject
        elif isinstance(outer, ConditionalExpr):
            conditional = inner is not outer.cond
        elif isinstance(outer, OpExpr) and outer.op in ("and", "or"):
            conditional = inner is outer.right
        elif isinstance(outer, (GeneratorExpr, DictionaryComprehension)):
            conditional = inner is not outer.sequences[0]
        else:
            conditional = isinstance(outer, TryStmt) and inner is not outer.body
        if conditional:
            return True
    return False


def _gives_in_every_arm(choice: Node, name: str) -> bool:
    """Do two arms or more all make the field: what is missing is an ``else``, which may be so on purpose."""
    arms = _arms(choice)
    return len(arms) > 1 and all(_mentions(arm, name) for arm in arms)


def _arms(choice: Node) -> list[Block]:
    if isinstance(choice, MatchStmt):
        return choice.bodies
    if not isinstance(choice, IfStmt):
        return []
    if choice.else_body is None:
        return list(choice.body)
    inner = choice.else_body.body
    return [
        *choice.body,
        *(_arms(inner[0]) if len(inner) == 1 and isinstance(inner[0], IfStmt) else [choice.else_body]),
    ]


def _mentions(arm: Block, name: str) -> bool:
    for node in nodes_in(arm):
        if isinstance(node, (MemberExpr, IndexExpr)) and _names(node, name):
            return True
        if isinstance(node, CallExpr) and name in node.arg_names:
            return True
        if _is_text(node, name):
            return True
    return False


def _words_of_tests(*around: Node) -> set[str]:
    """The names in what the given statements ask."""
    tests: list[Node] = []
    for node in around:
        if isinstance(node, IfStmt):
            tests.extend(node.expr)
        elif isinstance(node, (WhileStmt, AssertStmt)):
            tests.append(node.expr)
        elif isinstance(node, MatchStmt):
            tests.append(node.subject)
        elif isinstance(node, ConditionalExpr):
            tests.append(node.cond)
    inner = [one for test in tests for one in nodes_in(test)]
    return {last_name(one) for one in inner} - {"", "self"}
