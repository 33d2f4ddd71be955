"""Boundaries: ``checked`` validates what a function takes and returns, by its annotations."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, TypeVar, cast

from typedbatch.errors import DeclarationError
from typedbatch.gate import check
from typedbatch.schema import is_schema
from typedbatch.schema.hints import alternatives, resolve

F = TypeVar("F", bound=Callable[..., Any])


def checked(function: F, /) -> F:
    """Validate what a function takes and returns, by its annotations.

    Arguments annotated with a protocol or record, a union of them, or a type variable bound to one, are passed through
    :func:`validate`, each of ``*args`` and ``**kwargs`` too, and so is the return value; a coroutine's when it is
    awaited. Defaults are not looked at, nor is what a generator yields. Annotations that cannot be read at run time,
    because their names are imported under ``TYPE_CHECKING``, are left alone, unless they are typedbatch's own.

    With ``TYPEDBATCH_CHECK=off`` in the environment the function itself is returned, at no cost.

    Raises:
        SchemaError: at a call; ``boundary`` names the argument and the function.
        TypeError: ``function`` cannot be called.
    """
    if os.environ.get("TYPEDBATCH_CHECK", "").lower() == "off":
        return function
    if isinstance(function, (staticmethod, classmethod)):
        return cast("F", type(function)(checked(function.__func__)))
    if not callable(function):
        raise TypeError(f"checked() takes a function, got {type(function).__name__}")
    plan: list[_Plan] = []

    def planned() -> _Plan:  # at the first call, when names that are defined further down the module exist
        if not plan:
            plan.append(_Plan(function))
        return plan[0]

    if inspect.iscoroutinefunction(inspect.unwrap(function)):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = planned().arguments(args, kwargs)
            return planned().result(await function(*args, **kwargs))

        return cast("F", call_async)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = planned().arguments(args, kwargs)
        return planned().result(function(*args, **kwargs))

    return cast("F", call)


class _Plan:
    """Which arguments of a function are validated, and against what."""

    def __init__(self, function: Callable[..., Any]) -> None:
        plain = _plain_function(function)
        code = plain.__code__
        self.place = (
            f"{plain.__module__}.{plain.__qualname__}()  {os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        )
        self.positions: list[tuple[int, str, Any]] = []
        self.keywords: dict[str, Any] = {}
        self.rest: tuple[int, str, Any] | None = None
        self.other_keywords: Any = None
        signature, scope = inspect.signature(function), _scope_of(plain)
        for position, parameter in enumerate(signature.parameters.values()):
            hint = _checkable(parameter.annotation, scope)
            if hint is not None:
                self._add(position, parameter, hint)
        self.returns = _checkable(signature.return_annotation, scope)

    def _add(self, position: int, parameter: Parameter, hint: Any) -> None:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            self.rest = position, parameter.name, hint
        elif parameter.kind is Parameter.VAR_KEYWORD:
            self.other_keywords = hint
        else:
            if parameter.kind is not Parameter.KEYWORD_ONLY:
                self.positions.append((position, parameter.name, hint))
            if parameter.kind is not Parameter.POSITIONAL_ONLY:
                self.keywords[parameter.name] = hint

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = list(args)
        for position, name, hint in self.positions:
            if position < len(values):
                values[position] = self._argument(values[position], name, hint)
        if self.rest is not None:
            start, name, hint = self.rest
            values[start:] = [self._argument(value, f"*{name}", hint) for value in values[start:]]
        for name, value in kwargs.items():
            hint = self.keywords.get(name, self.other_keywords)
            if hint is not None:
                kwargs = {**kwargs, name: self._argument(value, name, hint)}
        return tuple(values), kwargs

    def _argument(self, value: Any, name: str, hint: Any) -> Any:
        return check(value, hint, f"argument `{name}` of {self.place}")

    def result(self, value: Any) -> Any:
        return value if self.returns is None else check(value, self.returns, f"return value of {self.place}")


def _plain_function(function: Any) -> Any:
    """The function at the bottom of decorators, partials and callable objects: it has the code and the module."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    return getattr(function, "__func__", function) if hasattr(function, "__code__") else type(function).__call__


def _scope_of(function: Any) -> Mapping[str, Any]:
    """Names for string annotations: typedbatch's own, then the module's, then those of enclosing functions."""
    closure = inspect.getclosurevars(function).nonlocals if isinstance(function, types.FunctionType) else {}
    parameters = {parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}
    module = vars(sys.modules.get(function.__module__, types.ModuleType("")))
    return {**vars(sys.modules["typedbatch"]), **module, **closure, **parameters}


def _checkable(annotation: Any, scope: Mapping[str, Any]) -> Any:
    """The annotation if it asks for a protocol or record, else None."""
    if annotation is Parameter.empty:
        return None
    try:
        hint = resolve(annotation, {}, scope)
    except DeclarationError:
        return None
    options = alternatives(hint)
    schemas = [option for option in options if is_schema(option)]
    return hint if schemas and all(option is type(None) or is_schema(option) for option in options) else None
