"""What a reader of ``batch.name`` gets: what is stored, unless the class of the batch has a property of that name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from typedbatch.schema.fields import Schema


class Computed(dict[type, frozenset[str]]):
    """For each class of batches, which declared fields its readers get from a property; worked out once per class."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names: tuple[str, ...] = tuple(names)

    def __missing__(self, cls: type) -> frozenset[str]:
        found = self[cls] = frozenset(name for name in self.names if _comes_first(cls, name))
        return found


@cache
def computed_in(schema: Schema) -> Computed:
    """The fields of a schema that a class of batches computes."""
    return Computed(field.name for field in schema.fields)


def as_read(batch: Any, names: frozenset[str]) -> dict[str, Any]:
    """The fields of a batch, those of ``names`` as its properties give them."""
    return {**batch.__dict__, **{name: getattr(batch, name) for name in names}}


def _comes_first(cls: type, name: str) -> bool:
    # Of what a class has, Python asks only what can be set, or deleted, before it looks at what is stored.
    member = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return hasattr(type(member), "__set__") or hasattr(type(member), "__delete__")
