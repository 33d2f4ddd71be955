"""Comprehensions: an item that stands for all of them, and their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy import nodes
from mypy.nodes import RefExpr

from typedbatch._program.arrays.asking import not_negative
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import Array, Many, Several, Value
from typedbatch.mypy.batches.content import Items, Ref
from typedbatch.mypy.engine.names import assigned_in

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading


def generated(reading: Reading, node: nodes.GeneratorExpr) -> Value:
    """Return what a comprehension gives."""
    for name in assigned_in(node):
        reading.known.put(name, None)
    reading.generators += 1
    first: Value = None
    with reading.ways.inside():
        for index, sequence, conditions in zip(node.indices, node.sequences, node.condlists, strict=True):
            value = reading.read(sequence)  # only once, as each reading of ``split`` makes new batches
            first = value if sequence is node.sequences[0] else first
            reading.bind(index, reading.item_of(value, sequence), index)
            for condition in conditions:
                reading.read(condition)
        each = reading.read(node.left_expr)
    reading.generators -= 1
    if isinstance(each, Ref):
        return reading.batches.make(node, Items({}, reading.known.aged(each)))
    return Many(each, _count(reading, node, first))


def _count(reading: Reading, node: nodes.GeneratorExpr, value: Value) -> Size | None:
    """Return the number of items that a comprehension over a value gives."""
    if len(node.sequences) != 1 or node.condlists[0]:
        return None
    sequence = node.sequences[0]
    if isinstance(sequence, nodes.CallExpr) and isinstance(sequence.callee, RefExpr) and len(sequence.args) == 1:
        stop = reading.read(sequence.args[0]) if sequence.callee.fullname == "builtins.range" else None
        return stop if isinstance(stop, Size) and not_negative(stop) else None
    if isinstance(value, Several):
        return number(len(value.items))
    if isinstance(value, Array):
        return value.axes[0].size if value.axes else None
    return value.count if isinstance(value, Many) else None
