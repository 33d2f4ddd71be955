"""Wrappers for ``checked``, around functions, generators, coroutine functions and classes."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import is_dataclass
from functools import partial
from inspect import Parameter
from typing import Any, Unpack, get_args, get_origin

import typing_extensions
from typing_extensions import is_typeddict

from typedbatch._core.compiling import break_graph, called_while_compiling, is_compiling
from typedbatch._core.declaration import outside, show_place
from typedbatch._core.level import Level, current_level
from typedbatch._validation.containers import field_validators, find_validator, numbered, relay
from typedbatch._validation.validate import UNSTEADY, Validator, validator_of
from typedbatch.batch import Batch
from typedbatch.errors import CallError, DeclarationError, Problem
from typedbatch.records import type_of
from typedbatch.schema.annotations import bare, resolve
from typedbatch.schema.calls import Call, Sizes, summarize
from typedbatch.schema.paths import RETURN, top_of
from typedbatch.schema.values import class_of

_UNPACKED = (Unpack, typing_extensions.Unpack)

_CheckedCall = tuple[tuple[Any, ...], dict[str, Any], Sizes | None]
"""The arguments of a call after validation, and the sizes of names in it, or None if sizes are not checked."""


def wrapped(function: Any, level: Level | None) -> Any:
    """Return a validating function of the same sort, a class with a validating constructor, or a builtin unchanged."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(wrapped(function.__func__, level))
    if not callable(function):
        raise TypeError(f"checked() takes a function, got {type(function).__name__}")
    if not isinstance(function, type):
        is_builtin = _plain_function(function) is None  # it has no annotations
        return function if is_builtin else _wrapper(function, _LazyPlan(function, level, ""))
    cls: Any = function
    # The place is the line of the decorator, because the constructor of a dataclass has no file.
    frame = outside(sys._getframe())
    place = f"{cls.__module__}.{cls.__qualname__}()  {show_place(frame.f_code.co_filename, frame.f_lineno)}"
    if is_typeddict(cls):
        raise TypeError(f"{cls.__name__} is a TypedDict, so its dicts are built unchecked; decorate what takes them")
    if issubclass(cls, Batch):
        init, boundary = cls.__init__, f"constructor {place}"

        @functools.wraps(init)
        def construct(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            now = level or current_level()
            if now != "off":
                validator_of(type_of(self))(self, boundary, str, now)

        cls.__init__ = construct
    elif hasattr(cls.__init__, "__code__"):
        plans = _LazyPlan(cls.__init__, level, place)
        init = _wrapper(cls.__init__, plans)
        has_fields = is_dataclass(cls) or hasattr(cls, "__attrs_attrs__")
        cls.__init__ = _with_made_fields(cls, init, plans) if has_fields else init
    elif hasattr(cls.__new__, "__code__"):  # of a named tuple
        cls.__new__ = staticmethod(_wrapper(cls.__new__, _LazyPlan(cls.__new__, level, place)))
    return cls


def _with_made_fields(cls: Any, init: Any, plans: _LazyPlan) -> Any:
    """Return a constructor that validates all fields afterwards, also those that a ``default_factory`` sets."""
    fields = functools.cache(functools.partial(field_validators, cls))

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        plan, level = plans.current()
        if level != "off":
            for name, validator in fields().items():
                if (value := getattr(self, name, None)) is not None:
                    object.__setattr__(self, name, validator(value, name, plan.field_of, level))

    return construct


class _LazyPlan:
    """The plan of a function, created at its first call, since annotations may use names that are defined later."""

    def __init__(self, function: Callable[..., Any], level: Level | None, place: str) -> None:
        self.function, self.place = function, place
        self.level: Level | None = level
        self.plan: _Plan | None = None

    def current(self) -> tuple[_Plan, Level]:
        """Return the plan, and the level of this call."""
        return self.plan or self.make(), self.level or current_level()

    def make(self) -> _Plan:
        self.plan = _Plan(self.function, self.place)
        return self.plan


def _wrapper(function: Callable[..., Any], plans: _LazyPlan) -> Any:
    """Return a wrapper of the same sort, because frameworks treat coroutine and generator functions differently."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            plan, level = plans.current()
            if level == "off":
                return await function(*args, **kwargs)
            checked = args, kwargs, _ = plan.check_arguments(args, kwargs, level)
            return plan.result(await function(*args, **kwargs), checked, level)

        return call_async
    if inspect.isasyncgenfunction(function):
        return _async_generator_wrapper(function, plans)
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            plan, level = plans.current()
            if level == "off":
                return (yield from function(*args, **kwargs))
            args, kwargs, _ = plan.check_arguments(args, kwargs, level)
            return plan.returned((yield from relay(function(*args, **kwargs), plan.yielded(level))), level)

        return generate
    return _plain_wrapper(function, plans)


def _async_generator_wrapper(function: Callable[..., Any], plans: _LazyPlan) -> Any:
    @functools.wraps(function)
    async def generate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        plan, level = plans.current()
        if level != "off":
            args, kwargs, _ = plan.check_arguments(args, kwargs, level)
        validator = plan.yielded(level)
        inner = function(*args, **kwargs)
        try:  # a "yield from", which asynchronous generators do not have
            item = await anext(inner)
            while True:
                try:
                    sent = yield validator(item)
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001  # the inner generator may handle it
                    item = await inner.athrow(error)
                else:
                    item = await inner.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await inner.aclose()

    return generate_async


def _plain_wrapper(function: Callable[..., Any], plans: _LazyPlan) -> Any:
    @called_while_compiling
    def prepare() -> None:
        if plans.plan is None:
            plans.make()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        prepare()
        plan: Any = plans.plan
        level = plans.level or current_level()
        if level == "off":
            return function(*args, **kwargs)
        if plan.checks_arguments:
            args = plan.check_positional(args, level)
        if kwargs:
            kwargs = plan.check_keywords(kwargs, level)
        sizes = None if plan.call_check is None else plan.sizes(plan.call_check, args, kwargs, level)
        result = function(*args, **kwargs)
        if not plan.checks_result:
            return result
        finish = plan.awaited if inspect.iscoroutine(result) else plan.result
        return finish(result, (args, kwargs, sizes), level)

    return call


def _class_body(name: str, module: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the classes in the body of the class that a method is defined in, by its qualified name.

    Other names of the body, such as a method ``list``, are not those that an annotation means.
    """
    names = module
    for one in name.split(".")[:-1]:
        owner = names.get(one)
        if not isinstance(owner, type):
            return {}
        names = vars(owner)
    return {} if names is module else {key: value for key, value in names.items() if isinstance(value, type)}


class _Plan:
    """The validators of the arguments, the result and the yielded values of a function."""

    def __init__(self, function: Callable[..., Any], place: str) -> None:
        plain = _plain_function(function)
        code = plain.__code__
        where = f"{plain.__module__}.{plain.__qualname__}()  {show_place(code.co_filename, code.co_firstlineno)}"
        self.place = place or where
        closure = inspect.getclosurevars(plain).nonlocals if isinstance(plain, types.FunctionType) else {}
        parameters = {parameter.__name__: parameter for parameter in getattr(plain, "__type_params__", ())}
        module = vars(sys.modules.get(plain.__module__, types.ModuleType("")))
        body = _class_body(plain.__qualname__, module)
        self.scope: Mapping[str, Any] = {**vars(sys.modules["typedbatch"]), **module, **closure, **body, **parameters}
        """The names for string annotations; the later ones of these win."""
        self.positions: list[tuple[int, str, Validator]] = []
        self.keywords: dict[str, Validator | None] = {}
        """The validator, or None, of every parameter that can be passed by name: the others belong to ``**kwargs``."""
        self.rest: tuple[int, str, Validator] | None = None
        self.other_keywords: Validator | None = None
        signature, hints = inspect.signature(function), dict[str, Any]()
        for position, parameter in enumerate(signature.parameters.values()):
            hint = self._readable(parameter.annotation)
            if parameter.kind is Parameter.VAR_KEYWORD and get_origin(hint) in _UNPACKED:  # of a TypedDict
                self.keywords |= field_validators(get_args(hint)[0])
                continue
            if hint is not None:
                hints[parameter.name] = hint
            self._add(position, parameter, None if hint is None else find_validator(hint))
        hint = result = self._readable(signature.return_annotation)
        parts = get_args(bare(hint)[0]) if hint is not None else ()
        if class_of(hint) in (Awaitable, Coroutine):  # a plain function that returns a coroutine
            result = parts[-1] if parts else None
        self.returns = None if result is None else find_validator(result)
        call = Call(f"{plain.__name__}()", signature, hints, result)
        self.call_check: Call | None = call or None
        """The check of array arguments, and of sizes across all arguments; None if there is nothing to check."""
        self.checks_arguments = bool(self.positions or self.rest)
        self.checks_result = self.returns is not None or (self.call_check is not None and self.call_check.checks_result)
        self.yields = find_validator(parts[0]) if parts else None
        self.ends = find_validator(parts[2]) if len(parts) == 3 else None

    def field_of(self, name: str) -> str:
        return f"field `{name}` of {self.place}"

    def argument_of(self, name: str) -> str:
        return f"argument `{name}` of {self.place}"

    def value_of(self, name: str) -> str:
        return f"{name} of {self.place}"

    def _readable(self, annotation: Any) -> Any:
        """Return the resolved annotation; None if it is empty or cannot be read."""
        if annotation is Parameter.empty:
            return None
        try:
            return resolve(annotation, {}, self.scope)
        except DeclarationError:
            return None

    def _add(self, position: int, parameter: Parameter, validator: Validator | None) -> None:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            self.rest = None if validator is None else (position, parameter.name, validator)
        elif parameter.kind is Parameter.VAR_KEYWORD:
            self.other_keywords = validator
        else:
            if parameter.kind is not Parameter.KEYWORD_ONLY and validator is not None:
                self.positions.append((position, parameter.name, validator))
            if parameter.kind is not Parameter.POSITIONAL_ONLY:
                self.keywords[parameter.name] = validator

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> _CheckedCall:
        """Validate the arguments, and return those to call the function with."""
        args, kwargs = self.check_positional(args, level), self.check_keywords(kwargs, level)
        return args, kwargs, None if self.call_check is None else self.sizes(self.call_check, args, kwargs, level)

    def check_keywords(self, kwargs: dict[str, Any], level: Level) -> dict[str, Any]:
        for name, value in kwargs.items():
            found = self.keywords.get(name, self.other_keywords)
            if found is not None:
                kwargs = {**kwargs, name: found(value, name, self.argument_of, level)}
        return kwargs

    def check_positional(self, args: tuple[Any, ...], level: Level) -> tuple[Any, ...]:
        values = list(args)
        for position, name, validator in self.positions:
            if position < len(values):
                values[position] = validator(values[position], name, self.argument_of, level)
        if self.rest is not None:
            start, name, validator = self.rest
            values[start:] = [validator(value, f"*{name}", self.argument_of, level) for value in values[start:]]
        return tuple(values)

    def result(self, value: Any, checked: _CheckedCall, level: Level) -> Any:
        if self.returns is not None:
            value = self.returns(value, "return value", self.value_of, level)
        call, (args, kwargs, sizes) = self.call_check, checked
        if call is None or sizes is None or not call.checks_result:
            return value
        right = call.fits(value, sizes)
        if not right or level == "values":
            given, explain = partial(call.results, value), partial(call.result_problems, args, kwargs, sizes)
            self.require(right, call, f"the result of {call.name} does", given, explain)
        return value

    def sizes(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> Sizes | None:
        """Check arrays and sizes, and return the sizes of names; None if the arguments do not match the signature."""
        try:
            sizes: Sizes | None = call.sizes(*args, **kwargs)
        except TypeError:  # the function itself is about to raise a clearer error
            return None
        if sizes is None or level == "values":
            what, given = f"the arguments of {call.name} do", partial(call.bound, args, kwargs)
            self.require(sizes is not None, call, what, given, call.problems)
        return sizes

    def require(
        self, right: bool, call: Call, what: str, given: Callable[[], Any], explain: Callable[..., tuple[Problem, ...]]
    ) -> None:
        """Raise an error unless the given values of a call are right and follow the rules; it names the wrong ones."""
        if is_compiling():
            if right:
                return
            break_graph(f"{what} not fit; a call without torch.compile has the report")
        fields, values = given()
        problems = call.violations(fields, values) if right else explain(fields, values)
        if right and not problems:
            return
        got = summarize(values)
        problems = problems or (Problem("", "TB105 unreadable-field", "", UNSTEADY, call.name),)
        blamed = dict.fromkeys(top_of(problem.path) for problem in problems)
        if RETURN in blamed:
            raise CallError(call.name, problems, got, self.value_of("return value"))
        boundary = self.argument_of("`, `".join(blamed))
        raise CallError(call.name, problems, got, boundary if len(blamed) == 1 else f"arguments{boundary[8:]}")

    async def awaited(self, coroutine: Any, checked: _CheckedCall, level: Level) -> Any:
        """Validate the result of a coroutine that a plain function returns, as under another decorator."""
        return self.result(await coroutine, checked, level)

    def yielded(self, level: Level) -> Callable[[Any], Any]:
        if self.yields is None or level == "off":
            return lambda item: item
        return numbered(self.yields, "yielded value", self.value_of, level)

    def returned(self, value: Any, level: Level) -> Any:
        return value if self.ends is None else self.ends(value, "return value", self.value_of, level)


def _plain_function(function: Any) -> Any:
    """Return the function below decorators, partials and callable objects; None for a builtin."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if hasattr(function, "__code__"):
        return getattr(function, "__func__", function)
    call = type(function).__call__
    return call if hasattr(call, "__code__") else None
