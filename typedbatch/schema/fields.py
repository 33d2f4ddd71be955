"""``Schema`` and ``Field``: the fields of a protocol or record as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from typedbatch._core.compiling import called_while_compiling
from typedbatch._core.kinds import KINDS, OBJECT, Kind, is_objects
from typedbatch._markers import Role, Steps
from typedbatch.rules import BatchRule, Rule
from typedbatch.schema.declared_meta import MetaSchema
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort
from typedbatch.schema.dtypes import Dtypes

WITH_ROWS = Shape((Dim(Sort.NAMED, ROWS, implied=True), Dim(Sort.REST, "")), 1)
"""The shape of a plain array or tensor: rows, and any dimensions after them."""

NO_DIMS = Shape(())
"""The shape of a number."""
_WORDS = {
    Kind.ARRAY: "a numpy array",
    Kind.TENSOR: "a torch tensor",
    Kind.DISTRIBUTION: "a torch distribution",
    Kind.OBJECT: "an object",
    Kind.NONE: "None",
    Kind.NUMBER: "a number",
}
_NUMBERS = {
    "an integer type": "an integer",
    "a real number type": "a number",
    "a number type": "a number",
    "number type": "a number",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One kind of value that a field takes.

    Attributes:
        kind: Kind of the value: array, tensor, Batch, Ragged, distribution, number, object or None.
        cls: Class of the value, or None for any class of the kind.
        dtypes: Allowed dtypes of an array or tensor, or None for any.
        shape: Shape of an array or tensor, or ``batch_shape`` of a distribution.
        schema: Schema of a nested batch, or of the values of a Ragged, whose named sizes are local to them. None for
            any batch, whose leaves then have N rows each.
        each: Declaration of every field in a nested batch, for ``dict[str, Array]``.
        own_sizes: Whether named sizes in a nested batch, other than the rows, are local to it.
        choices: Values of a ``Literal``; empty for any value.
        rules: Rules on the values, checked at the level ``"values"`` only.
        no_gradient: Whether a tensor that requires a gradient is refused.
        no_objects: Whether an array of objects other than text is refused, although any dtype is declared.
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
    no_gradient: bool = False
    no_objects: bool = False

    @property
    def has_shape(self) -> bool:
        """Return whether its values are arrays, tensors or distributions."""
        return self.kind in (Kind.ARRAY, Kind.TENSOR, Kind.DISTRIBUTION)

    def __str__(self) -> str:
        if self.choices:
            return f"{'one of ' * (len(self.choices) > 1)}{', '.join(map(repr, self.choices))}"
        if self.kind is Kind.BATCH:
            if self.schema is not None:
                return self.schema.name
            return "a Batch" if self.each is None else f"a Batch of {self.each.expects()} each"
        if self.kind is Kind.RAGGED:
            return "a Ragged" if self.schema is None else f"a Ragged[{self.schema.name}]"
        if self.kind in (Kind.ARRAY, Kind.TENSOR):
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


@dataclass(frozen=True, slots=True)
class Field:
    """A declared field.

    Attributes:
        name: Name of the field.
        options: Kinds of value that it takes, in the order of the annotation; empty for any value.
        optional: Whether it may be absent.
        declared_in: Class that declares it, ``"typedbatch.protocols.ObsBatchProtocol"``.
        place: File and line of the declaration; empty if Python does not record them.
        parameter: Index of the type parameter of the protocol or record that is its annotation, or None.
        steps: Whether it has one number per step, or begins with the axes of the steps.
        role: What it is, whatever its name; None if that is not declared.
    """

    name: str
    options: tuple[Option, ...] = ()
    optional: bool = False
    declared_in: str = ""
    place: str = ""
    parameter: int | None = None
    steps: Steps = Steps.NONE
    role: Role | None = None

    @property
    def kinds(self) -> frozenset[Kind] | None:
        """The kinds of value that the field takes, or None for any."""
        return frozenset(option.kind for option in self.options) or None

    @property
    def nested(self) -> tuple[Schema, ...]:
        """The schemas of which a nested batch must match at least one; empty for any batch."""
        batches = [option for option in self.options if option.kind is Kind.BATCH]
        schemas = tuple(option.schema for option in batches if option.schema is not None)
        return schemas if len(schemas) == len(batches) else ()

    def every_option(self) -> Iterator[Option]:
        """Yield the options of the field, and those of the fields of a ``dict[str, ...]``."""
        for option in self.options:
            yield option
            if option.each is not None:
                yield from option.each.every_option()

    def dim(self, axis: int) -> Dim | None:
        """Return a dimension of its arrays, or None if it may have any size or is not declared in one way."""
        shapes = [option.shape.before for option in self.every_option() if option.has_shape]
        dims = {shape[axis] if axis < len(shape) else None for shape in shapes}
        return dim if len(dims) == 1 and (dim := dims.pop()) and dim.sort is not Sort.ANY else None

    def takes_none(self) -> bool:
        """Return True if the field may be None."""
        return any(option.kind is Kind.NONE for option in self.options)

    def takes_objects(self) -> bool:
        """Return True for a column of Python objects, ``NDArray[np.object_]``, or its union with None."""
        options = [option for option in self.options if option.kind is not Kind.NONE]
        return bool(options) and all(
            option.kind is Kind.ARRAY
            and option.dtypes is not None
            and option.dtypes.words == "object"
            and len(option.shape.dims) <= len(WITH_ROWS.dims)
            and option.shape.dims[1:] in ((), WITH_ROWS.dims[1:])
            for option in options
        )

    def takes_numbers(self) -> bool:
        """Return True if it takes arrays, or arrays and tensors of declared dtypes, but no objects."""
        options = [option for option in self.options if option.kind in (Kind.ARRAY, Kind.TENSOR)]
        return bool(options) and all(
            option.no_objects or (option.dtypes is not None and not option.dtypes[np.dtype(object)])
            for option in options
        )

    def expects(self) -> str:
        """Return a description of the values it takes: ``"a numpy array"``, ``"a Batch or None"``."""
        return " or ".join(dict.fromkeys(map(str, self.options))) or "any value"


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Schema:
    """All fields of a protocol or record, in the order of the declaration, inherited ones first.

    It is created once for each protocol or record, and never changes.

    Attributes:
        name: Name as written in code, ``"RolloutBatchProtocol[Tensor]"``.
        target: Class of the protocol or record.
        place: File and line of its declaration; empty if Python does not record them.
        fields: Declared fields.
        rules: Rules across fields, checked at the level ``"values"`` only.
        meta: Declaration of ``batch.meta``, or None.
        nested: :attr:`Field.nested` of each field, by name.
        computed: Fields that each class of batches computes by a property.
    """

    name: str
    target: type
    place: str = ""
    fields: tuple[Field, ...] = ()
    rules: tuple[BatchRule, ...] = ()
    meta: MetaSchema | None = None
    nested: Mapping[str, tuple[Schema, ...]] = dataclasses.field(init=False)
    computed: Computed = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.set_fields(self.fields)

    def set_fields(self, fields: tuple[Field, ...]) -> None:
        """Set the fields, which in a schema that nests itself refer to it."""
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "nested", {each.name: each.nested for each in fields})
        object.__setattr__(self, "computed", Computed(each.name for each in fields))

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
        """Yield the options of all fields and nested schemas once each; ``shared`` leaves out those with own sizes."""
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
        """Return True if every field and every key of the meta may be absent."""
        return all(field.optional for field in self.fields) and (self.meta is None or not self.meta.required())


def holds_objects(array: Any) -> bool:
    """Return True for an array of objects other than text, which a batch stores as objects too."""
    types = set(map(type, np.ma.getdata(array).flat)) if is_objects(array) else ()
    return not all(issubclass(cls, (str, bytes, NoneType)) for cls in types) or types == {NoneType}


def is_choice(value: Any, choices: tuple[object, ...]) -> bool:
    """Return True if an object, or a number without dimensions, is one of the values of a ``Literal``."""
    if KINDS[type(value)] is OBJECT:
        return any(isinstance(value, type(choice)) and value == choice for choice in choices)
    return not value.shape and value.item() in choices


def is_sized(cls: type | None) -> bool:
    """Return True for an abstract class that requires a length: ``Sized``, ``Collection``."""
    return cls is not None and cls.__module__ == "collections.abc" and issubclass(cls, Sized)


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


def as_read(batch: Any, names: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a batch as attribute access reads them, with the values of properties for ``names``."""
    return {**batch.__dict__, **{name: getattr(batch, name) for name in names}} if names else batch.__dict__
