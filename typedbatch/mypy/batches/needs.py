"""What a function reads of the batches that it is given, before it writes anything to them, in every run."""

from __future__ import annotations

from dataclasses import dataclass, field

from typedbatch.mypy.batches.content import Object


@dataclass
class Needs:
    """Fields that a function reads of its parameters.

    Attributes:
        read: names of the fields by objects, each with the line.
    """

    read: dict[Object, dict[str, int]] = field(default_factory=dict)

    def add(self, one: Object, name: str, line: int) -> None:
        """Note that a field is read."""
        self.read.setdefault(one, {}).setdefault(name, line)
