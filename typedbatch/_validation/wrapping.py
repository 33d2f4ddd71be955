"""How ``checked`` wraps functions, generators, coroutine functions and classes."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from inspect import Parameter
from typing import Any, get_args

from typedbatch._declaration import outside, show_place
from typedbatch._level import Level, current_level
from typedbatch._validation.containers import Look, is_awaitable, look_for, numbered, relay
from typedbatch._validation.validate import UNSTEADY, validate_at
from typedbatch.batch import Batch
from typedbatch.errors import CallError, DeclarationError, Problem
from typedbatch.schema.calls import Call, Sizes
from typedbatch.schema.hints import bare, resolve
from typedbatch.schema.names import RETURN, top_of


def wrapped(function: Any, level: Level | None) -> Any:
    """A function of the same sort that validates; a class with a constructor that does; a builtin as it is.

    Raises:
        TypeError: it cannot be called.
    """
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(wrapped(function.__func__, level))
    if isinstance(function, type):
        return _checked_class(function, level)
    if not callable(function):
        raise TypeError(f"checked() takes a function, got {type(function).__name__}")
    if _plain_function(function) is None:  # a builtin, which has no annotations
        return function
    return _wrapper(function, _Plans(function, level, ""))


class _Plans:
    """The plan of a function, made at its first call, when names that are defined further down the module exist."""

    def __init__(self, function: Callable[..., Any], level: Level | None, place: str) -> None:
        self.function, self.place = function, place
        self.level: Level | None = level
        self.plan: _Plan | None = None

    def now(self) -> tuple[_Plan, Level]:
        """The plan, and the level of this call."""
        return self.plan or self.make(), self.level or current_level()

    def make(self) -> _Plan:
        self.plan = _Plan(self.function, self.place)
        return self.plan


def _wrapper(function: Callable[..., Any], plans: _Plans) -> Any:
    """A function of the same sort: frameworks ask whether it is a coroutine function or a generator function."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            plan, level = plans.now()
            if level == "off":
                return await function(*args, **kwargs)
            made = args, kwargs, _ = plan.called(args, kwargs, level)
            return plan.result(await function(*args, **kwargs), made, level)

        return call_async

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def generate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            plan, level = plans.now()
            look: Callable[[Any], Any] = _as_it_is
            if level != "off":
                args, kwargs, _ = plan.called(args, kwargs, level)
                look = plan.yielded(level)
            inner = function(*args, **kwargs)
            try:  # what "yield from" does; the language has it for plain generators only
                item = await anext(inner)
                while True:
                    try:
                        sent = yield look(item)
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001  # it is the inner generator's to handle
                        item = await inner.athrow(error)
                    else:
                        item = await inner.asend(sent)
            except StopAsyncIteration:
                return
            finally:
                await inner.aclose()

        return generate_async

    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            plan, level = plans.now()
            if level == "off":
                return (yield from function(*args, **kwargs))
            args, kwargs, _ = plan.called(args, kwargs, level)
            return plan.returned((yield from relay(function(*args, **kwargs), plan.yielded(level))), level)

        return generate

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        plan, level = plans.plan or plans.make(), plans.level or current_level()
        if level == "off":
            return function(*args, **kwargs)
        if plan.looks:
            args = plan.positional(args, level)
        if kwargs:
            kwargs = plan.named(kwargs, level)
        sizes = None if plan.together is None else plan.sizes(plan.together, args, kwargs, level)
        result = function(*args, **kwargs)
        if not plan.judges_result:
            return result
        made = args, kwargs, sizes
        return plan.awaited(result, made, level) if inspect.iscoroutine(result) else plan.result(result, made, level)

    return call


def _as_it_is(value: Any) -> Any:
    return value


_Made = tuple[tuple[Any, ...], dict[str, Any], Sizes | None]
"""A call: with what, and what the names of sizes mean in it, where that is looked at."""


