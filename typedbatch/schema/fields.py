"""``Schema`` and its ``Field``: a protocol or record as data."""

from __future__ import annotations

from dataclasses import dataclass

from typedbatch.leaves import Kind


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field.

    Attributes:
        name: its name.
        kinds: the kinds of value it takes; None for any.
        nested: schemas of which a nested batch must match one; empty for any batch.
        classes: classes of which an object or distribution must be an instance; empty for any.
        rows: arrays and tensors with rows are taken; they count for the shared dimension.
        numbers: a number, or an array or tensor without rows, is taken.
        optional: it may be absent.
        declared_in: the class that declares it, ``"typedbatch.protocols.ObsBatchProtocol"``.
    """

    name: str
    kinds: frozenset[Kind] | None = None
    nested: tuple[Schema, ...] = ()
    classes: tuple[type, ...] = ()
    rows: bool = True
    numbers: bool = False
    optional: bool = False
    declared_in: str = ""

    def expects(self) -> str:
        """What the field takes, in words: ``"a numpy array"``, ``"a Batch or None"``."""
        if self.kinds is None:
            return "any value"
        words = [schema.name for schema in self.nested] or [_WORDS[Kind.BATCH]] * (Kind.BATCH in self.kinds)
        words += [word for kind, word in _ROWS.items() if kind in self.kinds and self.rows]
        words += ["a number"] * self.numbers
        words += [f"a {cls.__name__}" for cls in self.classes]
        words += [word for kind, word in _OBJECTS.items() if kind in self.kinds and not self.classes]
        words += ["None"] * (Kind.NONE in self.kinds)
        return " or ".join(words)


_WORDS = {Kind.BATCH: "a Batch"}
_ROWS = {Kind.ARRAY: "a numpy array", Kind.TENSOR: "a torch tensor"}
_OBJECTS = {Kind.DISTRIBUTION: "a torch distribution", Kind.OBJECT: "an object"}


@dataclass(eq=False, slots=True)
class Schema:
    """All fields of a protocol or record, in the order of the declaration, inherited ones first.

    Attributes:
        name: as a person writes it, ``"RolloutBatchProtocol[Tensor]"``.
        target: the protocol or record class.
        fields: what it declares; filled in right after the Schema is made, so that a schema may contain itself.
    """

    name: str
    target: type
    fields: tuple[Field, ...] = ()

    def may_be_empty(self) -> bool:
        """True when every field may be absent."""
        return all(field.optional for field in self.fields)
