"""Arguments and results whose names cross: ``loss(adv, returns)`` of ``def loss(returns, adv)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from mypy.nodes import (
    CallExpr,
    Expression,
    FuncDef,
    IndexExpr,
    MemberExpr,
    NameExpr,
    Node,
    RefExpr,
    ReturnStmt,
    StrExpr,
    TupleExpr,
)

from typedbatch.mypy.batches.summaries import called
from typedbatch.mypy.messages import SWAPPED
from typedbatch.mypy.nodes import last_name, nodes_in

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

_MEANS_IT: Final = re.compile(
    r"swap|revers|transpos|mirror|invers|invert|flip|rotat|turn|cross|sym|exchange|other|backward|grad"
)
_EITHER_WAY: Final = re.compile(r"assert|close|equal|same|approx|compar|check|mse|mae|l1_|cosine|distance|symmetric")
"""Parts of the names of functions that compare, in which the order of the two makes no difference."""
_UNCHANGED: Final = frozenset({"detach", "float", "clone", "cpu", "cuda", "numpy", "copy", "contiguous", "to", "item"})
_RETURNED: Final = {"typedbatch.buffers.returns.compute_episodic_return": ("returns", "adv")}
"""Names of the results of functions whose bodies are not available."""


class _Given(NamedTuple):
    """An argument with the name of the parameter that takes it, and the name that it has itself."""

    parameter: str
    name: str
    node: Expression


def check_arguments(reading: Reading, node: CallExpr, pairs: Sequence[tuple[Expression, str | None, object]]) -> None:
    """Report two arguments of a call, each of which has the name of the other's parameter.

    Args:
        reading: What reads the caller.
        node: The call.
        pairs: Its arguments with the names of the parameters.
    """
    given = [_Given(name, own, argument) for argument, name, _ in pairs if name and (own := _name_of(argument))]
    for one, other in combinations(given, 2):
        if _cross(one.parameter, one.name, other.parameter, other.name) and not _is_meant(reading, node):
            text = f'"{one.parameter}" is given {one.name}, and "{other.parameter}" {other.name}; are they swapped?'
            reading.report.fail(text, one.node, SWAPPED)
            return


def check_results(reading: Reading, target: Expression, source: Expression) -> None:
    """Report a name for one result of a function that is the name of another one.

    Args:
        reading: What reads the caller.
        target: What the results are assigned to.
        source: The call.
    """
    if not isinstance(target, TupleExpr) or not isinstance(source, CallExpr):
        return
    returned = _returned(source)
    names = [_name_of(item) for item in target.items]
    if len(returned) != len(names):
        return
    for (one, first), (other, second) in combinations(zip(names, returned, strict=True), 2):
        if one and other and _cross(first, one, second, other) and not _is_meant(reading, source):
            text = f"{one} is assigned the result {first}, and {other} the result {second}; are they swapped?"
            reading.report.fail(text, target, SWAPPED)
            return


def _returned(node: CallExpr) -> Sequence[str]:
    """Return the names of the results that a function always returns in this order."""
    if isinstance(node.callee, RefExpr) and node.callee.fullname in _RETURNED:
        return _RETURNED[node.callee.fullname]
    function = called(node)
    if function is None or not getattr(function, "arguments", ()):  # mypy's cache has no bodies
        return ()
    values = [inner.expr for inner in nodes_in(function.body) if isinstance(inner, ReturnStmt)]
    tuples = {tuple(map(_name_of, value.items)) for value in values if isinstance(value, TupleExpr)}
    return tuples.pop() if len(tuples) == 1 and all(isinstance(value, TupleExpr) for value in values) else ()


def _name_of(node: Expression) -> str:
    """Return the name that a value goes by; empty for what has none."""
    if isinstance(node, CallExpr) and isinstance(node.callee, MemberExpr) and node.callee.name in _UNCHANGED:
        return _name_of(node.callee.expr)
    if isinstance(node, (NameExpr, MemberExpr)):
        return node.name
    return node.index.value if isinstance(node, IndexExpr) and isinstance(node.index, StrExpr) else ""


def _cross(place: str, name: str, other_place: str, other_name: str) -> bool:
    """Do two names stand in each other's places."""
    if min(map(len, (place, name, other_place, other_name))) < 2 or place == other_place or name == other_name:
        return False
    if name == other_place and other_name == place:
        return True
    here, there, words, others = map(_words, (place, other_place, name, other_name))
    crossed = there <= words and here <= others and words - there == others - here
    return crossed and bool(words - there) and not here <= words and not there <= others


def _words(name: str) -> frozenset[str]:
    return frozenset(word for word in re.split(r"_+|(?<=[a-z])(?=[A-Z])", name.strip("_").lower()) if word)


def _is_meant(reading: Reading, node: CallExpr) -> bool:
    """Is the other order certain to be meant: in a function that swaps, in a recursion, or beside the usual order."""
    root = reading.root
    if _EITHER_WAY.search(last_name(node.callee).lower()):
        return True
    if isinstance(root, FuncDef):
        callee = node.callee.node if isinstance(node.callee, RefExpr) else None
        if _MEANS_IT.search(root.name.lower()) or callee is root:
            return True
    return sum(_is_same_call(inner, node) for inner in nodes_in(root)) > 1 if root is not None else False


def _is_same_call(inner: Node, node: CallExpr) -> bool:
    """Is it a call of the same function."""
    if not isinstance(inner, CallExpr):
        return False
    one, other = inner.callee, node.callee
    if isinstance(one, RefExpr) and isinstance(other, RefExpr) and (one.fullname or other.fullname):
        return one.fullname == other.fullname
    return isinstance(one, MemberExpr) and isinstance(other, MemberExpr) and one.name == other.name
