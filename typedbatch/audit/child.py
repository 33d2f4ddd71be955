"""Calls in a child process, which leave nothing behind in this one."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

_PATIENCE = 120.0
"""Seconds after which a child is stopped."""


def can_fork() -> bool:
    """Return True if this process can be copied: on Linux, as long as no GPU is in use."""
    return sys.platform.startswith("linux") and not _uses_gpu()


def _uses_gpu() -> bool:
    initialized: Callable[[], bool] = torch.cuda.is_initialized
    return initialized()


def in_child(function: Callable[[], Any]) -> Any:
    """Call a function in a copy of this process, and return its result.

    The copy has one thread, and its output is dropped. Files that it writes to, and processes that it talks to, are
    those of this process.

    Args:
        function: Function that returns numbers, texts, bools, and lists and dicts of these.

    Returns:
        The result, or None if the function raised an error or took too long.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of other threads, which the copy lacks.
        pid = os.fork()
    if pid == 0:
        _run(function, reader, writer)
    os.close(writer)
    try:
        text = _read(reader)
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return json.loads(text) if text else None


def _run(function: Callable[[], Any], reader: int, writer: int) -> None:
    """Write the result of a function to a pipe, in the child, and end the child."""
    try:
        os.close(reader)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        torch.set_num_threads(1)  # The threads of a pool are not copied.
        os.write(writer, json.dumps(function()).encode())
    finally:
        os._exit(0)


def _read(reader: int) -> bytes:
    """Return all that is written to a pipe until its end; nothing if that takes too long."""
    out, end = b"", time.monotonic() + _PATIENCE
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return b""
        part = os.read(reader, 65536)
        if not part:
            return out
        out += part
