"""Fields as attribute access reads them: the stored value, unless the class has a property of that name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from typedbatch._core.compiling import called_while_compiling
from typedbatch.schema.fields import Schema


class Computed(dict[type, frozenset[str]]):
    """The declared fields that each class of batches computes by a property, cached per class."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names: tuple[str, ...] = tuple(names)

    def __missing__(self, cls: type) -> frozenset[str]:
        self[cls] = _computed_by(cls, self.names)
        return self[cls]


@called_while_compiling  # or torch.compile guards the names of all members of the class and its bases
def _computed_by(cls: type, names: tuple[str, ...]) -> frozenset[str]:
    found = set[str]()
    for name in names:
        # Python prefers a member of the class to the instance's __dict__ only if it has __set__ or __delete__.
        member = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        if hasattr(type(member), "__set__") or hasattr(type(member), "__delete__"):
            found.add(name)
    return frozenset(found)


@cache
def computed_in(schema: Schema) -> Computed:
    """Return the fields of a schema that each class of batches computes."""
    return Computed(field.name for field in schema.fields)


def as_read(batch: Any, names: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a batch, with the values of properties for the fields in ``names``."""
    return {**batch.__dict__, **{name: getattr(batch, name) for name in names}}
