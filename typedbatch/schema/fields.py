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
        has_rows: False for a field declared as one number, whose length is not looked at.
        optional: it may be absent.
        declared_in: the class that declares it, ``"typedbatch.protocols.ObsBatchProtocol"``.
    """

    name: str
    kinds: frozenset[Kind] | None = None
    nested: tuple[Schema, ...] = ()
    classes: tuple[type, ...] = ()
    has_rows: bool = True
    optional: bool = False
    declared_in: str = ""

    def expects(self) -> str:
        """What the field takes, in words: ``"a numpy array"``, ``"a Batch or None"``."""
        if self.kinds is None:
            return "any value"
        words = [schema.name for schema in self.nested] or [_WORDS[Kind.BATCH]] * (Kind.BATCH in self.kinds)
        words += [word for kind, word in _WORDS.items() if kind in self.kinds and kind is not Kind.BATCH]
        if self.classes:
            words = [word for word in words if word not in (_WORDS[Kind.OBJECT], _WORDS[Kind.DISTRIBUTION])]
            words[:0] = [f"a {cls.__name__}" for cls in self.classes]
        if not self.has_rows:
            words = ["a number" if word == _WORDS[Kind.ARRAY] else word for word in words]
        return " or ".join(words)


_WORDS = {
    Kind.ARRAY: "a numpy array",
    Kind.TENSOR: "a torch tensor",
    Kind.BATCH: "a Batch",
    Kind.DISTRIBUTION: "a torch distribution",
    Kind.OBJECT: "an object",
    Kind.NONE: "None",
}


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
