"""The table of effects: what each method of ``Batch``, and each function of this package, does to the fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mypy.nodes import ARG_NAMED, ARG_POS, ARG_STAR2, CallExpr, Expression, MemberExpr

from typedbatch._program.arrays.values import Several, Value, join
from typedbatch.mypy.batches.content import NOTHING, Content, Items, Ref
from typedbatch.mypy.batches.derived import Change, anything, in_numpy, in_torch, part_of, retyped, same
from typedbatch.mypy.batches.domain import Batches, Effect
from typedbatch.mypy.types.fields import BATCH, Rest

# ---- methods of batches -------------------------------------------------------------------------------------------


def _only_reads(batches: Batches, node: CallExpr, owner: Ref) -> None:
    for value in batches.reading.arguments(node):
        batches.escape(value)


def _copies(change: Change) -> Effect:
    def copies(batches: Batches, node: CallExpr, owner: Ref) -> Value:
        batches.escape(*batches.reading.arguments(node))
        return batches.copy(owner, node, change)

    return copies


def _splits(batches: Batches, node: CallExpr, owner: Ref) -> Value:
    batches.reading.arguments(node)
    part = batches.copy(owner, (node, "part"), part_of)
    return batches.make(node, Items({}, batches.reading.known.aged(part)))


def _opens(batches: Batches, node: CallExpr, owner: Ref) -> None:
    batches.escape(*batches.reading.arguments(node))
    batches.open(owner)


def _gets(batches: Batches, node: CallExpr, owner: Ref) -> Value:
    name, _ = _key_and_value(batches, node)
    made = batches.reading.known.objects.whole(owner)
    found = made.fields.get(name) if isinstance(made, Content) and name is not None else None
    return found.value if found is not None and found.sure else None


def _updates(batches: Batches, node: CallExpr, owner: Ref) -> None:
    new = _given(batches, node)

    def updated(made: Any) -> Any:
        if not isinstance(made, Content):
            return made
        for name, field in new.fields.items():
            made = made.with_field(name, field) if field.sure else made.perhaps_with(name, field, join)
        if new.rest is Rest.NONE:
            return made
        return made.opened()

    batches.reading.known.objects.change(owner, updated)
    if batches.reading.known.objects.has_escaped(owner):
        batches.escape(owner)


def _sets_default(batches: Batches, node: CallExpr, owner: Ref) -> Value:
    name, value = _key_and_value(batches, node)
    if name is None:
        batches.open(owner)
        batches.escape(value)
        return None
    made = batches.reading.known.objects.whole(owner)
    before = made.fields.get(name) if isinstance(made, Content) else None
    if before is None or not before.sure:
        joined = value if before is None else batches.reading.known.joined([before.value, value])
        batches.set_field(node, owner, name, joined)
    made = batches.reading.known.objects.whole(owner)
    return made.fields[name].value if isinstance(made, Content) and name in made.fields else None


def _pops(batches: Batches, node: CallExpr, owner: Ref) -> Value:
    name, value = _key_and_value(batches, node)
    batches.escape(value)
    if name is None:
        batches.open(owner)
        return None
    made = batches.reading.known.objects.whole(owner)
    found = made.fields.get(name) if isinstance(made, Content) else None
    batches.remove_field(node, owner, name)
    return found.value if found is not None and found.sure else None


def _clears(batches: Batches, node: CallExpr, owner: Ref) -> None:
    batches.reading.known.objects.change(owner, lambda made: Content(escaped=made.escaped))


def _in_place(change: Change) -> Effect:
    def changes(batches: Batches, node: CallExpr, owner: Ref) -> Value:
        batches.escape(*batches.reading.arguments(node))
        objects = batches.reading.known.objects
        for one in list(objects.reachable([owner])):
            made = objects.of(one)
            if isinstance(made, Content):
                fields = {name: replace(field, value=change(field.value)) for name, field in made.fields.items()}
                objects.put(one, replace(made, fields=fields))
        return owner

    return changes


def _joins_class_call(batches: Batches, node: CallExpr, owner: Ref) -> Value:
    return cat(batches, node)


def _key_and_value(batches: Batches, node: CallExpr) -> tuple[str | None, Any]:
    values = batches.reading.arguments(node)
    name = batches.name_of(node.args[0], values[0]) if node.args else None
    return name, values[1] if len(values) > 1 else None


METHODS: dict[str, Effect] = {
    **dict.fromkeys(("get_keys", "keys", "values", "items", "is_empty", "hasnull", "allclose", "to_dict"), _only_reads),
    **dict.fromkeys(("to_list_of_dicts", "replace_empty_batches_by_none", "set_rows"), _only_reads),
    **dict.fromkeys(("copy", "pin_memory"), _copies(same)),
    **dict.fromkeys(("to_at_least_2d", "isnull", "apply_values_transform"), _copies(anything)),
    "to_torch": _copies(in_torch),
    "to_numpy": _copies(in_numpy),
    "to": _copies(retyped),
    "dropnull": _copies(part_of),
    "to_torch_": _in_place(in_torch),
    "to_numpy_": _in_place(in_numpy),
    "empty_": _in_place(same),
    **dict.fromkeys(("cat_", "stack_", "set_array_at_key", "popitem"), _opens),
    "split": _splits,
    "get": _gets,
    "update": _updates,
    "setdefault": _sets_default,
    "pop": _pops,
    "clear": _clears,
    "cat": _joins_class_call,
    "stack": _joins_class_call,
}
"""What each method does; any other one may do anything."""


# ---- functions ----------------------------------------------------------------------------------------------------


def _given(batches: Batches, node: CallExpr, skip: tuple[str, ...] = ()) -> Content:
    """Return the content of the batch that arguments make, as in ``Batch(...)`` and ``update(...)``."""
    made = Content()
    for argument, kind, name in zip(node.args, node.arg_kinds, node.arg_names, strict=True):
        value = batches.reading.read(argument)
        if kind is ARG_NAMED and name is not None:
            if name not in skip:
                made = batches.with_fields(made, [(name, value)], (node, "given"))
        else:
            more = Content(rest=Rest.DECLARED)
            if kind is ARG_POS or kind is ARG_STAR2:
                more = batches.content_of(value, (node, argument))
            made = _followed_by(made, more)
    return made


def _followed_by(made: Content, more: Content) -> Content:
    for name, field in more.fields.items():
        made = made.with_field(name, field) if field.sure else made.perhaps_with(name, field, join)
    if more.rest is Rest.NONE:
        return made
    return Content(made.fields, more.rest if made.rest is Rest.NONE else made.rest)


def construct(batches: Batches, node: CallExpr) -> Ref:
    """``Batch(...)``: a new batch."""
    return batches.make(node, _given(batches, node, ("copy", "meta")))


def cat(batches: Batches, node: CallExpr) -> Value:
    """``cat`` and ``stack``: a new batch with the fields of all."""
    reading = batches.reading
    values = reading.arguments(node)
    objects = reading.known.objects
    whole = objects.whole(values[0]) if values and isinstance(values[0], Ref) else None
    several = getattr(values[0], "items", None) if values else None
    if isinstance(whole, Items) and not whole.escaped:
        parts = list(whole.values())
    elif isinstance(several, tuple):
        parts = list(several)
    else:
        batches.escape(*values)
        return None
    made: list[Content] = []
    for number, part in enumerate(parts):
        made.append(batches.content_of(part, (node, number)))
    if not made:
        return None
    return batches.make(node, batches.columns(made))


def copied(batches: Batches, node: CallExpr, change: Change = same) -> Value:
    """``copy.copy(batch)`` and its like: what is given, once more."""
    values = batches.reading.arguments(node)
    if not values or not isinstance(values[0], Ref):
        batches.escape(*values)
        return None
    whole = batches.reading.known.objects.whole(values[0])
    return batches.copy(values[0], node, change) if isinstance(whole, Content) else values[0]


def chunk(batches: Batches, node: CallExpr) -> Value:
    """``chunk(batch, n)``: a list of parts."""
    part = copied(batches, node, part_of)
    return batches.make((node, "parts"), Items({}, batches.reading.known.aged(part))) if isinstance(part, Ref) else None


def union(batches: Batches, node: CallExpr) -> Value:
    """``union(one, two)``: a new batch with the fields of both."""
    values = batches.reading.arguments(node)
    made = Content()
    for number, value in enumerate(values[:2]):
        made = _followed_by(made, batches.content_of(value, (node, number)))
    return batches.make(node, made)


def read_only(batches: Batches, node: CallExpr) -> None:
    """Read the arguments of a function that changes none of them."""
    batches.reading.arguments(node)


def set_attribute(batches: Batches, node: CallExpr) -> None:
    """``setattr(batch, name, value)`` and ``delattr(batch, name)``."""
    values = batches.reading.arguments(node)
    name = batches.name_of(node.args[1], values[1]) if len(values) > 1 else None
    if not isinstance(values[0], Ref):
        batches.escape(*values)
    elif name is None:
        batches.open(values[0])
        batches.escape(*values[1:])
    elif len(values) == 3:
        batches.set_field(node, values[0], name, values[2])
    else:
        batches.remove_field(node, values[0], name)


FUNCTIONS: dict[str, Callable[[Batches, CallExpr], Value]] = {
    "builtins.setattr": set_attribute,
    "builtins.delattr": set_attribute,
    BATCH: construct,
    "typedbatch.batch.cat": cat,
    "typedbatch.batch.stack": cat,
    f"{BATCH}.cat": cat,
    f"{BATCH}.stack": cat,
    f"{BATCH}.empty": copied,
    "copy.copy": copied,
    "copy.deepcopy": copied,
    "typedbatch.rows.repeating.repeat": partial(copied, change=part_of),
    "typedbatch.rows.repeating.chunk": chunk,
    "typedbatch.rows.joining.union": union,
    "typedbatch.rows.repeating.pad_rows": read_only,
    "typedbatch.rows.grouping.groups": read_only,
    "typedbatch.rows.projecting.project": read_only,
    "typedbatch._validation.validate.validate": read_only,
    "typedbatch._validation.validate.conforms": read_only,
}
"""Functions that take batches, by their full names."""


# ---- lists and dicts ----------------------------------------------------------------------------------------------


def method_of_items(batches: Batches, node: CallExpr, owner: Ref, items: Items, name: str) -> Value:
    """Return what a method of a list or dict gives, and note what it changes."""
    values = batches.reading.arguments(node)
    if name in ("append", "appendleft", "add") and values:
        batches.add(owner, values[0])
        return None
    if name == "insert" and len(values) == 2:
        batches.add(owner, batches.any_item(items))
        batches.add(owner, values[1])
        return None
    if name == "extend" and len(values) == 1:
        batches.add(owner, batches.reading.item_of(values[0], node))
        return None
    if name in ("pop", "popleft", "get"):
        batches.escape(*values)
        return batches.any_item(items)
    if name == "values":
        return batches.make(node, Items({}, batches.reading.known.joined(list(items.values()), NOTHING)))
    if name == "items":
        return batches.make(node, Items({}, Several((None, batches.any_item(items)))))
    if name in ("keys", "index", "count", "sort", "reverse"):
        if name in ("sort", "reverse"):
            batches.reading.known.objects.change(owner, lambda one: Items({}, batches.any_item(items), one.escaped))
        return None
    if name == "copy":
        return batches.make(node, items)
    batches.escape(owner, *values)
    return None


__all__ = ["FUNCTIONS", "METHODS", "Expression", "MemberExpr", "method_of_items"]
