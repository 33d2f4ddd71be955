"""Classes and functions that this package ships, by their full names, with their fields and parameters.

Nothing else is imported: of the program's own modules, and of other libraries, the run sees names alone.
"""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from typedbatch._core.kinds import Kind
from typedbatch._markers import Steps
from typedbatch._program.arrays.declared import ONE_PER_STEP, STEPS_FIRST
from typedbatch._program.arrays.declared import Declared as DeclaredArray
from typedbatch._program.arrays.dtypes import BOOL, NUMBERS
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError
from typedbatch.protocols import BatchProtocol
from typedbatch.schema import schema_of

_PACKAGE: Final = "typedbatch"
_LIBRARIES: Final = (Kind.ARRAY, Kind.TENSOR)
_CLASSES: Final = {
    Kind.ARRAY: "numpy.ndarray", Kind.BATCH: "typedbatch.Batch", Kind.NONE: "builtins.None",
    Kind.TENSOR: "torch.Tensor",
}  # fmt: skip
MEMBERS: Final = frozenset({*dir(Batch), "meta"})
"""Names that a batch has beside its fields."""
GROUPS: Final = "typedbatch.rows.Groups"
OF_GROUPS: Final = ("mean", "std", "leave_one_out")
"""Methods of groups that return a statistic for each row."""


class Declared(NamedTuple):
    """Fields of a record or protocol: those that must be there, and those that may be left out."""

    required: frozenset[str]
    optional: frozenset[str]


class ShippedArray(NamedTuple):
    """A declared array of a field.

    Attributes:
        array: Its shape and dtype.
        parameter: Index of the type parameter that says whether it is torch's; None if the declaration does.
    """

    array: DeclaredArray
    parameter: int | None


class ShippedKinds(NamedTuple):
    """Classes of the values that a field takes.

    Attributes:
        classes: Full names of the classes of its values.
        parameter: Index of the type parameter that says it in their place; None if the declaration does.
    """

    classes: tuple[str, ...]
    parameter: int | None


class Parameter(NamedTuple):
    """A parameter of a function of this package, and its class, if that is a class of batches."""

    name: str
    is_positional: bool
    type: type | None


@cache
def shipped(name: str) -> Any:
    """Return what this package has under a full name, or None."""
    parts = name.split(".")
    if parts[0] != _PACKAGE:
        return None
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found
    return None


@cache
def declared_by(cls: object) -> Declared | None:
    """Return the fields of a record or protocol of this package; None for other classes and for Batch."""
    if not isinstance(cls, type) or cls is Batch or not (issubclass(cls, Batch) or BatchProtocol in cls.__mro__):
        return None
    try:
        fields = schema_of(cls).fields
    except DeclarationError:
        return Declared(frozenset(), frozenset())
    optional = frozenset(field.name for field in fields if field.optional)
    return Declared(frozenset(field.name for field in fields) - optional, optional)


@cache
def arrays_of(cls: object) -> Mapping[str, ShippedArray]:
    """Return the declared shapes of the required fields of a record or protocol of this package."""
    if declared_by(cls) is None:
        return {}
    found: dict[str, ShippedArray] = {}
    for field in schema_of(cls).fields:
        if field.optional or len(field.options) != 1 or field.options[0].kind not in _LIBRARIES:
            continue
        option = field.options[0]
        dtypes = _dtypes_of(option.dtypes)
        shape = {Steps.ONE: ONE_PER_STEP, Steps.FIRST: STEPS_FIRST}.get(field.steps)
        if not option.shape.dims or not option.shape.dims[0].implied:
            shape = option.shape
        if shape is not None:
            array = DeclaredArray(shape, dtypes, torch=option.kind is Kind.TENSOR)
            found[field.name] = ShippedArray(array, field.parameter)
    return found


@cache
def shipped_kinds(cls: object) -> Mapping[str, ShippedKinds]:
    """Return what the fields of a record or protocol of this package take, where that is known."""
    if not declared_by(cls):
        return {}
    found: dict[str, ShippedKinds] = {}
    for field in schema_of(cls).fields:
        classes = [
            name_in_full(option.schema.target) if option.schema is not None else _CLASSES.get(option.kind, "")
            for option in field.options
        ]
        if classes and all(classes):
            found[field.name] = ShippedKinds(tuple(classes), field.parameter)
    return found


def name_in_full(cls: type) -> str:
    """Return the name under which a class of this package is shipped."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _dtypes_of(dtypes: Any) -> frozenset[str] | None:
    """Return the names of dtypes that a field may have; None for any."""
    if dtypes is None:
        return None
    return (
        frozenset(
            name
            for name in BOOL | NUMBERS
            if any(name == one if isinstance(one, str) else one.match(name) is not None for one in dtypes.names)
        )
        or None
    )


@cache
def parameters_of(function: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a function of this package."""
    try:
        hints = typing.get_type_hints(function)
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError, NameError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(Parameter(one.name, one.kind in positional, _class_of(hints.get(one.name))) for one in parameters)


def _class_of(hint: Any) -> type | None:
    hint = typing.get_origin(hint) or hint
    if isinstance(hint, typing.TypeVar):
        hint = typing.get_origin(hint.__bound__) or hint.__bound__
    return hint if isinstance(hint, type) else None
