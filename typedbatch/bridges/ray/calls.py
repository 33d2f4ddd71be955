"""Functions, and methods of objects, in other processes: typed as they are, and validated where they arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, cast

import ray
from ray.exceptions import RayTaskError
from typing_extensions import ParamSpec, TypeVar

from typedbatch._tree.leaves import describe
from typedbatch._validation.checked import checked
from typedbatch.errors import SettingError

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Remote(Generic[P, T]):
    """A function that runs in another process; what it takes and gives is what the function does.

    Args:
        function: called there with the arguments that are given here.
        options: as ``ray.remote`` takes them.
    """

    def __init__(self, function: Callable[P, T], options: dict[str, Any]) -> None:
        decorate: Any = ray.remote(**options) if options else ray.remote
        self._remote: Any = decorate(checked(function))

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> ray.ObjectRef[T]:
        """Call it; :func:`value_of` makes an argument of what is still being computed."""
        ref: ray.ObjectRef[T] = self._remote.remote(*args, **kwargs)
        return ref

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it, and wait for the result; an error that it raises is raised here as it was there."""
        out: T = get(self.remote(*args, **kwargs))
        return out


def remote(function: Callable[P, T], **options: Any) -> Remote[P, T]:
    """A function for other processes, whose batches are validated there, with its name in the report.

    Args:
        function: as :func:`typedbatch.checked` takes it; arguments and results that are declared as protocols or
            records are validated, once, in the process that runs it.
        **options: as ``ray.remote`` takes them, for example ``num_cpus=2``.
    """
    return Remote(function, options)


class _Holder:
    """An object in a process of its own, and its methods by name."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._held: Any = make()
        self._methods: dict[str, Callable[..., Any]] = {}

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name not in self._methods:
            self._methods[name] = checked(getattr(self._held, name))
        return self._methods[name](*args, **kwargs)


class Actor(Generic[T]):
    """An object that lives in another process; its methods are called there, and typed as they are.

    ``learner.call(Learner.update, batch)`` takes and gives what ``Learner.update`` does. Batches are validated there,
    with the method's name in the report, once. A subclass's own method is called where it has one.

    Args:
        make: makes the object, in its process; a class without arguments, or ``lambda: Learner(lr=1e-3)``.
        **options: as ``ray.remote`` takes them, for example ``num_gpus=1``.

    Raises:
        SettingError: ``make`` cannot be called.
    """

    def __init__(self, make: Callable[[], T], **options: Any) -> None:
        if not callable(make):
            raise SettingError(f"a function that makes an object is expected, got {describe(make)}")
        decorate: Any = ray.remote(**options) if options else ray.remote
        self._remote: Any = decorate(_Holder).remote(make)

    def remote(self, method: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs) -> ray.ObjectRef[R]:
        """Call a method; :func:`value_of` makes an argument of what is still being computed.

        Raises:
            SettingError: it has no name, as ``functools.partial`` has none.
        """
        name = getattr(method, "__name__", None)
        if name is None:
            raise SettingError(f"a method is named by its class, as Learner.update is, got {describe(method)}")
        ref: ray.ObjectRef[R] = self._remote.call.remote(name, *args, **kwargs)
        return ref

    def call(self, method: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method, and wait for the result; an error that it raises is raised here as it was there."""
        out: R = get(self.remote(method, *args, **kwargs))
        return out

    def close(self) -> None:
        """End the process."""
        ray.kill(self._remote)


def get(ref: ray.ObjectRef[T]) -> T:
    """The value of a reference. Arrays of a batch are those in the store, read-only; ``copy.deepcopy`` gives own ones.

    Raises:
        SchemaError: a function was handed, or gave, what it is not declared to; and whatever else it raised.
    """
    try:
        out: T = ray.get(ref)
    except RayTaskError as error:
        cause: BaseException = getattr(error, "cause", None) or error
        raise cause from None
    return out


def value_of(ref: ray.ObjectRef[T]) -> T:
    """A reference as an argument of a remote function: Ray hands the function its value, and so types it."""
    return cast("T", ref)