class _Plan:
    """Which arguments of a function are validated, and against what."""

    def __init__(self, function: Callable[..., Any], place: str) -> None:
        plain = _plain_function(function)
        code = plain.__code__
        where = f"{plain.__module__}.{plain.__qualname__}()  {show_place(code.co_filename, code.co_firstlineno)}"
        place = (place or where).replace("{", "{{").replace("}", "}}")
        self.argument_of, self.value_of = f"argument `{{}}` of {place}", f"{{}} of {place}"
        self.scope = _scope_of(plain)
        self.positions: list[tuple[int, str, Look]] = []
        self.keywords: dict[str, Look | None] = {}
        """Of every parameter that can be named, so that none is taken for one of ``**kwargs``."""
        self.rest: tuple[int, str, Look] | None = None
        self.other_keywords: Look | None = None
        signature, hints = inspect.signature(function), dict[str, Any]()
        for position, parameter in enumerate(signature.parameters.values()):
            hint = self._readable(parameter.annotation)
            if hint is not None:
                hints[parameter.name] = hint
            self._add(position, parameter, None if hint is None else look_for(hint))
        hint = result = self._readable(signature.return_annotation)
        parts = get_args(bare(hint)[0]) if hint is not None else ()
        if is_awaitable(hint):  # a plain function that returns a coroutine
            result = parts[-1] if parts else None
        self.returns = None if result is None else look_for(result)
        call = Call(f"{plain.__name__}()", signature, hints, result)
        self.together: Call | None = call or None
        """What is checked of all arguments together, and of arrays among them; None for nothing."""
        self.looks = bool(self.positions or self.rest)
        self.judges_result = self.returns is not None or (self.together is not None and self.together.checks_result)
        self.yields = look_for(parts[0]) if parts else None
        self.ends = look_for(parts[2]) if len(parts) == 3 else None

    def _readable(self, annotation: Any) -> Any:
        """The annotation without strings and variables; None if there is none, or if it cannot be read."""
        if annotation is Parameter.empty:
            return None
        try:
            return resolve(annotation, {}, self.scope)
        except DeclarationError:
            return None

    def _add(self, position: int, parameter: Parameter, look: Look | None) -> None:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            self.rest = None if look is None else (position, parameter.name, look)
        elif parameter.kind is Parameter.VAR_KEYWORD:
            self.other_keywords = look
        else:
            if parameter.kind is not Parameter.KEYWORD_ONLY and look is not None:
                self.positions.append((position, parameter.name, look))
            if parameter.kind is not Parameter.POSITIONAL_ONLY:
                self.keywords[parameter.name] = look

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> _Made:
        """What the function is called with, when all of it is right."""
        args, kwargs = self.positional(args, level), self.named(kwargs, level)
        return args, kwargs, None if self.together is None else self.sizes(self.together, args, kwargs, level)

    def named(self, kwargs: dict[str, Any], level: Level) -> dict[str, Any]:
        for name, value in kwargs.items():
            found = self.keywords.get(name, self.other_keywords)
            if found is not None:
                kwargs = {**kwargs, name: found(value, name, self.argument_of, level)}
        return kwargs

    def positional(self, args: tuple[Any, ...], level: Level) -> tuple[Any, ...]:
        values = list(args)
        for position, name, look in self.positions:
            if position < len(values):
                values[position] = look(values[position], name, self.argument_of, level)
        if self.rest is not None:
            start, name, look = self.rest
            values[start:] = [look(value, f"*{name}", self.argument_of, level) for value in values[start:]]
        return tuple(values)

    def result(self, value: Any, made: _Made, level: Level) -> Any:
        if self.returns is not None:
            value = self.returns(value, "return value", self.value_of, level)
        if self.together is not None and made[2] is not None and self.together.checks_result:
            self.check_result(self.together, value, made, level)
        return value

    def sizes(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> Sizes | None:
        """What the names of sizes mean in this call; None if it has not the arguments that the function takes."""
        try:
            sizes: Sizes | None = call.sizes(*args, **kwargs)
        except TypeError:  # the function itself says it better
            return None
        if sizes is not None and level == "structure":
            return sizes
        problems: tuple[Problem, ...] = ()
        if sizes is None:
            problems = call.argument_problems(args, kwargs)
        elif level == "values":
            problems = call.violations(args, kwargs)
        if problems or sizes is None:
            raise self.error(call, problems, call.shown(args, kwargs))
        return sizes

    def check_result(self, call: Call, value: Any, made: _Made, level: Level) -> None:
        args, kwargs, sizes = made
        problems: tuple[Problem, ...] = ()
        right = sizes is None or call.fits(value, sizes)
        if not right and sizes is not None:
            problems = call.result_problems(value, args, kwargs, sizes)
        elif level == "values":
            problems = call.result_violations(value)
        if problems or not right:
            raise self.error(call, problems, call.shown_result(value))

    def error(self, call: Call, problems: tuple[Problem, ...], got: str) -> CallError:
        """The report; its boundary names the arguments that it is about."""
        problems = problems or (Problem("", "TB105 unreadable-field", "", UNSTEADY, call.name),)
        blamed = dict.fromkeys(top_of(problem.path) for problem in problems)
        if RETURN in blamed:
            return CallError(call.name, problems, got, self.value_of.format("return value"))
        boundary = self.argument_of.format("`, `".join(blamed))
        return CallError(call.name, problems, got, boundary if len(blamed) == 1 else f"arguments{boundary[8:]}")

    async def awaited(self, coroutine: Any, made: _Made, level: Level) -> Any:
        """What a coroutine returns; one from a plain function has a coroutine function below, under a decorator."""
        return self.result(await coroutine, made, level)

    def yielded(self, level: Level) -> Callable[[Any], Any]:
        return _as_it_is if self.yields is None else numbered(self.yields, "yielded value", self.value_of, level)

    def returned(self, value: Any, level: Level) -> Any:
        return value if self.ends is None else self.ends(value, "return value", self.value_of, level)


def _checked_class(cls: Any, level: Level | None) -> Any:
    """The same class, with a constructor that validates: ``__init__``, or ``__new__`` of a named tuple."""
    place = f"{cls.__module__}.{cls.__qualname__}()  {_decorated_at()}"  # a dataclass's constructor has no file
    if issubclass(cls, Batch):
        cls.__init__ = _validating_itself(cls.__init__, place, level)
    elif hasattr(cls.__init__, "__code__"):
        cls.__init__ = _wrapper(cls.__init__, _Plans(cls.__init__, level, place))
    elif hasattr(cls.__new__, "__code__"):
        cls.__new__ = staticmethod(_wrapper(cls.__new__, _Plans(cls.__new__, level, place)))
    return cls


def _decorated_at() -> str:
    frame = outside(sys._getframe())
    return show_place(frame.f_code.co_filename, frame.f_lineno)


def _validating_itself(function: Callable[..., None], place: str, level: Level | None) -> Callable[..., None]:
    @functools.wraps(function)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        function(self, *args, **kwargs)
        if (level or current_level()) != "off":
            validate_at(self, type(self), "constructor {}", level, place)

    return construct


def _plain_function(function: Any) -> Any:
    """The function at the bottom of decorators, partials and callable objects: it has the code and the module."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if hasattr(function, "__code__"):
        return getattr(function, "__func__", function)
    call = type(function).__call__
    return call if hasattr(call, "__code__") else None


def _scope_of(function: Any) -> Mapping[str, Any]:
    """Names for string annotations: typedbatch's own, then the module's, then those of enclosing functions."""
    closure = inspect.getclosurevars(function).nonlocals if isinstance(function, types.FunctionType) else {}
    parameters = {parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}
    module = vars(sys.modules.get(function.__module__, types.ModuleType("")))
    return {**vars(sys.modules["typedbatch"]), **module, **closure, **parameters}
