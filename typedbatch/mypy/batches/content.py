"""Values of the domain of batches: references to objects, and what such an object holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from typedbatch._program.arrays.values import Other
from typedbatch.mypy.types.fields import Rest

Object = tuple[Any, bool]
"""The place in the program where an object was made, and whether it stands for those of earlier rounds of a loop."""

SOMETHING: Object = ("anything", True)
"""The object of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A branch that decides which fields a batch has.

    Attributes:
        line: the line that only some runs come to.
        context: the innermost condition, loop or function around the branch.
        exits: number of ``return``, ``raise``, ``assert``, ``break`` and ``continue`` before the end of the branch.
        implicit: the way without the field is an ``else`` that is not written.
    """

    line: int
    context: int
    exits: int
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Ref(Other):
    """A reference to a batch, list or dict: one of ``objects``.

    Attributes:
        choice: the branch that decides which one it is, where that can be told.
    """

    objects: frozenset[Object]
    choice: Choice | None = None

    def joined(self, other: Any) -> Ref:
        """Return a reference that is this one, or the other value; ``None`` is left to the types."""
        if isinstance(other, Ref):
            return Ref(self.objects | other.objects)
        return self if _is_none(other) else Ref(self.objects | {SOMETHING})


def _is_none(value: Any) -> bool:
    return getattr(value, "value", ...) is None


class Presence(Enum):
    """Whether a batch has a field."""

    SURE = "on every way"
    SOME = "on some ways, by a branch that is known"
    UNKNOWN = "it cannot be told"
    ABSENT = "on no way"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a batch.

    Attributes:
        value: what it holds, as far as the engine follows it.
        line: the line that set it.
        sure: every way has set it.
        choice: the branch that decides whether it is there, where that can be told.
    """

    value: Any = None
    line: int = 0
    sure: bool = True
    choice: Choice | None = None

    @property
    def unsure(self) -> Field:
        """The field, which may be there or not."""
        return replace(self, sure=False, choice=None)


@dataclass(frozen=True, slots=True)
class Content:
    """The fields of a batch.

    Attributes:
        fields: those that some way has set.
        rest: what else there may be.
        absent: names of fields that were removed, each with the line.
        escaped: others hold it, too.
        widened: it may have got fields whose names are not known.
        source: the object that it is a copy of, where nothing is known of that.
    """

    fields: Mapping[str, Field] = field(default_factory=dict)
    rest: Rest = Rest.NONE
    absent: Mapping[str, int] = field(default_factory=dict)
    escaped: bool = False
    widened: bool = False
    source: Object | None = None

    def presence(self, name: str) -> Presence:
        """Return whether the batch has a field."""
        found = self.fields.get(name)
        if found is not None:
            if found.sure:
                return Presence.SURE
            return Presence.UNKNOWN if found.choice is None else Presence.SOME
        is_closed = self.rest is Rest.NONE and not self.escaped
        return Presence.ABSENT if is_closed or name in self.absent else Presence.UNKNOWN

    def with_field(self, name: str, new: Field) -> Content:
        """Return the content after a field was set."""
        absent = {one: line for one, line in self.absent.items() if one != name} if name in self.absent else self.absent
        return replace(self, fields={**self.fields, name: new}, absent=absent)

    def perhaps_with(self, name: str, new: Field, join: Callable[[Any, Any], Any]) -> Content:
        """Return the content after a field may have been set."""
        before = self.fields.get(name)
        if before is not None:
            return self.with_field(name, replace(before, value=join(before.value, new.value)))
        is_absent = self.presence(name) is Presence.ABSENT
        return self.with_field(name, replace(new.unsure, value=new.value if is_absent else join(new.value, None)))

    def without(self, name: str, line: int) -> Content:
        """Return the content after a field was removed."""
        left = {one: kept for one, kept in self.fields.items() if one != name}
        return replace(self, fields=left, absent={**self.absent, name: line})

    def opened(self) -> Content:
        """Return the content of a batch that may have got any field."""
        fields = {name: one.unsure if one.choice is not None else one for name, one in self.fields.items()}
        rest = Rest.OPEN if self.rest is Rest.NONE else self.rest
        return Content(fields, rest, {}, self.escaped, widened=True, source=self.source)

    def held(self) -> Content:
        """Return the content of a batch that others hold, too: they may give it fields that their code names."""
        return replace(self, absent={}, escaped=True)


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a list, tuple or dict.

    Attributes:
        known: items by their keys or positions.
        others: what any other item is; ``NOTHING`` if there are no others.
        escaped: others hold it, too.
        keyed: it is a dict.
    """

    known: Mapping[Any, Any] = field(default_factory=dict)
    others: Any = None
    escaped: bool = False
    keyed: bool = False

    def values(self) -> Iterator[Any]:
        """Yield what the items are."""
        yield from self.known.values()
        if self.others is not NOTHING:
            yield self.others


class Nothing(Enum):
    """The type of ``NOTHING``."""

    NOTHING = "no value"


NOTHING = Nothing.NOTHING
"""The value of an item that does not exist."""
