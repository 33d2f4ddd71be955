"""Python's own functions, as far as they go with batches and lists of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mypy.nodes import ARG_POS, CallExpr

from typedbatch._program.arrays.values import Many, Several, Value
from typedbatch.mypy.batches.content import NOTHING, Content, Items, Ref
from typedbatch.mypy.engine.pythons import PYTHONS

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

Builtin = Callable[["Reading", CallExpr], Value]


def _reads(reading: Reading, node: CallExpr) -> Value:
    """Read the arguments and do nothing to them."""
    reading.arguments(node)
    return None


def _shapes_too(name: str) -> Builtin:
    """Return what ``PYTHONS`` says, unless a batch, or a list of batches, is involved."""

    def call(reading: Reading, node: CallExpr) -> Value:
        values = reading.arguments(node)
        if any(isinstance(value, Ref) for value in values):
            return _OF_REFS[name](reading, node, values)
        return PYTHONS[name](reading, node) if name in PYTHONS else None

    return call


def _listed(reading: Reading, node: CallExpr, values: list[Any]) -> Value:
    whole = reading.known.objects.whole(values[0]) if len(values) == 1 and isinstance(values[0], Ref) else None
    if isinstance(whole, Content):
        return reading.batches.make(node, Items({}, reading.known.aged(reading.item_of(values[0], node))))
    if not isinstance(whole, Items):
        reading.known.objects.escape(*values)
        return None
    if whole.keyed:
        return None
    return reading.batches.make(node, Items({}, reading.known.joined(list(whole.values()), NOTHING), whole.escaped))


def _zipped(reading: Reading, node: CallExpr, values: list[Any]) -> Value:
    if any(kind is not ARG_POS for kind in node.arg_kinds):
        reading.known.objects.escape(*values)
        return None
    return Many(Several(tuple(_item(reading, node, value, at) for at, value in enumerate(values))))


def _enumerated(reading: Reading, node: CallExpr, values: list[Any]) -> Value:
    return Many(Several((None, _item(reading, node, values[0], 0))))


def _item(reading: Reading, node: CallExpr, value: Any, at: int) -> Value:
    item = reading.item_of(value, (node, at))
    whole = reading.known.objects.whole(value)
    return reading.known.aged(item) if isinstance(item, Ref) and isinstance(whole, Content) else item


def _next(reading: Reading, node: CallExpr, values: list[Any]) -> Value:
    reading.known.objects.escape(*values[1:])
    item = reading.item_of(values[0], node)
    return None if len(values) > 1 else item


def _chosen(reading: Reading, node: CallExpr, values: list[Any]) -> Value:
    """Return what ``max(batches, key=...)`` gives: one of the items."""
    given = [value for value, kind in zip(values, node.arg_kinds, strict=True) if kind is ARG_POS]
    if len(given) != 1:
        reading.known.objects.escape(*values)
        return None
    return reading.item_of(given[0], node)


def _constructed(reading: Reading, node: CallExpr) -> Value:
    """Return an empty list, or what ``list(...)`` makes of something."""
    values = reading.arguments(node)
    if not values:
        return reading.batches.make(node, Items({}, NOTHING))
    if any(isinstance(value, Ref) for value in values):
        return _listed(reading, node, values)
    name = "builtins.list"
    return PYTHONS[name](reading, node)


def _dict(reading: Reading, node: CallExpr) -> Value:
    known: dict[Any, Any] = {}
    others: Any = NOTHING
    for argument, name in zip(node.args, node.arg_names, strict=True):
        value = reading.read(argument)
        if name is not None:
            known[name] = value
            continue
        whole = reading.known.objects.whole(value)
        if isinstance(whole, Items) and whole.others is NOTHING and not whole.escaped:
            known.update(whole.known)
        elif isinstance(whole, Content):
            known.update((one, field.value) for one, field in whole.fields.items())
            others = None
        else:
            reading.known.objects.escape(value)
            others = None
    return reading.batches.make(node, Items(known, others, keyed=True))


_OF_REFS: Final[dict[str, Callable[[Reading, CallExpr, list[Any]], Value]]] = {
    "builtins.tuple": _listed,
    "builtins.reversed": _listed,
    "builtins.sorted": _listed,
    "builtins.iter": _listed,
    "builtins.set": _listed,
    "collections.deque": _listed,
    "builtins.zip": _zipped,
    "builtins.enumerate": _enumerated,
    "builtins.next": _next,
    "builtins.max": _chosen,
    "builtins.min": _chosen,
}
_LOOKING = (
    "print", "repr", "str", "isinstance", "type", "id", "hasattr", "getattr", "bool", "sum", "any", "all", "format",
    "callable", "issubclass", "hash",
)  # fmt: skip

BUILTINS: Final[dict[str, Builtin]] = {
    **{name: _shapes_too(name) for name in _OF_REFS},
    **{f"builtins.{name}": _reads for name in _LOOKING},
    "builtins.list": _constructed,
    "builtins.dict": _dict,
}
"""What each of them gives."""
