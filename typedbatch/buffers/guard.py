"""What keeps a buffer whole while several threads call it, and when a call is interrupted.

Each buffer has one lock, and every call holds it. A call that changes the buffer says first how to undo what it is
about to do; when an exception ends it, ``KeyboardInterrupt`` for one, that is undone. If the undoing is interrupted
too, the next call begins with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
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

_ELSEWHERE = (
    "this buffer was made, or opened, in another process, which goes on writing to its folder; "
    "open(path, mode='r') reads it here"
)


class Guard:
    """The lock of a buffer and of the rings that are parts of it, and what is to be undone."""

    __slots__ = ("__weakref__", "abandoned", "durable", "lock", "reader", "settling", "unfinished")

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self.unfinished: list[Callable[[], None]] = []
        """How to undo each change that has begun and has not ended; the innermost one is the last."""
        self.abandoned: bool = False
        """Whether those changes will not be gone on with, because an exception has ended them."""
        self.settling: bool = False
        self.reader: Reader | None = None
        """What reads the folder that another process writes to, if this buffer is open for reading."""
        self.durable: bool = False
        _guards.add(self)

    def settle(self) -> None:
        """Undo what was interrupted. Called where :attr:`unfinished` is not empty.

        Raises:
            StructureError: it was not interrupted: a signal handler calls the buffer in the middle of a change.
            StorageError: the buffer is closed.
        """
        if not self.abandoned:
            raise StructureError(
                "this buffer is in the middle of a change, which a signal handler has interrupted; "
                "let the handler set a flag, and look at it after the call"
            )
        if self.settling:  # undoing begins changes of its own, and the next call goes on with what is left
            return
        try:
            self.settling = True
            while self.unfinished:
                self.unfinished[-1]()
                self.unfinished.pop()
            self.abandoned = False
        finally:
            self.settling = False

    def refuse(self, reason: str) -> None:
        """Raise an error in every call from now on."""
        self.unfinished.append(partial(_raise, reason))
        self.abandoned = True


def in_whole(state: State, call: Callable[[], T], index: Any = slice(None)) -> T:
    """What a function gives that reads a buffer, without another thread's call in between."""
    guard = state.guard
    with guard.lock:
        if guard.unfinished:
            guard.settle()
        if guard.reader is not None:
            return guard.reader.read(call, state, index)
        return call()


def _raise(reason: str) -> None:
    raise StorageError(reason)


def require_writer(guard: Guard, name: str) -> None:
    """Raise an error if the buffer is open for reading.

    Raises:
        StorageError: it is.
    """
    if guard.reader is not None:
        raise StorageError(f"{name}() changes the buffer, and this one is open for reading, with mode='r'")


@contextmanager
def held_for_changes(guard: Guard, name: str) -> Generator[None]:
    """No other thread's call comes in between of several that change a buffer.

    Raises:
        StorageError: the buffer is open for reading.
    """
    with guard.lock:
        if guard.unfinished:
            guard.settle()
        require_writer(guard, name)
        yield


def exclusive(method: M, *, at: bool = False) -> M:
    """A method of a buffer that no other thread's call comes in between of.

    Args:
        method: the method.
        at: whether its first argument says which rows it is about, and not all of them.
    """

    @wraps(method)
    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = self._state.guard
        with guard.lock:
            if guard.unfinished:
                guard.settle()
            if guard.reader is not None:
                index = next(iter((*args, *kwargs.values())), None) if at else slice(None)
                return guard.reader.read(partial(method, self, *args, **kwargs), self._state, index)
            return method(self, *args, **kwargs)

    return alone  # type: ignore[return-value]  # it is called as the method is


def exclusive_at(method: M) -> M:
    """The same for a method whose first argument says which rows it is about."""
    return exclusive(method, at=True)


def changing(method: M) -> M:
    """A method that changes the buffer, which nobody may who has opened it for reading."""

    @wraps(method)
    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = self._state.guard
        with guard.lock:
            if guard.unfinished:
                guard.settle()
            require_writer(guard, method.__name__)
            return method(self, *args, **kwargs)

    return alone  # type: ignore[return-value]  # it is called as the method is


_guards: WeakSet[Guard] = WeakSet()


def _in_a_forked_process() -> None:
    """Nobody will give back the locks that other threads held, nor end what they had begun."""
    for guard in list(_guards):
        guard.lock = RLock()
        guard.abandoned = True
        if guard.durable:
            guard.refuse(_ELSEWHERE)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)
