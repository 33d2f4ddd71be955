"""Functions, and methods of objects, that run in other processes with their own types and validate batches there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, cast

import ray
from ray.exceptions import RayTaskError
from typing_extensions import ParamSpec, TypeVar

from typedbatch._core.kinds import describe
from typedbatch._validation.checked import checked
from typedbatch.errors import SettingError

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Remote(Generic[P, T]):
    """A function that runs in another process, with the same arguments and result.

    Args:
        function: The function.
        options: Options of ``ray.remote``.
    """

    def __init__(self, function: Callable[P, T], options: dict[str, Any]) -> None:
        self._remote: Any = (ray.remote(**options) if options else ray.remote)(checked(function))

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> ray.ObjectRef[T]:
        """Start a call. Pass a result that is still being computed through :func:`value_of`."""
        ref: ray.ObjectRef[T] = self._remote.remote(*args, **kwargs)
        return ref

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function and wait for the result. An error in the function is raised here as the same error."""
        return get(self.remote(*args, **kwargs))


def remote(function: Callable[P, T], **options: Any) -> Remote[P, T]:
    """Return a function that runs in another process and validates its batches there.

    Reports of validation name the function.

    Args:
        function: A function as for :func:`typedbatch.checked`. Arguments and results that are declared as protocols or
            records are validated once, in the process that runs the function.
        **options: Options of ``ray.remote``, for example ``num_cpus=2``.
    """
    return Remote(function, options)


class _Holder:
    """An object in another process, whose methods are called by name."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._object: Any = make()
        self._methods: dict[str, Callable[..., Any]] = {}

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name not in self._methods:
            self._methods[name] = checked(getattr(self._object, name))
        return self._methods[name](*args, **kwargs)


class Actor(Generic[T]):
    """An object in another process, whose methods run there with their own types.

    ``learner.call(Learner.update, batch)`` has the arguments and the result of ``Learner.update``. Batches are
    validated once, in that process, and reports name the method. If a subclass overrides the method, its own is called.

    Args:
        make: Function that creates the object in its process: a class without arguments, or ``lambda:
            Learner(lr=1e-3)``.
        **options: Options of ``ray.remote``, for example ``num_gpus=1``.

    Raises:
        SettingError: ``make`` cannot be called.
    """

    def __init__(self, make: Callable[[], T], **options: Any) -> None:
        if not callable(make):
            raise SettingError(f"Actor() takes a function that creates an object, got {describe(make)}")
        decorate: Any = ray.remote(**options) if options else ray.remote
        self._remote: Any = decorate(_Holder).remote(make)

    def remote(self, method: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs) -> ray.ObjectRef[R]:
        """Start a call of a method. Pass a result that is still being computed through :func:`value_of`.

        Raises:
            SettingError: the method has no name, such as a ``functools.partial``.
        """
        name = getattr(method, "__name__", None)
        if name is None:
            raise SettingError(f"a method with a name is expected, such as Learner.update, got {describe(method)}")
        ref: ray.ObjectRef[R] = self._remote.call.remote(name, *args, **kwargs)
        return ref

    def call(self, method: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method and wait for the result. An error in the method is raised here as the same error."""
        return get(self.remote(method, *args, **kwargs))

    def close(self) -> None:
        """End the process."""
        ray.kill(self._remote)


def get(ref: ray.ObjectRef[T]) -> T:
    """Return the value of a reference.

    Arrays of a batch are read-only, because they are those in Ray's store; ``copy.deepcopy`` copies them.

    Raises:
        SchemaError: an argument or result of the function does not match its declaration. Other errors of the function
            are raised as well.
    """
    try:
        out: T = ray.get(ref)
    except RayTaskError as error:
        cause: BaseException = getattr(error, "cause", None) or error
        raise cause from None
    return out


def value_of(ref: ray.ObjectRef[T]) -> T:
    """Return a reference, typed as the value that Ray passes to a remote function in its place."""
    return cast("T", ref)
