"""What expressions do with batches, lists and dicts of batches: which objects they make, read and change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mypy.nodes import CallExpr, Decorator, Expression, FuncDef, IndexExpr, MemberExpr, Node, OverloadedFuncDef
from mypy.types import Type

from typedbatch._program.arrays.sizes import Size
from typedbatch._program.arrays.values import Literal, Record, Span, Value, join
from typedbatch.mypy.batches.content import NOTHING, SOMETHING, Content, Field, Items, Presence, Ref
from typedbatch.mypy.batches.derived import Change, row_of, rows_of, same, unshaped
from typedbatch.mypy.batches.judge import Judge
from typedbatch.mypy.batches.merging import joined_objects
from typedbatch.mypy.internals import class_named
from typedbatch.mypy.types.extend import declared_fields
from typedbatch.mypy.types.fields import BATCH, Rest

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

UNKNOWN_BATCH = Ref(frozenset({SOMETHING}))


class Batches:
    """The batches of one function.

    Args:
        reading: reader of expressions.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.judge: Judge = Judge(reading)

    # ---- objects --------------------------------------------------------------------------------------------------

    def make(self, node: Any, made: Any) -> Ref:
        """Return a reference to a new object, which is made at a node."""
        return self.reading.known.make(node, made)

    def of_type(self, type_: Type, node: Any) -> Ref | None:
        """Return a batch of which only the type is known; None for what is not a batch."""
        return self.reading.known.batch_of_type(type_, node)

    def copy(self, value: Any, node: Any, change: Change = same) -> Value:
        """Return a copy of a batch, which is made at a node, with copies of the batches in it.

        Args:
            value: The batch.
            node: The node.
            change: Returns the value of a field in the copy.
        """
        objects = self.reading.known.objects
        copied: Value = objects.copied(value, lambda path, made: self.make((node, *path), made), change)
        return copied

    def content_of(self, value: Any, node: Any) -> Content:
        """Return the content of the batch that is made of a value: of another batch, a dict, a list of dicts."""
        objects = self.reading.known.objects
        whole = objects.whole(value)
        if isinstance(whole, Content):
            copied: Content = objects.whole(self.copy(value, node))
            return copied
        if isinstance(whole, Items) and not whole.escaped:
            if whole.others is NOTHING and (whole.keyed or not whole.known):
                return self.with_fields(Content(), whole.known.items(), node)
            rows = list(whole.values())
            if rows and all(isinstance(row, Ref) for row in rows):
                return self.columns([self.content_of(row, (node, at)) for at, row in enumerate(rows)])
        declared = dict(declared_fields(value.type.type)) if isinstance(value, Record) else {}
        if declared:
            fields = {name: Field(sure=required) for name, required in declared.items()}
            return Content(fields, Rest.OPEN)
        return Content(rest=Rest.DECLARED)

    def columns(self, rows: list[Content]) -> Content:
        """Return the content of a batch of rows, in which a field that one row lacks is filled."""
        out = rows[0]
        for row in rows[1:]:
            out = joined_objects(out, row, join)
        fields = {
            name: replace(held, sure=True, choice=None, value=unshaped(held.value)) for name, held in out.fields.items()
        }
        return Content(fields, out.rest)

    def with_fields(self, made: Content, given: Iterable[tuple[str, Any]], node: Any) -> Content:
        """Return a content with fields that are set to values."""
        line = _line(node)
        for name, value in given:
            made = made.with_field(name, Field(self.stored(value, (node, name)), line))
        return made

    def stored(self, value: Value, node: Any) -> Value:
        """Return what a field holds that is set to a value: a dict becomes a batch, a list an array or a batch."""
        whole = self.reading.known.objects.whole(value)
        if not isinstance(whole, Items):
            return value
        if whole.keyed:
            return self.make(node, self.content_of(value, node))
        if any(map(_is_ref, whole.values())):
            return self.make(node, self.content_of(value, node))
        return None

    def escape(self, *values: Any, opened: bool = False) -> None:
        """Note that others hold the objects in these values; ``opened``: and may give them any field."""
        self.reading.known.objects.escape(*values, opened=opened)

    # ---- reading --------------------------------------------------------------------------------------------------

    def attribute(self, node: MemberExpr, owner: Ref) -> Value:
        """Return what ``batch.name`` is."""
        if self.is_member(node.name) and not self._may_have(owner, node.name):
            if self.is_method(node.name) or node.name == "__dict__":
                self.escape(owner, opened=True)  # A method, or ``__dict__``, may be used at any time.
            return None
        return self.field(node, owner, node.name, node.expr)

    def _may_have(self, owner: Ref, name: str) -> bool:
        found = self.reading.known.objects.whole(owner)
        return isinstance(found, Content) and name in found.fields

    def is_member(self, name: str) -> bool:
        """Return whether every batch has an attribute of that name, whatever its fields."""
        info = class_named(self.reading.api, BATCH)
        return name[:2] == "__" or (info is not None and info.get(name) is not None)

    def is_method(self, name: str) -> bool:
        """Return whether it is a method of every batch."""
        info = class_named(self.reading.api, BATCH)
        found = info.get(name) if info is not None else None
        node = found.node if found is not None else None
        return isinstance(node, (FuncDef, OverloadedFuncDef)) or (
            isinstance(node, Decorator) and not node.var.is_property
        )

    def field(self, node: Expression, owner: Ref, name: str, receiver: Expression) -> Value:
        """Return what a field holds; one that is missing is reported."""
        objects = self.reading.known.objects
        contents = [objects.of(one) for one in owner.objects]
        if not all(isinstance(one, Content) for one in contents):
            return None
        self.judge.read(node, receiver, name, contents, owner)
        found: list[Any] = []
        for one, made in zip(owner.objects, contents, strict=True):
            held = made.fields.get(name)
            if held is not None and held.value is not None:
                found.append(held.value)
            elif made.presence(name) is not Presence.ABSENT:
                found.append(self._inner(node, one, made, name))
        return self.reading.known.joined(found)

    def _inner(self, node: Expression, owner: Any, made: Content, name: str) -> Value:
        """Return a batch that a field may hold of which nothing is known; what is written to it stays."""
        type_ = self.reading.type_of(node)
        if self.reading.untyped and made.rest is Rest.DECLARED:
            inner: Ref | None = self.make((owner, name), Content(rest=Rest.DECLARED))
        else:
            inner = self.of_type(type_, (owner, name)) if type_ is not None else None
        if inner is None:
            return None
        held = made.fields.get(name, Field(sure=False))
        self.reading.known.objects.put(owner, made.with_field(name, replace(held, value=inner)))
        return inner

    def item(self, node: IndexExpr, owner: Ref, index: Any) -> Value:
        """Return what ``owner[index]`` is: a field, rows, or an item of a list or dict."""
        whole = self.reading.known.objects.whole(owner)
        if isinstance(whole, Items):
            return self._item_of(node, whole, index)
        name = self.name_of(node.index, index)
        if name is not None:
            return self.field(node, owner, name, node.base)
        if self.reading.is_text(node.index):
            return None
        return self.copy(owner, node, partial(rows_of, index=index))

    def name_of(self, key: Expression, value: Any) -> str | None:
        """Return the name of a field that is written out, or known by its type; else None."""
        if isinstance(value, Literal):
            return value.value if isinstance(value.value, str) else None
        return self.reading.literal_text(key)

    def _item_of(self, node: IndexExpr, items: Items, index: Any) -> Value:
        if isinstance(index, Span):
            return self.make(node, Items({}, self.reading.known.joined(list(items.values()), NOTHING), items.escaped))
        key = _key(index)
        found: Value = items.known[key] if key is not None and key in items.known else self.any_item(items)
        return found

    def any_item(self, items: Items) -> Value:
        """Return what an item is, whichever it is."""
        return None if items.escaped else self.reading.known.joined(list(items.values()))

    def item_of(self, value: Ref, node: Any) -> Value:
        """Return what a loop over a value has each time."""
        whole = self.reading.known.objects.whole(value)
        if isinstance(whole, Items):
            return None if whole.keyed else self.any_item(whole)
        return self.copy(value, (node, "row"), row_of)

    # ---- changing -------------------------------------------------------------------------------------------------

    def set_field(self, node: Node, owner: Ref, name: str, value: Any) -> None:
        """Note that a batch gets a field."""
        new = Field(self.stored(value, (node, "stored")), node.line)
        self._kept_by(owner, new.value)
        self.reading.known.objects.change(
            owner, lambda made: made.with_field(name, new) if isinstance(made, Content) else made
        )

    def _kept_by(self, owner: Ref, value: Any) -> None:
        """Note that what is put into an object that others hold is held by them, too."""
        if self.reading.known.objects.has_escaped(owner):
            self.escape(value)

    def remove_field(self, node: Node, owner: Ref, name: str) -> None:
        """Note that a batch loses a field."""
        self.reading.known.objects.change(
            owner, lambda made: made.without(name, node.line) if isinstance(made, Content) else made
        )

    def open(self, owner: Ref) -> None:
        """Note that a batch gets fields of unknown names."""
        self.reading.known.objects.change(owner, lambda made: made.opened() if isinstance(made, Content) else made)

    def set_item(self, target: IndexExpr, owner: Ref, index: Any, value: Any) -> None:
        """Note what ``owner[index] = value`` does."""
        whole = self.reading.known.objects.whole(owner)
        if isinstance(whole, Items):
            self._set_item(owner, value, _key(index))
            return
        name = self.name_of(target.index, index)
        if name is not None:
            self.set_field(target, owner, name, value)
        elif not self.reading.is_rows(target.index):
            self.open(owner)
            self.escape(value)

    def _set_item(self, owner: Ref, value: Any, key: Any) -> None:
        """Note that a list or dict gets an item for a key, which is None if it is not known."""
        if key is None:
            self.add(owner, value)

        def changed(items: Any) -> Any:
            if not isinstance(items, Items):
                return items
            if key is not None:
                return replace(items, known={**items.known, key: value})
            known = {one: self.reading.known.joined([held, value]) for one, held in items.known.items()}
            return replace(items, known=known)

        self._kept_by(owner, value)
        self.reading.known.objects.change(owner, changed)

    def add(self, owner: Ref, value: Any) -> None:
        """Note that a list or dict gets another item."""
        self._kept_by(owner, value)

        def added(items: Any) -> Any:
            if not isinstance(items, Items):
                return items
            others = value if items.others is NOTHING else self.reading.known.joined([items.others, value])
            return replace(items, others=others)

        self.reading.known.objects.change(owner, added)

    def delete(self, node: MemberExpr | IndexExpr) -> None:
        """Note what ``del batch.name`` and ``del batch["name"]`` do."""
        receiver = node.expr if isinstance(node, MemberExpr) else node.base
        owner = self.reading.read(receiver)
        index = self.reading.read(node.index) if isinstance(node, IndexExpr) else None
        if not isinstance(owner, Ref):
            return
        name = node.name if isinstance(node, MemberExpr) else self.name_of(node.index, index)
        whole = self.reading.known.objects.whole(owner)
        if isinstance(whole, Items):
            self.escape(owner)
        elif name is None:
            self.open(owner)
        else:
            self.judge.read(node, receiver, name, [whole], owner)
            self.remove_field(node, owner, name)

    def call(self, node: CallExpr, owner: Ref, name: str) -> Value:
        """Return what a call of a method gives, and note what it changes."""
        from typedbatch.mypy.batches.effects import METHODS, method_of_items

        whole = self.reading.known.objects.whole(owner)
        if isinstance(whole, Items):
            return method_of_items(self, node, owner, whole, name)
        effect = METHODS.get(name)
        if effect is None:
            if not self.is_member(name):
                self.field(node.callee, owner, name, node.callee.expr if isinstance(node.callee, MemberExpr) else node)
            self.escape(owner, *self.reading.arguments(node), opened=True)
            return None
        return effect(self, node, owner)


def _line(node: Any) -> int:
    while isinstance(node, tuple):
        node = node[0]
    return getattr(node, "line", 0)


def _is_ref(value: Any) -> bool:
    return isinstance(value, Ref)


def _key(index: Any) -> Any:
    if isinstance(index, Size):
        return index.number
    return index.value if isinstance(index, Literal) and isinstance(index.value, str) else None


Effect = Callable[[Batches, CallExpr, Ref], Value]
__all__ = ["UNKNOWN_BATCH", "Batches", "Effect"]
