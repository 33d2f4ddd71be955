"""Validation of batches inside containers and iterators: ``list[RolloutBatch]``, ``Iterator[RolloutBatch]``."""

from __future__ import annotations

import collections.abc as abc
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import Format, ReadOnly, get_annotations

from typedbatch._core.kinds import Tree
from typedbatch._core.level import Level
from typedbatch._validation.validate import Boundary, Validator, validator_of
from typedbatch.errors import DeclarationError, SchemaError
from typedbatch.schema.annotations import alternatives, bare, resolve, scope_of
from typedbatch.schema.read import is_bare_protocol, is_schema, options_of
from typedbatch.schema.values import class_of

_MAPPINGS = (dict, defaultdict, OrderedDict, abc.Mapping, abc.MutableMapping)
_WITH_FIELDS = ("__dataclass_fields__", "__attrs_attrs__", "_fields", "__total__")
_KEYS = (Required, NotRequired, ReadOnly)
_ABSENT: Any = object()


def find_validator(hint: Any, outer: tuple[Any, ...] = ()) -> Validator | None:
    """Return the validator for values with a resolved annotation; None if the annotation has no batch in it."""
    hint, _ = bare(hint)
    options = [bare(option)[0] for option in alternatives(hint)]
    schemas = [option for option in options if is_schema(option)]
    if schemas and all(is_schema(option) or option is type(None) for option in options):
        return validator_of(hint)
    if len(options) > 1:
        return _validator_in_union(options, outer)
    cls, args = class_of(hint), get_args(hint)
    if is_bare_protocol(cls):
        return partial(_refuse_batches, cls)
    if validators := field_validators(hint, outer):
        return partial(_with_fields, cls, validators)
    if not isinstance(cls, type) or not args:
        return None
    if cls is tuple:
        return _validator_in_tuple(args, outer)
    # The values in any other class, for example a buffer or a task, could be replaced only in another object.
    inside, inner = _INSIDE.get(cls), args[-1] if cls in _MAPPINGS else args[0]
    validator = None if inside is None else find_validator(inner, outer)
    return None if inside is None or validator is None else partial(inside, validator)


def field_validators(hint: Any, outer: tuple[Any, ...] = ()) -> dict[str, Validator]:
    """Return the validators of the fields of a dataclass, attrs class, named tuple or TypedDict that hold batches."""
    cls, found = class_of(hint), dict[str, Validator]()
    if not isinstance(cls, type) or cls in outer or not any(hasattr(cls, name) for name in _WITH_FIELDS):
        return found
    types = dict(zip(getattr(cls, "__parameters__", ()), get_args(hint), strict=False))
    for base in reversed(cls.__mro__):
        for name, annotation in get_annotations(base, format=Format.FORWARDREF).items():
            with suppress(DeclarationError):  # Its names cannot be read at run time.
                declared = resolve(annotation, types, scope_of(base))
                while get_origin(declared) in _KEYS:
                    declared = resolve(get_args(declared)[0], types, scope_of(base))
                if (validator := find_validator(declared, (*outer, cls))) is not None:
                    found[name] = validator
    return found


def _with_fields(
    cls: Any, validators: dict[str, Validator], value: Any, name: str, boundary: Boundary, level: Level
) -> Any:
    """Validate the fields of an object; a named tuple or dict in which a batch becomes a record is replaced."""
    is_dict = issubclass(cls, dict)
    if not isinstance(value, dict if is_dict else cls):
        return value
    changed: dict[str, Any] = {}
    for key, validator in validators.items():
        field = value.get(key, _ABSENT) if is_dict else getattr(value, key, _ABSENT)
        shown = f"{name}[{key!r}]" if is_dict else f"{name}.{key}"
        if field is not _ABSENT and (new := validator(field, shown, boundary, level)) is not field:
            changed[key] = new
    if changed and type(value) is dict:
        return {**value, **changed}
    replace: Any = getattr(value, "_replace", None) if changed and isinstance(value, tuple) else None
    return value if replace is None else replace(**changed)


def _refuse_batches(cls: Any, value: Any, name: str, boundary: Boundary, level: Level) -> Any:
    """Refuse a batch as an argument that is declared by a protocol which is not a schema, so that it looks checked."""
    if isinstance(value, Tree):
        options_of(cls)
    return value


def _validator_in_union(options: list[Any], outer: tuple[Any, ...]) -> Validator | None:
    """Return the validator for a union with other types than batches. The class of a value selects the alternative."""
    validators: list[tuple[type, Validator]] = []
    schemas = tuple(option for option in options if is_schema(option))
    for option in options:
        validator = None if option in schemas else find_validator(option, outer)
        if validator is not None:
            cls = class_of(option)
            cls = Tree if is_bare_protocol(cls) else dict if hasattr(cls, "__total__") else cls
            validators.append((cls, validator))
    if schemas:
        validators.insert(0, (Tree, validator_of(Union[schemas])))  # noqa: UP007  # the parts are only known now
    if not validators:
        return None

    def validate_value(value: Any, name: str, boundary: Boundary, level: Level) -> Any:
        errors: list[SchemaError] = []
        for cls, validator in validators:
            if isinstance(value, cls):
                try:
                    return validator(value, name, boundary, level)
                except SchemaError as error:
                    errors.append(error)
        if errors:
            raise errors[0]
        return value

    return validate_value


