"""Validation of batches inside containers and iterators: ``list[RolloutBatch]``, ``Iterator[RolloutBatch]``."""

from __future__ import annotations

import collections.abc as abc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from functools import partial
from itertools import count
from typing import Any, Union, get_args

from typedbatch._level import Level
from typedbatch._tree.kinds import Tree
from typedbatch._validation.validate import Boundary, Validator, validator_of
from typedbatch.schema.annotations import alternatives, bare
from typedbatch.schema.read import is_schema
from typedbatch.schema.values import class_of


def find_validator(hint: Any) -> Validator | None:
    """Return the validator for values with a resolved annotation; None if the annotation has no batch in it."""
    hint, _ = bare(hint)
    options = [bare(option)[0] for option in alternatives(hint)]
    schemas = [option for option in options if is_schema(option)]
    if schemas and all(is_schema(option) or option is type(None) for option in options):
        return validator_of(hint)
    if len(options) > 1:
        return _validator_in_union(options)
    cls, args = class_of(hint), get_args(hint)
    if not isinstance(cls, type) or not args:
        return None
    if cls is tuple:
        return _validator_in_tuple(args)
    validator = find_validator(args[-1] if cls in _MAPPINGS else args[0])
    if validator is None:
        return None
    if cls in _MAPPINGS:
        return _validator_in_mapping(validator)
    if cls in (list, abc.Sequence, abc.MutableSequence, abc.Collection):
        return _validator_in_items(validator)
    if cls in (abc.Iterable, abc.Iterator, abc.Generator, abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator):
        return partial(_validated_lazily, validator)
    # The values in any other class, for example a buffer or a task, could be replaced only in another object.
    return None


_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)


def _validator_in_union(options: list[Any]) -> Validator | None:
    """Return the validator for a union with other types than batches. The class of a value selects the alternative."""
    validators: list[tuple[type, Validator]] = []
    schemas = tuple(option for option in options if is_schema(option))
    for option in options:
        validator = None if option in schemas else find_validator(option)
        if validator is not None:
            validators.append((class_of(option), validator))
    if schemas:
        validators.append((Tree, validator_of(Union[schemas])))  # noqa: UP007  # the parts are only known now
    if not validators:
        return None

    def validate_value(value: Any, name: str, boundary: Boundary, level: Level) -> Any:
        for cls, validator in validators:
            if isinstance(value, cls):
                return validator(value, name, boundary, level)
        return value

    return validate_value


def is_awaitable(hint: Any) -> bool:
    """Return True for ``Awaitable[...]`` and ``Coroutine[...]``."""
    return class_of(hint) in (abc.Awaitable, abc.Coroutine)


def _validator_in_items(validator: Validator) -> Validator:
    def validate_value(value: Any, name: str, boundary: Boundary, level: Level) -> Any:
        if not isinstance(value, abc.Collection) or isinstance(value, Tree):
            return value
        items = [validator(item, f"{name}[{position}]", boundary, level) for position, item in enumerate(value)]
        return _rebuilt(value, items)

    return validate_value


def _rebuilt(value: Any, items: list[Any]) -> Any:
    """Return a new list or tuple if an item has been replaced by a record; else the value itself.

    Collections of other classes are always returned unchanged.
    """
    if type(value) not in (list, tuple) or all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return tuple(items) if type(value) is tuple else items


def _validator_in_tuple(args: tuple[Any, ...]) -> Validator | None:
    if len(args) == 2 and args[1] is Ellipsis:
        validator = find_validator(args[0])
        return None if validator is None else _validator_in_items(validator)
    validators = [find_validator(arg) for arg in args]
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


def _validator_in_mapping(validator: Validator) -> Validator:
    def validate_value(value: Any, name: str, boundary: Boundary, level: Level) -> Any:
        if not isinstance(value, abc.Mapping):
            return value
        items: dict[Any, Any] = {}
        for key, item in value.items():
            shown = repr(key)[:40] if isinstance(key, (str, int)) else type(key).__name__
            items[key] = validator(item, f"{name}[{shown}]", boundary, level)
        same = all(items[key] is item for key, item in value.items())
        return value if same or type(value) is not dict else items

    return validate_value


def _validated_lazily(validator: Validator, value: Any, name: str, boundary: Boundary, level: Level) -> Any:
    """Validate the items of an iterator when they are taken out, and those of a collection at once."""
    if isinstance(value, abc.Collection) and not isinstance(value, Tree):
        return _validator_in_items(validator)(value, name, boundary, level)
    if isinstance(value, abc.Generator):
        return relay(value, numbered(validator, name, boundary, level))
    if isinstance(value, abc.Iterator):
        return map(numbered(validator, name, boundary, level), value)
    if isinstance(value, abc.AsyncGenerator):
        return _AsyncRelay(value, numbered(validator, name, boundary, level))
    if isinstance(value, abc.AsyncIterable):
        return _async_items(value, numbered(validator, name, boundary, level))
    return (
        _Reiterable(value, partial(numbered, validator, name, boundary, level))
        if isinstance(value, abc.Iterable)
        else value
    )


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
