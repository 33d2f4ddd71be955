"""The guard of a buffer: its lock, and rollback of changes that are interrupted.

Each buffer has one lock, and every call holds it. A call that changes the buffer registers a rollback first, which runs
if an exception, such as ``KeyboardInterrupt``, ends the call. If the rollback is interrupted as well, the next call
begins with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, wraps
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from typedbatch.errors import StorageError, StructureError

if TYPE_CHECKING:
    from typedbatch.buffers.reader import Reader
    from typedbatch.buffers.state import State

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

_FORKED = (
    "this buffer belongs to the process that created or opened it, which continues to write to its folder; "
    "open(path, mode='r') reads it here"
)


class Guard:
    """The lock of a buffer and of its rings, and the rollbacks of changes in progress."""

    __slots__ = ("__weakref__", "abandoned", "durable", "lock", "mark", "reader", "rolling_back", "unfinished")

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self.unfinished: list[Callable[[], None]] = []
        """Rollback callbacks of the changes in progress, outermost first."""
        self.abandoned: bool = False
        """Whether an exception has ended those changes, so that they have to be rolled back."""
        self.rolling_back: bool = False
        """Whether a rollback is running."""
        self.reader: Reader | None = None
        """Reader of the folder, if this buffer is open for reading."""
        self.durable: bool = False
        """Whether the rows of the buffer are on disk."""
        self.mark: object = None
        """Mark of the collector that has added the last rows; see ``typedbatch.training.add_rollout``."""
        _guards.add(self)

    def rollback_unfinished(self) -> None:
        """Roll back the changes that were interrupted. Called when :attr:`unfinished` is not empty.

        Raises:
            StructureError: The changes were not interrupted: a signal handler has called the buffer during a change.
            StorageError: The buffer is closed.
        """
        if not self.abandoned:
            raise StructureError(
                "this buffer cannot be used in a signal handler that runs in the middle of a change to it; "
                "let the handler set a flag, and check the flag after the call"
            )
        if self.rolling_back:  # a rollback may call the buffer and begin changes of its own
            return
        try:
            self.rolling_back = True
            while self.unfinished:
                self.unfinished[-1]()
                self.unfinished.pop()
            self.abandoned = False
        finally:
            self.rolling_back = False

    def refuse(self, reason: str) -> None:
        """Raise an error in every call from now on."""

        def fail() -> None:
            raise StorageError(reason)

        self.unfinished.append(fail)
        self.abandoned = True


def call_locked(state: State, call: Callable[[], T], index: Any = slice(None)) -> T:
    """Return the result of a function that reads a buffer, called while holding the buffer's lock.

    Args:
        state: State of the buffer.
        call: Function to call.
        index: Rows that the function reads; by default all.
    """
    guard = state.guard
    with guard.lock:
        if guard.unfinished:
            guard.rollback_unfinished()
        if guard.reader is not None:
            return guard.reader.read(call, state, index)
        return call()


def require_writer(guard: Guard, name: str) -> None:
    """Raise an error if the buffer is open for reading.

    Args:
        guard: Guard of the buffer.
        name: Name of the method that was called.

    Raises:
        StorageError: The buffer is open for reading.
    """
    if guard.reader is not None:
        raise StorageError(f"{name}() changes the buffer, and this one is open for reading, with mode='r'")


def prepare_change(guard: Guard, name: str) -> None:
    """Finish the rollback of interrupted changes. The caller, which changes the buffer, holds its lock.

    Args:
        guard: Guard of the buffer.
        name: Name of the method that was called.

    Raises:
        StorageError: The buffer is open for reading.
    """
    if guard.unfinished:
        guard.rollback_unfinished()
    require_writer(guard, name)


def locked(method: M, *, at: bool = False) -> M:
    """Run the method while holding the buffer's lock; a decorator.

    Args:
        method: Method of a buffer.
        at: Whether the first argument of the method is an index of the rows that it reads; otherwise it may read all.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = self._state.guard
        with guard.lock:
            if guard.unfinished:
                guard.rollback_unfinished()
            if guard.reader is not None:
                index = next(iter((*args, *kwargs.values())), None) if at else slice(None)
                return guard.reader.read(partial(method, self, *args, **kwargs), self._state, index)
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]  # it has the signature of the method


def locked_at(method: M) -> M:
    """Run the method while holding the buffer's lock; its first argument is an index of the rows that it reads."""
    return locked(method, at=True)


def locked_for_writing(method: M) -> M:
    """Run a method that changes the buffer while holding its lock; raise an error if it is open for reading."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = self._state.guard
        with guard.lock:
            prepare_change(guard, method.__name__)
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]  # it has the signature of the method


_guards: WeakSet[Guard] = WeakSet()


def _in_a_forked_process() -> None:
    """Replace the locks in the child, as the threads that held them, and would finish their changes, do not exist."""
    for guard in list(_guards):
        guard.lock = RLock()
        guard.abandoned = True
        if guard.durable:
            guard.refuse(_FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)
