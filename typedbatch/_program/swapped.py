"""Arguments and results whose names cross: ``loss(adv, returns)`` of ``def loss(returns, adv)``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from typedbatch._program import report
from typedbatch._program.machine import Machine
from typedbatch._program.values import Code
from typedbatch._program.vocabulary import last_name

_MEANS_IT: Final = re.compile(
    r"swap|revers|transpos|mirror|invers|invert|flip|rotat|turn|cross|sym|exchange|other|backward|grad|undo|roll_?back"
)
_EITHER_WAY: Final = re.compile(r"assert|close|equal|same|approx|compar|check|mse|mae|l1_|cosine|distance|symmetric")
"""Parts of the names of functions that compare, in which the order of the two makes no difference."""
_UNCHANGED: Final = frozenset({"detach", "float", "clone", "cpu", "cuda", "numpy", "copy", "contiguous", "to", "item"})
RETURNED: Final = {"compute_episodic_return": ("returns", "adv")}
"""Names of the results of functions of this package."""


class _Given(NamedTuple):
    """An argument with the name of the parameter that takes it, and the name that it has itself."""

    parameter: str
    name: str
    node: ast.expr


def check_arguments(machine: Machine, call: ast.AST | None, pairs: Iterable[tuple[str, ast.AST | None]]) -> None:
    """Report two arguments of a call, each of which has the name of the other's parameter.

    Args:
        machine: The run, which is in the caller.
        call: The call.
        pairs: Names of parameters, with the arguments.
    """
    if not isinstance(call, ast.Call):
        return
    given = [
        _Given(name, own, node)
        for name, node in pairs
        if isinstance(node, ast.expr) and node is not call and (own := _name_of(node))
    ]
    for one, other in combinations(given, 2):
        if _cross(one.parameter, one.name, other.parameter, other.name) and not _is_meant(machine, call):
            text = f'"{one.parameter}" is given {one.name}, and "{other.parameter}" {other.name}; are they swapped?'
            machine.report(one.node, report.SWAPPED, text, [one.name, other.name])
            return


def check_results(machine: Machine, target: ast.expr, source: ast.expr, returned: Sequence[str]) -> None:
    """Report a name for one result of a function that is the name of another one.

    Args:
        machine: The run.
        target: What the results are assigned to.
        source: The call.
        returned: Names of the results.
    """
    if not isinstance(target, ast.Tuple) or not isinstance(source, ast.Call) or len(returned) != len(target.elts):
        return
    names = [_name_of(item) for item in target.elts]
    for (one, first), (other, second) in combinations(zip(names, returned, strict=True), 2):
        if one and other and _cross(first, one, second, other) and not _is_meant(machine, source):
            text = f"{one} is assigned the result {first}, and {other} the result {second}; are they swapped?"
            machine.report(target, report.SWAPPED, text, [one, other])
            return


def returned_by(code: Code) -> Sequence[str]:
    """Return the names of the results that a function always returns in this order; none if it may return others."""
    values = [one.value for one in ast.walk(code.node) if isinstance(one, ast.Return)]
    tuples = {tuple(map(_name_of, value.elts)) for value in values if isinstance(value, ast.Tuple)}
    return tuples.pop() if len(tuples) == 1 and all(isinstance(value, ast.Tuple) for value in values) else ()


def _name_of(node: ast.expr) -> str:
    """Return the name that a value goes by; empty for what has none."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _UNCHANGED:
            return _name_of(owner)
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
        case _:
            return ""


def _cross(place: str, name: str, other_place: str, other_name: str) -> bool:
    """Return whether two names stand in each other's places."""
    if min(map(len, (place, name, other_place, other_name))) < 2 or place == other_place or name == other_name:
        return False
    if name == other_place and other_name == place:
        return True
    here, there, words, others = map(_words, (place, other_place, name, other_name))
    crossed = there <= words and here <= others and words - there == others - here
    return crossed and bool(words - there) and not here <= words and not there <= others


def _words(name: str) -> frozenset[str]:
    return frozenset(word for word in re.split(r"_+|(?<=[a-z])(?=[A-Z])", name.strip("_").lower()) if word)


def _is_meant(machine: Machine, call: ast.Call) -> bool:
    """Return whether the other order is meant: in a function that swaps, in a recursion, or beside the usual order."""
    name, code = last_name(call.func), machine.frame.code
    if _EITHER_WAY.search(name.lower()):
        return True
    if code is not None and (_MEANS_IT.search(code.shown.lower()) or code.name == name):
        return True
    root = code.node if code is not None else machine.frame.source.tree
    same = [one for one in ast.walk(root) if isinstance(one, ast.Call) and last_name(one.func) == name]
    return len(same) > 1
