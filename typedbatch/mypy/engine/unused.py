"""Names of sizes that stand once in a function, and so say nothing of any other size: mostly slips of the pen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from mypy.nodes import AssignmentStmt, FuncDef
from mypy.types import CallableType, Instance, TupleType, Type, UnionType, get_proper_type

from typedbatch.mypy.declared import declared_by
from typedbatch.mypy.nodes import nodes_in


def note_unused(api: Any, function: FuncDef) -> None:
    """Note each name of a size that stands in one place of a function's declarations.

    Args:
        api: mypy's checker.
        function: The function; without types nothing is noted.
    """
    signature = function.type
    if not isinstance(signature, CallableType):
        return
    inside = [
        node.type for node in nodes_in(function.body) if isinstance(node, AssignmentStmt) and node.type is not None
    ]
    places = Counter(name for type_ in (*signature.arg_types, signature.ret_type, *inside) for name in _names(type_))
    for name in (name for name, count in places.items() if count == 1):
        near = get_close_matches(name, [other for other in places if other != name], n=1, cutoff=0.5)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        api.note(f'Size "{name}" stands once in {function.name}, so it says nothing of any other{hint}', function)


def _names(type_: Type, depth: int = 3) -> Iterator[str]:
    proper = get_proper_type(type_)
    declared = declared_by(proper)
    if declared is not None:
        yield from declared.names
        yield from (run.text for run in declared.runs if run.key.startswith("*"))
    elif depth and isinstance(proper, (TupleType, UnionType)):
        for item in proper.items:
            yield from _names(item, depth - 1)
    elif depth and isinstance(proper, Instance):
        for item in proper.args:
            yield from _names(item, depth - 1)
