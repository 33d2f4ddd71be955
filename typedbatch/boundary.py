"""Boundaries: ``checked`` validates what a function takes and returns, by its annotations."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from typedbatch.gate import check, options_of
from typedbatch.schema import is_schema

F = TypeVar("F", bound=Callable[..., Any])


def checked(function: F, /) -> F:
    """Validate what a function takes and returns, by its annotations.

    Arguments annotated with a protocol or record, or a union of them, are passed through :func:`validate`, and so is
    the return value. With ``TYPEDBATCH_CHECK=off`` in the environment the function itself is returned, at no cost.

    Raises:
        SchemaError: at a call; ``boundary`` names the argument and the function.
        DeclarationError: at the first call, an annotation cannot be read.
    """
    if os.environ.get("TYPEDBATCH_CHECK", "").lower() == "off":
        return function
    plan: list[_Plan] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not plan:  # at the first call, when names defined further down the module exist
            plan.append(_Plan(function))
        args, kwargs = plan[0].arguments(args, kwargs)
        return plan[0].result(function(*args, **kwargs))

    return call  # type: ignore[return-value]  # wraps keeps the signature, which F stands for


class _Plan:
    """Which arguments of a function are validated, and against what."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = get_type_hints(function)
        code = function.__code__
        file = os.path.basename(code.co_filename)
        place = f"{function.__module__}.{function.__qualname__}()  {file}:{code.co_firstlineno}"
        self.returns = hints["return"] if _is_checkable(hints.get("return")) else None
        self.returned = f"return value of {place}"
        self.parameters = [
            (position, name, hints[name], f"argument `{name}` of {place}")
            for position, name in enumerate(inspect.signature(function).parameters)
            if _is_checkable(hints.get(name))
        ]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for position, name, hint, boundary in self.parameters:
            if position < len(args):
                value = check(args[position], hint, boundary)
                args = (*args[:position], value, *args[position + 1 :])
            elif name in kwargs:
                kwargs = {**kwargs, name: check(kwargs[name], hint, boundary)}
        return args, kwargs

    def result(self, value: Any) -> Any:
        return value if self.returns is None else check(value, self.returns, self.returned)


def _is_checkable(hint: Any) -> bool:
    options = options_of(hint)
    schemas = [option for option in options if is_schema(option)]
    return bool(schemas) and all(is_schema(option) or option is types.NoneType for option in options)
