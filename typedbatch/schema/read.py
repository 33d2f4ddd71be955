"""From a declaration, a protocol or record class, to its ``Schema``."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator, Mapping
from numbers import Number
from typing import Annotated, Any, Generic, Protocol, TypeVar, Union, get_args, get_origin

import numpy as np
from typing_extensions import Format, NoDefault, get_annotations

from typedbatch._typing import Distribution
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError
from typedbatch.leaves import Kind, kind_of
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord
from typedbatch.schema.fields import Field, Schema

Types = Mapping[Any, Any]
"""What each type variable stands for."""

_NOT_SCHEMAS = {*BatchRecord.__mro__, BatchProtocol, Protocol, Generic}
_SCHEMAS: dict[Any, Schema] = {}
_UNFINISHED: dict[Any, Schema] = {}
_READING = threading.RLock()


def is_schema(hint: object) -> bool:
    """True for a protocol or record, parametrised or not, and for ``Batch`` itself."""
    cls = get_origin(hint) or hint
    return isinstance(cls, type) and (BatchProtocol in cls.__mro__ or issubclass(cls, Batch))


def schema_of(hint: Any) -> Schema:
    """The schema of a protocol or record; compiled at the first call, the same object ever after.

    Raises:
        DeclarationError: ``hint`` is neither, or one of its annotations cannot be read.
    """
    try:
        return _SCHEMAS[hint]
    except (KeyError, TypeError):
        pass
    if not is_schema(hint):
        raise DeclarationError(
            f"{_show(hint)} is no schema; a schema is a class that inherits from BatchProtocol or BatchRecord"
        )
    with _READING:
        return _UNFINISHED[hint] if hint in _UNFINISHED else _read(hint)


def _read(hint: Any) -> Schema:
    schema = Schema(_show(hint), get_origin(hint) or hint)
    _UNFINISHED[hint] = schema  # a field may be of this very type; other threads see it once it is complete
    try:
        fields = {field.name: field for field in _fields(schema.target, _bind(hint, {}))}
        schema.fields = tuple(fields.values())
    finally:
        del _UNFINISHED[hint]
    return _SCHEMAS.setdefault(hint, schema)


def _bind(hint: Any, outer: Types) -> Types:
    """What the type variables of ``hint``'s class stand for: its arguments, else the variables' defaults."""
    cls = get_origin(hint) or hint
    parameters = getattr(cls, "__parameters__", ())
    args = get_args(hint)
    bound: dict[Any, Any] = {}
    for position, parameter in enumerate(parameters):
        arg = args[position] if position < len(args) else parameter
        # an argument may be a variable of the class that names the base, or one of this class, as a default is
        arg = outer.get(arg, arg) if isinstance(arg, TypeVar) else arg
        bound[parameter] = _settle(arg, bound)
    return bound


def _settle(hint: Any, types_: Types) -> Any:
    if not isinstance(hint, TypeVar):
        return hint
    if hint in types_:
        return types_[hint]
    default = getattr(hint, "__default__", NoDefault)
    if default is not NoDefault and default is not None:
        return _settle(default, types_)
    return hint.__bound__ or Any


def _fields(cls: type, types_: Types) -> Iterator[Field]:
    if cls in _NOT_SCHEMAS:
        return
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        yield from _fields(origin, _bind(base, types_))
    for name, hint, optional in _own_members(cls):
        where = f"{cls.__module__}.{cls.__qualname__}"
        try:
            yield _field(name, hint, types_, optional, where)
        except DeclarationError as error:
            raise DeclarationError(f"{error.reason} ({where}.{name})") from None


def _own_members(cls: type) -> Iterator[tuple[str, Any, bool]]:
    for name, hint in get_annotations(cls, format=Format.FORWARDREF).items():
        if not name.startswith("_") and "ClassVar" not in str(hint):
            yield name, _evaluate(hint, cls, name), name in cls.__dict__
    for name, member in cls.__dict__.items():
        if isinstance(member, property) and member.fget is not None and BatchProtocol in cls.__mro__:
            hint = getattr(member.fget, "__annotations__", {}).get("return", Any)
            yield name, _evaluate(hint, cls, name), False


def _evaluate(hint: Any, cls: type, name: str) -> Any:
    """An annotation as an object; ``from __future__ import annotations`` makes it a string first."""
    if not isinstance(hint, str):
        return hint
    scope = vars(sys.modules.get(cls.__module__, types.ModuleType("")))
    try:
        return eval(hint, dict(scope), {**vars(cls), cls.__name__: cls})  # the class's own source, as typing does
    except Exception as error:
        raise DeclarationError(
            f"cannot read the annotation {hint!r} of {cls.__qualname__}.{name}: {error}; "
            "names in it must be importable from the module, not from a function or under TYPE_CHECKING"
        ) from error


def _field(name: str, hint: Any, types_: Types, optional: bool, where: str) -> Field:
    kinds: set[Kind] = set()
    nested: list[Schema] = []
    classes: list[type] = []
    has_rows = True
    for part in _alternatives(hint, types_):
        origin = get_origin(part) or part
        if part is Any or part is object:
            return Field(name, optional=optional, declared_in=where)
        if is_schema(part):
            kinds.add(Kind.BATCH)
            if origin not in _NOT_SCHEMAS:
                nested.append(schema_of(_close(part, types_)))
        elif part is None or part is type(None):
            kinds.add(Kind.NONE)
        elif _is_number(origin):
            kinds |= {Kind.ARRAY, Kind.SCALAR, Kind.TENSOR}
            has_rows = False
        else:
            kind = _kind_of_class(origin, part)
            kinds.add(kind)
            if kind in (Kind.OBJECT, Kind.DISTRIBUTION) and isinstance(origin, type) and origin is not Distribution:
                classes.append(origin)
    return Field(name, frozenset(kinds), tuple(nested), tuple(classes), has_rows, optional, where)


def _alternatives(hint: Any, types_: Types) -> Iterator[Any]:
    hint = _settle(hint, types_)
    hint = getattr(hint, "__value__", hint)  # type X = ...
    if get_origin(hint) is Annotated:
        yield from _alternatives(get_args(hint)[0], types_)
    elif get_origin(hint) in (Union, types.UnionType):
        for arg in get_args(hint):
            yield from _alternatives(arg, types_)
    else:
        yield hint


def _close(hint: Any, types_: Types) -> Any:
    """``hint`` with its type variables replaced, as ``PixelObs[K_co]`` inside ``Rollout[Tensor]``."""
    if not get_args(hint):
        return hint
    args = tuple(_settle(arg, types_) for arg in get_args(hint))
    return get_origin(hint)[args]


def _is_number(origin: Any) -> bool:
    return isinstance(origin, type) and (issubclass(origin, (Number, np.generic)) and origin is not Number)


def _kind_of_class(origin: Any, part: Any) -> Kind:
    array_type = getattr(part, "array_type", None)  # a jaxtyping annotation, as Float[Tensor, "N"]
    if array_type is not None:
        return Kind.ARRAY if array_type is Any else _kind_of_class(array_type, array_type)
    if origin is Distribution:
        return Kind.DISTRIBUTION
    if not isinstance(origin, type):
        return Kind.OBJECT
    if issubclass(origin, np.ndarray):
        return Kind.ARRAY
    if issubclass(origin, Mapping):
        return Kind.BATCH
    torch: Any = sys.modules.get("torch")
    if torch is not None and issubclass(origin, torch.Tensor):
        return Kind.TENSOR
    if torch is not None and issubclass(origin, torch.distributions.Distribution):
        return Kind.DISTRIBUTION
    return Kind.OBJECT


def _show(hint: Any) -> str:
    """A type as a person writes it, with the arguments that were given."""
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    origin = get_origin(hint)
    # numpy's own arguments, NDArray[Any] for one, are long and say little
    given = [] if origin is np.ndarray else [arg for arg in get_args(hint) if not isinstance(arg, TypeVar)]
    if origin is None:
        return str(hint) if kind_of(hint) is not Kind.BATCH else "a Batch instance"
    return f"{origin.__name__}[{', '.join(map(_show, given))}]" if given else str(origin.__name__)
