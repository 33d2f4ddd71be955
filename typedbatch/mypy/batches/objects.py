"""The objects that exist on one way through a function: made, changed, copied, and held by others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from typedbatch.mypy.batches.content import SOMETHING, Choice, Content, Items, Object, Ref
from typedbatch.mypy.batches.merging import Decide, Join, joined_objects, nothing_decides, renamed
from typedbatch.mypy.types.fields import Rest

_UNKNOWN = Content(rest=Rest.DECLARED, escaped=True)
_DEEPEST = 4
_MOST = 400
"""Copies of more objects than that are not followed: those of a batch that holds itself have no end."""


class Objects:
    """The contents of all objects.

    Args:
        join: return the value that is one of two.
        contents: contents to begin with.
    """

    def __init__(self, join: Join, contents: dict[Object, Any] | None = None) -> None:
        self._join = join
        self.contents: dict[Object, Any] = contents if contents is not None else {}
        self.watching: list[dict[Object, Any]] = []
        """Contents of objects on all ways to an exception, for each ``try`` around."""

    def of(self, one: Object) -> Any:
        """Return the content of an object."""
        return self.contents.get(one, _UNKNOWN)

    def put(self, one: Object, content: Any) -> None:
        """Set the content of an object."""
        if one == SOMETHING:
            return
        before = self.contents.get(one)
        self.contents[one] = content
        for seen in self.watching if before is not None else ():
            seen[one] = joined_objects(seen[one], before, self._join, _by_error) if one in seen else before

    def seen_here(self) -> None:
        """Note that an exception may come here, so that a handler may find the objects as they are now."""
        for seen in self.watching:
            for one, content in self.contents.items():
                known = seen.setdefault(one, content)
                if known is not content:
                    seen[one] = joined_objects(known, content, self._join, _by_error)

    def merge(self, other: dict[Object, Any], decide: Decide = nothing_decides) -> None:
        """Take in what another way has left."""
        mine = self.contents
        for one, content in other.items():
            mine[one] = joined_objects(mine[one], content, self._join, decide) if one in mine else content

    def change(self, ref: Ref, new: Callable[[Any], Any]) -> None:
        """Change the object that a reference is to; if that may be one of several, each of them may change."""
        for one in ref.objects:
            before = self.of(one)
            after = new(before)
            is_sure = len(ref.objects) == 1 and not one[1]
            self.put(one, after if is_sure else joined_objects(before, after, self._join))

    def reachable(self, values: Iterable[Any]) -> Iterator[Object]:
        """Yield the objects that values refer to, directly or through others."""
        seen: set[Object] = set()
        todo = list(values)
        while todo:
            value = todo.pop()
            if not isinstance(value, Ref):
                todo.extend(inner_values(value))
                continue
            for one in value.objects:
                if one not in seen:
                    seen.add(one)
                    yield one
                    todo.append(self.of(one))

    def escape(self, *values: Any, opened: bool = False) -> None:
        """Note that others hold the objects of these values; ``opened``: and may give them any field."""
        for one in list(self.reachable(values)):
            content = self.of(one)
            if isinstance(content, Content):
                self.put(one, content.opened().held() if opened else content.held())
            elif isinstance(content, Items):
                self.put(one, Items(escaped=True))

    def has_escaped(self, ref: Ref) -> bool:
        """Return whether others hold an object of a reference."""
        return any(self.of(one).escaped for one in ref.objects)

    def copied(
        self, value: Any, make: Callable[[Any, Any], Ref], change: Callable[[Any], Any], path: tuple[str, ...] = ()
    ) -> Any:
        """Return a copy of a batch, with copies of the batches in it.

        Args:
            value: The batch.
            make: Gets the paths and contents of the copies.
            change: Returns the value of a field in the copy.
            path: Path of the batch in the one that is copied.
        """
        if not isinstance(value, Ref):
            return change(value)
        if len(path) > _DEEPEST or len(self.contents) > _MOST:
            return Ref(frozenset({SOMETHING}))
        whole = self.whole(value)
        if not isinstance(whole, Content):
            return value
        fields = {
            name: replace(field, value=self.copied(field.value, make, change, (*path, name)))
            for name, field in whole.fields.items()
        }
        source = next(iter(value.objects)) if len(value.objects) == 1 and whole.rest is Rest.DECLARED else None
        made = Content(fields, whole.rest, whole.absent, widened=whole.widened, source=whole.source or source)
        return make(path, replace(made.opened(), widened=whole.widened) if whole.escaped else made)

    def whole(self, value: Any) -> Any:
        """Return what the objects of a reference have in common; None for other values."""
        if not isinstance(value, Ref):
            return None
        contents = [self.of(one) for one in value.objects]
        out = contents[0]
        for other in contents[1:]:
            out = joined_objects(out, other, self._join)
        return out

    def rename(self, old: Object, new: Object) -> None:
        """Have references inside of objects lead to another one."""
        for one, content in list(self.contents.items()):
            changed = renamed(content, old, new)
            if changed is not content:
                self.contents[one] = changed


def _by_error(line: int) -> Choice:
    """Return the choice that an error makes, which no line of its handler always follows."""
    return Choice(line, -1, -1)


def inner_values(value: Any) -> Iterator[Any]:
    """Yield the values that a value is made of."""
    if isinstance(value, Content):
        yield from (field.value for field in value.fields.values())
    elif isinstance(value, Items):
        yield from value.values()
    else:
        items = getattr(value, "items", ())
        yield from items if isinstance(items, tuple) else ()
        item = getattr(value, "item", None)
        yield from () if item is None or callable(item) else (item,)
