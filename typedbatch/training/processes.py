"""Processes of environments in gymnasium's ``AsyncVectorEnv``: time limits, failures, and termination."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty
from typing import Any

_FOR_ERRORS = 3.0
"""Seconds to wait for an error that a process has announced. An error that cannot be pickled never arrives."""


class TimeLimit:
    """A context manager, ``with TimeLimit(envs, 2.0):``, that limits the time that processes may take.

    The vector itself waits for its processes, below any wrappers. Inside the block, its methods are therefore replaced,
    and its queue of errors by this object.
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
        """Install the limits."""
        self._begun = time.monotonic()
        if self._seconds is not None:
            self._envs.step_wait, self._envs.reset_wait = self._step, self._reset
        self._envs.error_queue = self

    def __exit__(self, *_: object) -> None:
        """Remove the limits."""
        self._envs.error_queue = self._queue
        for name in ("step_wait", "reset_wait"):
            vars(self._envs).pop(name, None)

    def get(self) -> Any:
        """Return the next error from the processes, or raise a RuntimeError if none arrives in time."""
        left = _FOR_ERRORS
        if self._seconds is not None:  # the time for an error that was raised within the limit
            left = max(self._seconds - (time.monotonic() - self._begun), min(self._seconds, 1.0))
        try:
            return self._queue.get(timeout=left)
        except Empty:
            raise RuntimeError("an error that cannot be pickled, so that only its process could print it") from None


def failed_envs(envs: Any, *, late: bool = False) -> list[int]:
    """Return the indices of environments whose process has ended; with ``late``, also of those without an answer."""
    inner = envs.unwrapped
    return [
        number
        for number, (pipe, process) in enumerate(zip(inner.parent_pipes, inner.processes, strict=True))
        if pipe is None or not process.is_alive() or (late and not pipe.closed and not pipe.poll(0))
    ]


def is_waiting(envs: Any) -> bool:
    """Return whether a vector still waits for the answer to an earlier call."""
    return getattr(getattr(envs.unwrapped, "_state", None), "value", "default") not in ("default", None)


def terminate(envs: Any) -> None:
    """Kill all processes, even if they hang, and close their pipes and the vector."""
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
