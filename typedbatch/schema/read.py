"""From a declaration, a protocol or record class, to its ``Schema``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, Generic, Literal, Protocol, get_args, get_origin

import numpy as np
from typing_extensions import Format, get_annotations

from typedbatch._typing import Distribution
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError
from typedbatch.leaves import Kind
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord, bases_first, is_class_var
from typedbatch.schema.fields import Field, Schema
from typedbatch.schema.hints import Types, alternatives, resolve, scope_of, show

_NOT_SCHEMAS = {*BatchRecord.__mro__, BatchProtocol, Protocol, Generic}
_OPTIONS: dict[Any, tuple[Any, ...]] = {}
_SCHEMAS: dict[Any, Schema] = {}
_UNFINISHED: dict[Any, Schema] = {}
_READING = threading.RLock()


def is_schema(hint: Any) -> bool:
    """True for a protocol or record, parametrised or not, and for ``Batch`` itself."""
    cls = _class_of(hint)
    return isinstance(cls, type) and (BatchProtocol in cls.__mro__ or issubclass(cls, Batch))


def options_of(schema: Any) -> tuple[Any, ...]:
    """The schemas that a hint stands for: itself, or the parts of a union; aliases are looked through.

    Raises:
        DeclarationError: a part is neither a schema nor ``NoneType``.
    """
    try:
        return _OPTIONS[schema]
    except (KeyError, TypeError):  # not seen yet, or not hashable and so no schema
        pass
    options = alternatives(schema if isinstance(schema, str) else resolve(schema, {}, {}))
    for option in options:
        if not is_schema(option) and option is not type(None):
            raise DeclarationError(
                f"{show(option)} is no schema; a schema is a class that inherits from BatchProtocol or BatchRecord"
            )
    _OPTIONS[schema] = options
    return options


def schema_of(hint: Any) -> Schema:
    """The schema of a protocol or record; compiled at the first call, the same object ever after.

    Raises:
        DeclarationError: ``hint`` is neither, or a union, or one of its annotations cannot be read.
    """
    try:
        return _SCHEMAS[hint]
    except (KeyError, TypeError):
        pass
    options = options_of(hint)
    if len(options) != 1:
        raise DeclarationError(f"{show(hint)} is a union; what a batch becomes is one protocol or record")
    (hint,) = options
    with _READING:
        return _SCHEMAS.get(hint) or _UNFINISHED.get(hint) or _read(hint)


def _read(hint: Any) -> Schema:
    outermost = not _UNFINISHED
    schema = _UNFINISHED[hint] = Schema(show(hint), _class_of(hint))  # a field may be of this very type
    try:
        schema.fields = tuple(_fields(hint))
        if outermost:  # other threads, and later calls, see none of them before all of them can be read
            _SCHEMAS.update(_UNFINISHED)
    finally:
        if outermost:
            _UNFINISHED.clear()
    return schema


def _class_of(hint: Any) -> Any:
    origin = get_origin(hint)
    return hint if origin is None else origin


def _fields(hint: Any) -> Iterator[Field]:
    cls = _class_of(hint)
    bindings: dict[type, Types] = {}
    _bind(hint, {}, bindings)
    members: dict[str, tuple[type, Any, bool]] = {}
    for base in reversed(cls.__mro__):  # what comes first in the MRO declares the field
        if base not in _NOT_SCHEMAS:
            members.update((name, (base, hint, optional)) for name, hint, optional in _own_members(base))
    for name in dict.fromkeys(name for base in bases_first(cls) for name in _names(base)):
        base, annotation, optional = members[name]
        where = f"{base.__module__}.{base.__qualname__}"
        try:
            resolved = resolve(annotation, bindings.get(base, {}), scope_of(base))
            yield _field(name, resolved, optional, where)
        except DeclarationError as error:
            raise DeclarationError(f"{error.reason} ({where}.{name})") from error.__cause__


def _names(cls: type) -> list[str]:
    return [] if cls in _NOT_SCHEMAS else [name for name, _, _ in _own_members(cls)]


def _bind(hint: Any, outer: Types, bindings: dict[type, Types]) -> None:
    """Find what the type variables of a class and of all its bases stand for."""
    cls = _class_of(hint)
    if cls in bindings or not isinstance(cls, type):
        return
    args, bound = get_args(hint), dict[Any, Any]()
    for position, parameter in enumerate(getattr(cls, "__parameters__", ())):
        if position < len(args):
            bound[parameter] = resolve(args[position], outer, scope_of(cls))
        else:
            bound[parameter] = resolve(parameter, bound, scope_of(cls))
    bindings[cls] = bound
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        _bind(_with_names(base, cls), bound, bindings)


def _with_names(base: Any, cls: type) -> Any:
    """A base class with its forward references replaced, as in ``class A(RolloutBatch[Array, "Later"])``."""
    if not get_args(base) or _class_of(base) in _NOT_SCHEMAS:
        return base
    keep = {parameter: parameter for parameter in getattr(base, "__parameters__", ())}
    return resolve(base, keep, scope_of(cls))


def _own_members(cls: type) -> Iterator[tuple[str, Any, bool]]:
    for name, hint in get_annotations(cls, format=Format.FORWARDREF).items():
        if name[:2] != "__" and not is_class_var(hint):
            yield name, hint, name in cls.__dict__
    for name, member in cls.__dict__.items():
        if isinstance(member, property) and member.fget is not None and BatchProtocol in cls.__mro__:
            yield name, getattr(member.fget, "__annotations__", {}).get("return", Any), False


def _field(name: str, hint: Any, optional: bool, where: str) -> Field:
    kinds: set[Kind] = set()
    nested: list[Schema] = []
    classes: list[type] = []
    any_batch = any_object = rows = numbers = False
    for part in alternatives(hint):
        cls = _class_of(part)
        if part is Any or part is object:
            return Field(name, rows=True, numbers=True, optional=optional, declared_in=where)
        if is_schema(part):
            kinds.add(Kind.BATCH)
            any_batch |= cls in _NOT_SCHEMAS
            nested += [] if cls in _NOT_SCHEMAS else [schema_of(part)]
            continue
        for kind, has_rows, asked in _values_of(part, cls):
            kinds.add(kind)
            if kind in (Kind.ARRAY, Kind.TENSOR):
                rows, numbers = rows or has_rows, numbers or not has_rows
            elif kind in (Kind.OBJECT, Kind.DISTRIBUTION):
                any_object |= asked is None
                classes += [] if asked is None else [asked]
    return Field(
        name,
        frozenset(kinds),
        () if any_batch else tuple(nested),
        () if any_object else tuple(classes),
        rows,
        numbers,
        optional,
        where,
    )


def _values_of(part: Any, cls: Any) -> Iterator[tuple[Kind, bool, type | None]]:
    """Kind, whether with rows, and class of the values that one part of an annotation takes, as a batch stores them."""
    if part is None or part is type(None):
        yield Kind.NONE, False, None
    elif cls is Literal:
        for value in get_args(part):
            yield from _values_of(type(value), type(value))
    elif hasattr(part, "array_type"):  # a jaxtyping annotation, as Float[Tensor, "N"]
        for array_type in alternatives(part.array_type):
            yield (Kind.ARRAY if array_type is Any else _kind_of_class(array_type)), part.dims != (), None
    elif not isinstance(cls, type):
        yield Kind.OBJECT, False, None
    elif issubclass(cls, (Number, np.generic)):
        for kind in (Kind.ARRAY, Kind.SCALAR, Kind.TENSOR):
            yield kind, False, None
    elif issubclass(cls, Sequence) and not issubclass(cls, (str, bytes)):
        yield Kind.ARRAY, True, None
        yield Kind.TENSOR, True, None
    else:
        yield _kind_of_class(cls), True, _asked(cls)


def _kind_of_class(cls: type) -> Kind:
    if cls is Distribution:
        return Kind.DISTRIBUTION
    if issubclass(cls, np.ndarray):
        return Kind.ARRAY
    if issubclass(cls, Mapping):
        return Kind.BATCH
    torch: Any = sys.modules.get("torch")
    if torch is not None and issubclass(cls, torch.Tensor):
        return Kind.TENSOR
    if torch is not None and issubclass(cls, torch.distributions.Distribution):
        return Kind.DISTRIBUTION
    return Kind.OBJECT


def _asked(cls: type) -> type | None:
    """``cls`` if ``isinstance`` can be asked about it; a plain Protocol cannot."""
    try:
        isinstance(None, cls)
    except TypeError:
        return None
    return None if cls is Distribution else cls