def _validated_items(validator: Validator, value: Any, name: str, boundary: Boundary, level: Level) -> Any:
    if not isinstance(value, abc.Collection) or isinstance(value, Tree):
        return value
    items = [validator(item, f"{name}[{position}]", boundary, level) for position, item in enumerate(value)]
    return _rebuilt(value, items)


def _rebuilt(value: Any, items: list[Any]) -> Any:
    """Return a new list or tuple if an item has been replaced by a record; else the value itself.

    Collections of other classes are always returned unchanged.
    """
    if type(value) not in (list, tuple) or all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return tuple(items) if type(value) is tuple else items


def _validator_in_tuple(args: tuple[Any, ...], outer: tuple[Any, ...]) -> Validator | None:
    if len(args) == 2 and args[1] is Ellipsis:
        validator = find_validator(args[0], outer)
        return None if validator is None else partial(_validated_items, validator)
    validators = [find_validator(arg, outer) for arg in args]
    if not any(validators):
        return None

    def validate_value(value: Any, name: str, boundary: Boundary, level: Level) -> Any:
        if not isinstance(value, tuple) or len(value) != len(validators):
            return value
        items = [
            item if validator is None else validator(item, f"{name}[{position}]", boundary, level)
            for position, (validator, item) in enumerate(zip(validators, value, strict=True))
        ]
        return _rebuilt(value, items)

    return validate_value


def _validated_values(validator: Validator, value: Any, name: str, boundary: Boundary, level: Level) -> Any:
    if not isinstance(value, abc.Mapping):
        return value
    items: dict[Any, Any] = {}
    for key, item in value.items():
        shown = repr(key)[:40] if isinstance(key, (str, int)) else type(key).__name__
        items[key] = validator(item, f"{name}[{shown}]", boundary, level)
    same = all(items[key] is item for key, item in value.items())
    return value if same or type(value) is not dict else items


def _validated_lazily(validator: Validator, value: Any, name: str, boundary: Boundary, level: Level) -> Any:
    """Validate the items of an iterator when they are taken out, and those of a collection at once."""
    if isinstance(value, abc.Collection) and not isinstance(value, Tree):
        return _validated_items(validator, value, name, boundary, level)
    if isinstance(value, abc.Generator):
        return relay(value, numbered(validator, name, boundary, level))
    if isinstance(value, abc.Iterator):
        return map(numbered(validator, name, boundary, level), value)
    if isinstance(value, abc.AsyncGenerator):
        return _AsyncRelay(value, numbered(validator, name, boundary, level))
    if isinstance(value, abc.AsyncIterable):
        return _async_items(value, numbered(validator, name, boundary, level))
    is_iterable = isinstance(value, abc.Iterable)
    return _Reiterable(value, partial(numbered, validator, name, boundary, level)) if is_iterable else value


_LAZY = (abc.Iterable, abc.Iterator, abc.Generator, abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator)
_INSIDE: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(_MAPPINGS, _validated_values),
    **dict.fromkeys((list, deque, abc.Sequence, abc.MutableSequence, abc.Collection), _validated_items),
    **dict.fromkeys(_LAZY, _validated_lazily),
}
"""Functions that validate the values in an object of each class."""


def numbered(validator: Validator, name: str, boundary: Boundary, level: Level) -> Callable[[Any], Any]:
    """Return a validator for successive items, named ``name[0]``, ``name[1]`` in reports."""
    position = count()
    return lambda item: validator(item, f"{name}[{next(position)}]", boundary, level)


class _AsyncRelay(AsyncGenerator[Any, Any]):
    """An asynchronous generator that yields the validated items of another."""

    def __init__(self, inner: AsyncGenerator[Any, Any], validator: Callable[[Any], Any]) -> None:
        self.inner, self.validator = inner, validator

    async def asend(self, value: Any, /) -> Any:
        return self.validator(await self.inner.asend(value))

    async def athrow(self, *error: Any) -> Any:
        return self.validator(await self.inner.athrow(*error))


async def _async_items(values: Any, validator: Callable[[Any], Any]) -> AsyncIterator[Any]:
    async for item in values:
        yield validator(item)


class _Reiterable:
    """An iterable that may be iterated over more than once, as a data loader."""

    def __init__(self, values: Any, new_validator: Callable[[], Callable[[Any], Any]]) -> None:
        self.values, self.new_validator = values, new_validator

    def __iter__(self) -> Iterator[Any]:
        return map(self.new_validator(), self.values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.values, name)


def relay(inner: Generator[Any, Any, Any], validator: Callable[[Any], Any]) -> Generator[Any, Any, Any]:
    """Yield the validated items of another generator. Values sent and errors thrown in are passed on to it."""
    try:
        item = next(inner)
        while True:
            try:
                sent = yield validator(item)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # the inner generator may handle it
                item = inner.throw(error)
            else:
                item = inner.send(sent)
    except StopIteration as stop:
        return stop.value
    finally:
        inner.close()
