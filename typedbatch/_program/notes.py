"""Notes: the shapes of what ``reveal_type`` is called with, and names of sizes that say nothing of any other."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

from typedbatch._program import shapes
from typedbatch._program.arrays.dtypes import told
from typedbatch._program.arrays.values import Array
from typedbatch._program.frames import Call, Frame
from typedbatch._program.machine import Machine
from typedbatch._program.report import NOTE, UNUSED
from typedbatch._program.values import UNKNOWN, Code, Value


def reveal(machine: Machine, call: Call) -> Value:
    """Note the shape of an array, and return it."""
    value = call.first or UNKNOWN
    held = shapes.lift(machine, value)
    if isinstance(held, Array) and held.axes is not None and isinstance(call.node, ast.expr):
        dtype = f", {told(held.dtypes)}" if held.dtypes is not None else ""
        machine.note(call.node, f"Shape is {held}{dtype}", NOTE)
    return value


def note_unused_sizes(machine: Machine, code: Code) -> None:
    """Note each name of a size that stands in one place of a function's annotations: mostly a slip of the pen."""
    scope, node = machine.scope_of_module(code.module), code.node
    if scope is None or isinstance(node, ast.Lambda):
        return
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    inside = [one.annotation for one in ast.walk(node) if isinstance(one, ast.AnnAssign)]
    annotations = [*(one.annotation for one in parameters), node.returns, *inside]
    machine.enter(Frame(None, code.module, scope, machine.next_frame()))
    try:
        places = Counter(name for one in annotations if one is not None for name in _names(machine, one))
    finally:
        machine.exit()
    for name in (name for name, count in places.items() if count == 1):
        near = get_close_matches(name, [other for other in places if other != name], n=1, cutoff=0.5)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        text = f'Size "{name}" stands once in {code.name}, so it says nothing of any other{hint}'
        machine.note(node, text, UNUSED, code.module)


def _names(machine: Machine, annotation: ast.expr) -> Iterator[str]:
    declared = machine.declared_array(annotation)
    if declared is not None:
        yield from declared.names
        yield from (run.text for run in declared.runs if run.key.startswith("*"))
        return
    for inner in ast.iter_child_nodes(annotation):
        if isinstance(inner, ast.expr):
            yield from _names(machine, inner)
