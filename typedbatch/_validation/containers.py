"""Batches inside other things: what a boundary validates in ``list[RolloutBatch]``, ``Iterator[RolloutBatch]``."""

from __future__ import annotations

import collections.abc as abc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from functools import partial
from itertools import count
from typing import Any, Union, get_args

from typedbatch._level import Level
from typedbatch._tree.leaves import Tree
from typedbatch._validation.validate import Gate, gate_of
from typedbatch.schema import is_schema
from typedbatch.schema.hints import alternatives, bare
from typedbatch.schema.values import class_of

Look = Gate
"""Validates a value, which may be a batch or hold some; answers with what is handed on."""


def look_for(hint: Any) -> Look | None:
    """What to do with values of that annotation, which must be resolved; None if there is no batch in it."""
    hint, _ = bare(hint)
    options = [bare(option)[0] for option in alternatives(hint)]
    schemas = [option for option in options if is_schema(option)]
    if schemas and all(is_schema(option) or option is type(None) for option in options):
        return gate_of(hint)
    if len(options) > 1:
        return _one_of(options)
    cls, args = class_of(hint), get_args(hint)
    if not isinstance(cls, type) or not args:
        return None
    return _inside(cls, args)


def _one_of(options: list[Any]) -> Look | None:
    """A union of more than batches: the class of the value tells which it is."""
    looks: list[tuple[type, Look]] = []
    schemas = tuple(option for option in options if is_schema(option))
    for option in options:
        look = None if option in schemas else look_for(option)
        if look is not None:
            looks.append((class_of(option), look))
    if schemas:
        looks.append((Tree, gate_of(Union[schemas])))  # noqa: UP007  # the parts are only known now
    if not looks:
        return None

    def look_at(value: Any, name: str, boundary: str, level: Level) -> Any:
        for cls, look in looks:
            if isinstance(value, cls):
                return look(value, name, boundary, level)
        return value

    return look_at


def _inside(cls: type, args: tuple[Any, ...]) -> Look | None:
    """Other classes, a buffer or a task, are left alone: who looks inside would hand on something else."""
    if cls is tuple:
        return _tuple(args)
    if cls in (dict, abc.Mapping, abc.MutableMapping):
        return _values(look_for(args[-1]))
    look = look_for(args[0])
    if look is None:
        return None
    if cls in (list, abc.Sequence, abc.MutableSequence, abc.Collection):
        return _each(look)
    if cls in (abc.Iterable, abc.Iterator, abc.Generator, abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator):
        return lambda value, name, boundary, level: _lazily(value, look, name, boundary, level)
    return None


def is_awaitable(hint: Any) -> bool:
    """True for ``Awaitable[...]`` and ``Coroutine[...]``."""
    return class_of(hint) in (abc.Awaitable, abc.Coroutine)


def _each(look: Look) -> Look:
    def look_at(value: Any, name: str, boundary: str, level: Level) -> Any:
        if not isinstance(value, abc.Collection) or isinstance(value, Tree):
            return value
        items = [look(item, f"{name}[{position}]", boundary, level) for position, item in enumerate(value)]
        return _handed_on(value, items)

    return look_at


def _handed_on(value: Any, items: list[Any]) -> Any:
    """A new list or tuple if a batch in it became a record; else, and of any other class, the value itself."""
    if type(value) not in (list, tuple) or all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return tuple(items) if type(value) is tuple else items


def _tuple(args: tuple[Any, ...]) -> Look | None:
    if len(args) == 2 and args[1] is Ellipsis:
        look = look_for(args[0])
        return None if look is None else _each(look)
    looks = [look_for(arg) for arg in args]
    if not any(looks):
        return None

    def look_at(value: Any, name: str, boundary: str, level: Level) -> Any:
        if not isinstance(value, tuple) or len(value) != len(looks):
            return value
        items = [
            item if look is None else look(item, f"{name}[{position}]", boundary, level)
            for position, (look, item) in enumerate(zip(looks, value, strict=True))
        ]
        return _handed_on(value, items)

    return look_at


def _values(look: Look | None) -> Look | None:
    if look is None:
        return None

    def look_at(value: Any, name: str, boundary: str, level: Level) -> Any:
        if not isinstance(value, abc.Mapping):
            return value
        items = {key: look(item, f"{name}[{_key(key)}]", boundary, level) for key, item in value.items()}
        same = all(items[key] is item for key, item in value.items())
        return value if same or type(value) is not dict else items

    return look_at


def _key(key: Any) -> str:
    return repr(key)[:40] if isinstance(key, (str, int)) else type(key).__name__


def _lazily(value: Any, look: Look, name: str, boundary: str, level: Level) -> Any:
    """What is gone through later is validated then, item by item; what can be looked at now, now."""
    if isinstance(value, abc.Collection) and not isinstance(value, Tree):
        return _each(look)(value, name, boundary, level)
    if isinstance(value, abc.Generator):
        return relay(value, numbered(look, name, boundary, level))
    if isinstance(value, abc.Iterator):
        return map(numbered(look, name, boundary, level), value)
    if isinstance(value, abc.AsyncGenerator):
        return _AsyncRelay(value, numbered(look, name, boundary, level))
    if isinstance(value, abc.AsyncIterable):
        return _async_items(value, numbered(look, name, boundary, level))
    return _Again(value, partial(numbered, look, name, boundary, level)) if isinstance(value, abc.Iterable) else value


def numbered(look: Look, name: str, boundary: str, level: Level) -> Callable[[Any], Any]:
    """``look`` for one item after the other: ``name[0]``, ``name[1]``."""
    position = count()
    return lambda item: look(item, f"{name}[{next(position)}]", boundary, level)


class _AsyncRelay(AsyncGenerator[Any, Any]):
    """An asynchronous generator that hands on what another yields, validated."""

    def __init__(self, inner: AsyncGenerator[Any, Any], look: Callable[[Any], Any]) -> None:
        self.inner, self.look = inner, look

    async def asend(self, value: Any, /) -> Any:
        return self.look(await self.inner.asend(value))

    async def athrow(self, *error: Any) -> Any:
        return self.look(await self.inner.athrow(*error))


async def _async_items(values: Any, look: Callable[[Any], Any]) -> AsyncIterator[Any]:
    async for item in values:
        yield look(item)


class _Again:
    """An iterable that may be gone through more than once, as a data loader is."""

    def __init__(self, values: Any, looks: Callable[[], Callable[[Any], Any]]) -> None:
        self.values, self.looks = values, looks

    def __iter__(self) -> Iterator[Any]:
        return map(self.looks(), self.values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.values, name)


def relay(inner: Generator[Any, Any, Any], look: Callable[[Any], Any]) -> Generator[Any, Any, Any]:
    """A generator that hands on what another yields, validated; what is sent or thrown into it reaches the other."""
    try:
        item = next(inner)
        while True:
            try:
                sent = yield look(item)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # it is the inner generator's to handle
                item = inner.throw(error)
            else:
                item = inner.send(sent)
    except StopIteration as stop:
        return stop.value
    finally:
        inner.close()
