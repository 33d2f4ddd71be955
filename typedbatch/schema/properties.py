"""Fields as attribute access reads them: the stored value, unless the class has a property of that name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from typedbatch.schema.fields import Schema


class Computed(dict[type, frozenset[str]]):
    """The declared fields that each class of batches computes by a property, cached per class."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names: tuple[str, ...] = tuple(names)

    def __missing__(self, cls: type) -> frozenset[str]:
        found: set[str] = set()
        for name in self.names:
            # Python prefers a member of the class to the instance's __dict__ only if it has __set__ or __delete__.
            member = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
            if hasattr(type(member), "__set__") or hasattr(type(member), "__delete__"):
                found.add(name)
        self[cls] = frozenset(found)
        return self[cls]


@cache
def computed_in(schema: Schema) -> Computed:
    """Return the fields of a schema that each class of batches computes."""
    return Computed(field.name for field in schema.fields)


def as_read(batch: Any, names: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a batch, with the values of properties for the fields in ``names``."""
    return {**batch.__dict__, **{name: getattr(batch, name) for name in names}}
