"""``Schema`` and its ``Field``: a protocol or record as data."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedbatch._tree.leaves import ARRAY, BATCH, DISTRIBUTION, KINDS, NONE, NUMBER, OBJECT, RAGGED, TENSOR, Kind
from typedbatch.rules import BatchRule, Rule
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort
from typedbatch.schema.dtypes import Dtypes
from typedbatch.schema.meta import MetaSchema

WITH_ROWS = Shape((Dim(Sort.NAMED, ROWS, implied=True), Dim(Sort.REST, "")), 1)
"""What a plain array or tensor has: rows, and anything behind them."""

NO_DIMS = Shape(())
"""What a number has."""


@dataclass(frozen=True, slots=True)
class Option:
    """One kind of value that a field takes.

    Attributes:
        kind: array, tensor, Batch, Ragged, distribution, object or None.
        cls: the class that it must be an instance of; None for any of that kind.
        dtypes: the dtypes that an array or tensor may have; None for any.
        shape: the shape of an array or tensor, or the ``batch_shape`` of a distribution.
        schema: what a nested batch must match, or the values of a Ragged, which have dimensions of their own; None for
            any batch, whose leaves then have N rows each.
        each: what every field of a nested batch must be, for ``dict[str, Array]``.
        own_sizes: in a nested batch names other than the rows' are sizes of its own, not those around it.
        choices: the values of a ``Literal``; empty for any.
        rules: what its values must fulfil, checked at the level ``"values"`` only.
    """

    kind: Kind
    cls: type | None = None
    dtypes: Dtypes | None = None
    shape: Shape = WITH_ROWS
    schema: Schema | None = None
    each: Field | None = None
    own_sizes: bool = False
    choices: tuple[object, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __str__(self) -> str:
        if self.choices:
            return f"{'one of ' * (len(self.choices) > 1)}{', '.join(map(repr, self.choices))}"
        if self.kind is BATCH:
            if self.schema is not None:
                return self.schema.name
            return "a Batch" if self.each is None else f"a Batch of {self.each.expects()} each"
        if self.kind is RAGGED:
            return "a Ragged" if self.schema is None else f"a Ragged[{self.schema.name}]"
        if self.kind in (ARRAY, TENSOR):
            return self._array()
        if self.cls is not None:
            return f"a {self.cls.__name__}"
        return _WORDS[self.kind]

    def _array(self) -> str:
        if not self.shape.dims:
            words = "number type" if self.dtypes is None else self.dtypes.words
            return _NUMBERS.get(words, f"a {words} number")
        words = f"a {self.cls.__name__}" if self.cls is not None else _WORDS[self.kind]
        words += f" of {self.dtypes.words.removeprefix('a ').removeprefix('an ')}" if self.dtypes is not None else ""
        return words + (f", shape {self.shape}" if self.shape != WITH_ROWS else "")


_WORDS = {
    ARRAY: "a numpy array",
    TENSOR: "a torch tensor",
    DISTRIBUTION: "a torch distribution",
    OBJECT: "an object",
    NONE: "None",
    NUMBER: "a number",
}
_NUMBERS = {
    "an integer type": "an integer",
    "a real number type": "a number",
    "a number type": "a number",
    "number type": "a number",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field.

    Attributes:
        name: its name.
        options: what it takes, in the order of the annotation; empty for any value.
        optional: it may be absent.
        declared_in: the class that declares it, ``"typedbatch.protocols.ObsBatchProtocol"``.
        place: file and line of that declaration, as far as Python keeps it.
        parameter: which type parameter of the protocol or record it is annotated with, from 0 on; None for none.
    """

    name: str
    options: tuple[Option, ...] = ()
    optional: bool = False
    declared_in: str = ""
    place: str = ""
    parameter: int | None = None

    @property
    def kinds(self) -> frozenset[Kind] | None:
        """The kinds of value it takes; None for any."""
        return frozenset(option.kind for option in self.options) or None

    @property
    def nested(self) -> tuple[Schema, ...]:
        """Schemas of which a nested batch must match one; empty for any batch."""
        batches = [option for option in self.options if option.kind is BATCH]
        schemas = tuple(option.schema for option in batches if option.schema is not None)
        return schemas if len(schemas) == len(batches) else ()

    def every_option(self) -> Iterator[Option]:
        """What it takes, and what the fields of a ``dict[str, ...]`` take."""
        for option in self.options:
            yield option
            if option.each is not None:
                yield from option.each.every_option()

    def takes_objects(self) -> bool:
        """True for a column of Python objects, ``NDArray[np.object_]``, or ``None`` in its place."""
        options = [option for option in self.options if option.kind is not NONE]
        return bool(options) and all(
            option.kind is ARRAY
            and option.dtypes is not None
            and option.dtypes.words == "object"
            and len(option.shape.dims) <= len(WITH_ROWS.dims)
            and option.shape.dims[1:] in ((), WITH_ROWS.dims[1:])
            for option in options
        )

    def takes_numbers(self) -> bool:
        """True if it takes arrays or tensors, and says of which dtypes, none of them for objects."""
        options = [option for option in self.options if option.kind in (ARRAY, TENSOR)]
        return bool(options) and all(
            option.dtypes is not None and not option.dtypes[np.dtype(object)] for option in options
        )

    def expects(self) -> str:
        """What the field takes, in words: ``"a numpy array"``, ``"a Batch or None"``."""
        return " or ".join(dict.fromkeys(map(str, self.options))) or "any value"


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Schema:
    """All fields of a protocol or record, in the order of the declaration, inherited ones first.

    It is made once for each protocol or record, and never changes.

    Attributes:
        name: as a person writes it, ``"RolloutBatchProtocol[Tensor]"``.
        target: the protocol or record class.
        place: file and line of its declaration.
        fields: what it declares.
        rules: what its values must fulfil together, checked at the level ``"values"`` only.
        meta: what it says of ``batch.meta``; None if nothing.
    """

    name: str
    target: type
    place: str = ""
    fields: tuple[Field, ...] = ()
    rules: tuple[BatchRule, ...] = ()
    meta: MetaSchema | None = None

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        fields = (f"    {field.name}{'?' if field.optional else ''}: {field.expects()}," for field in self.fields)
        meta = [f"    meta: {self.meta.name},"] if self.meta is not None else []
        lines = [*fields, *meta]
        return "\n".join([f"Schema({self.name}", *lines, ")"]) if lines else f"Schema({self.name})"

    def every_option(self, shared: bool = False) -> Iterator[Option]:
        """What all fields take, those of nested schemas included; a schema that is met again counts once.

        Args:
            shared: leave out nested schemas with sizes of their own.
        """
        schemas: dict[int, Schema] = {id(self): self}
        done = 0
        while done < len(schemas):
            schema = [*schemas.values()][done]
            done += 1
            for option in (option for field in schema.fields for option in field.every_option()):
                yield option
                if option.schema is not None and not (shared and option.own_sizes):
                    schemas.setdefault(id(option.schema), option.schema)

    def may_be_empty(self) -> bool:
        """True when every field may be absent, and all of the meta."""
        return all(field.optional for field in self.fields) and (self.meta is None or not self.meta.required())


def is_choice(value: Any, choices: tuple[object, ...]) -> bool:
    """True if an object, or a number without dimensions, is one of the values of a ``Literal``."""
    if KINDS[type(value)] is OBJECT:
        return any(isinstance(value, type(choice)) and value == choice for choice in choices)
    return not value.shape and value.item() in choices


def is_sized(cls: type | None) -> bool:
    """True for what asks for a length alone: ``Sized``, ``Collection``."""
    return cls is not None and cls.__module__ == "collections.abc" and issubclass(cls, Sized)
