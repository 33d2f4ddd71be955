"""Boundaries: ``checked`` validates what a function takes and returns, by its annotations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from typedbatch._level import Level, current_level, level_named

F = TypeVar("F", bound=Callable[..., Any])


@overload
def checked(function: F, /) -> F: ...
@overload
def checked(*, level: Level | None = None) -> Callable[[F], F]: ...
def checked(function: Any = None, /, *, level: Level | None = None) -> Any:
    """Validate what a function takes and returns, by its annotations.

    Arguments annotated with a protocol or record, a union of them, or a type variable bound to one, are passed through
    :func:`validate`, each of ``*args`` and ``**kwargs`` too, and so is the return value; a coroutine's when it is
    awaited, what a generator yields when it yields it. Batches inside ``list``, ``tuple``, ``dict``, ``Sequence`` and
    ``Mapping`` are validated at once, those of an ``Iterator``, ``Iterable``, ``Generator`` and their asynchronous kin
    when they are taken out. A list whose batches become records is a new list; all else is handed on as it is.
    Defaults are not looked at. Annotations that cannot be read at run time, because their names are imported under
    ``TYPE_CHECKING``, are left alone, unless they are typedbatch's own.

    Arrays and tensors that are annotated in jaxtyping's words, ``Float[Tensor, "N R"]``, are checked too, also in a
    tuple that is returned. A name is one size in all of them, in the fields of batches that are declared with it, and
    in the result; a batch under ``Annotated[Inputs, OwnSizes]``, in a container, in ``*args`` or ``**kwargs`` has its
    own.

    On a class, for example a dataclass, it validates what the constructor takes; on a record, the finished record too.

    While the level is ``"off"``, as under ``TYPEDBATCH_CHECK=off``, the function itself is returned, at no cost.

    Args:
        function: a function, method, coroutine function, generator function, class, or any other callable.
        level: what is checked at this boundary, ``@checked(level="values")``; None for the level that holds at a call.

    Raises:
        SchemaError: at a call; ``boundary`` names the argument and the function. It is a ``CallError`` where arrays, or
            sizes of several arguments, are not as declared.
        TypeError: ``function`` cannot be called.
        SettingError: there is no such level.
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
    from typedbatch._validation.wrapping import wrapped  # what is needed for it is imported at the first boundary

    return wrapped(function, level)
