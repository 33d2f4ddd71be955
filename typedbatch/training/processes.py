"""Processes that environments run in, as gymnasium's ``AsyncVectorEnv`` has them: how long they may take, their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing import TimeoutError as PoolTimeoutError
from queue import Empty
from typing import Any

_FOR_ERRORS = 3.0
"""Seconds for an error to arrive that a process has announced; one that cannot be pickled never does."""


def has_processes(envs: Any) -> bool:
    """Return whether environments run in processes of gymnasium's."""
    return hasattr(envs.unwrapped, "parent_pipes") and hasattr(envs.unwrapped, "processes")


def is_timeout(error: BaseException) -> bool:
    """Return whether an error says that a process has taken too long."""
    return isinstance(error, PoolTimeoutError)


class Answering:
    """A block, ``with Answering(envs, 2.0):``, in which a process that takes longer is an error.

    The waiting is inside of the vector, below whatever wraps it, and can be given a limit nowhere else.

    Args:
        envs: what runs in processes.
        seconds: how long they may take to answer; None for ever.
    """

    def __init__(self, envs: Any, seconds: float | None) -> None:
        self._envs: Any = envs.unwrapped
        self._seconds = seconds
        self._begun = 0.0
        self._queue: Any = self._envs.error_queue
        step, reset = self._envs.step_wait, self._envs.reset_wait
        self._step: Callable[..., Any] = lambda timeout=seconds: step(timeout)
        self._reset: Callable[..., Any] = lambda timeout=seconds: reset(timeout)

    def __enter__(self) -> None:
        """Put the limits in."""
        self._begun = time.monotonic()
        if self._seconds is not None:
            self._envs.step_wait, self._envs.reset_wait = self._step, self._reset
        self._envs.error_queue = _Errors(self._queue, self._left)

    def __exit__(self, *_: object) -> None:
        """Take them out."""
        self._envs.error_queue = self._queue
        for name in ("step_wait", "reset_wait"):
            vars(self._envs).pop(name, None)

    def _left(self) -> float:
        """Return how many seconds an error may take, which was raised in time."""
        if self._seconds is None:
            return _FOR_ERRORS
        return max(self._seconds - (time.monotonic() - self._begun), min(self._seconds, 1.0))


class _Errors:
    """The queue that processes put their errors into, which is not waited for without end.

    Args:
        queue: gymnasium's.
        left: how many seconds it may take.
    """

    def __init__(self, queue: Any, left: Callable[[], float]) -> None:
        self._queue: Any = queue
        self._left = left

    def get(self) -> Any:
        """Return the next error.

        Raises:
            RuntimeError: it does not come.
        """
        try:
            return self._queue.get(timeout=self._left())
        except Empty:
            raise RuntimeError("an error that cannot be pickled, so that only its process could print it") from None


def gone(envs: Any, *, late: bool = False) -> list[int]:
    """Return the environments whose process has ended, and with ``late`` those that have not answered."""
    inner = envs.unwrapped
    return [
        number
        for number, (pipe, process) in enumerate(zip(inner.parent_pipes, inner.processes, strict=True))
        if pipe is None or not process.is_alive() or (late and not pipe.closed and not pipe.poll(0))
    ]


def is_waiting(envs: Any) -> bool:
    """Return whether a vector waits for an answer that nobody has taken."""
    return getattr(getattr(envs.unwrapped, "_state", None), "value", "default") not in ("default", None)


def end(envs: Any) -> None:
    """End processes, also such that hang, and close what is around them."""
    inner = envs.unwrapped
    for process in inner.processes:
        process.kill()
    for process in inner.processes:
        process.join()
    for pipe in inner.parent_pipes:
        if pipe is not None:
            pipe.close()
    inner.closed = True
    envs.close()
