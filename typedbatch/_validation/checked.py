"""``checked``, the decorator that validates the arguments and results of a function by its annotations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from typedbatch._core.level import Level, current_level, level_named

F = TypeVar("F", bound=Callable[..., Any])


@overload
def checked(function: F, /) -> F: ...
@overload
def checked(*, level: Level | None = None) -> Callable[[F], F]: ...
def checked(function: Any = None, /, *, level: Level | None = None) -> Any:
    """Validate the arguments and results of a function by its annotations.

    An argument annotated with a protocol or record, a union of them, or a type variable bound to one, is passed through
    :func:`validate`. So are each of ``*args`` and ``**kwargs`` and the return value. The result of a coroutine is
    validated when it is awaited, and an item of a generator when it is yielded. Batches inside ``list``, ``tuple``,
    ``dict``, ``Sequence`` and ``Mapping``, and in the fields of a named tuple, TypedDict, dataclass or attrs class, are
    validated at the call. Those inside ``Iterator``, ``Iterable``, ``Generator`` and their asynchronous counterparts
    are validated when they are iterated over. A list, tuple or dict in which a batch becomes a record is replaced by a
    new one; everything else is passed on unchanged. Defaults of functions are not validated. Annotations that cannot be
    read at run time, because their names are imported under ``TYPE_CHECKING``, are ignored, unless the names are
    typedbatch's own.

    Arrays and tensors with jaxtyping annotations, ``Float[Tensor, "N R"]``, are checked too, also in a tuple that is
    returned. A name means the same size in all of them, in the fields of batches whose declaration uses the name, and
    in the result. Sizes are local to a batch under ``Annotated[Inputs, SeparateSizes]``, in a container, in ``*args``
    or in ``**kwargs``. The rows of a batch that is returned are its own, unless an array of the call names them.

    On a class, for example a dataclass, the arguments of the constructor are validated, and the fields that a default
    or ``default_factory`` sets. On a record, the new record is validated too.

    If the level is ``"off"``, as under ``TYPEDBATCH_CHECK=off``, the function itself is returned, at no cost.

    Args:
        function: Function, method, coroutine function, generator function, class, or any other callable.
        level: Level of the checks at this boundary, ``@checked(level="values")``; None for the current level at each
            call.

    Raises:
        SchemaError: at a call; ``boundary`` names the argument and the function. It is a ``CallError`` if arrays, or
            sizes of several arguments, do not match their declaration.
        DeclarationError: at a call, if a batch comes where a protocol is declared that does not inherit from
            ``BatchProtocol``.
        TypeError: ``function`` is not callable, or is a TypedDict.
        SettingError: ``level`` is not a level.
    """
    if level is not None:
        level = level_named(level, "the level of checked()")
    if function is None:
        return functools.partial(_checked, level=level)
    return _checked(function, level)


def _checked(function: Any, level: Level | None) -> Any:
    now: Level = level or current_level()
    if now == "off":
        return function
    from typedbatch._validation.wrapping import wrapped  # imported here because its own imports take long

    return wrapped(function, level)
