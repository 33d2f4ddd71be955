"""Copies of this process, in which an update is replayed, so that nothing has to be restored."""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import torch

from typedbatch.buffers.guard import allow_reading

_PATIENCE = 120.0
"""Seconds after which a child is stopped."""
_IDLE = 10.0
"""Seconds without CPU time after which a child is taken to wait for a thread that it does not have."""
_LENGTH: Final = struct.Struct("!Q")


class Result(NamedTuple):
    """The result of a function in a child.

    Attributes:
        value: Its result, or None.
        failure: The reason why there is none; empty if there is one.
    """

    value: Any
    failure: str = ""


def can_fork() -> bool:
    """Return True if this process can be copied: on Linux, as long as no GPU is in use."""
    uses_gpu: Callable[[], bool] = torch.cuda.is_initialized
    return sys.platform.startswith("linux") and not uses_gpu()


def tensors_of_child(function: Callable[[], Any]) -> Result:
    """Call a function in a copy of this process, and return its tensors, lists and dicts."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.pt")

        def save() -> bool:
            torch.save(function(), path)
            return True

        saved = in_child(save)
        return Result(torch.load(path, weights_only=True)) if saved.value else saved


def in_child(function: Callable[[], Any]) -> Result:
    """Call a function in a copy of this process, and return its result, which JSON can hold.

    The copy has one thread, and its output is dropped. Files that it writes to, and processes that it talks to, are
    those of this process. Buffers on disk can be read in it, and not be changed.
    """
    reader = writer = pid = -1
    try:
        with _uninterrupted():
            reader, writer = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of other threads, which it lacks.
                pid = os.fork()
            if pid == 0:
                _run(function, writer)
            os.close(writer)
            writer = -1
        return _result_of(reader, pid)
    finally:
        for number in (reader, writer):
            if number >= 0:
                os.close(number)
        if pid > 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Keep Ctrl-C waiting while descriptors and processes come into being that somebody has to close."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(function: Callable[[], Any], writer: int) -> None:
    """Write the length and text of a result to a pipe, in the child, and end the child."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        torch.set_num_threads(1)  # The threads of a pool are not copied.
        if "torch._dynamo" in sys.modules:
            torch.compiler.set_stance("force_eager")  # As in a trace; else each copy would compile.
        allow_reading()
        try:
            result = Result(function())
        except Exception as error:  # noqa: BLE001  # whatever it is, the parent tells of it
            result = Result(None, f"the update raised {type(error).__name__} in a copy of the process: {error}")
        text = json.dumps(result).encode()
        for part in (_LENGTH.pack(len(text)), text):
            while part:
                part = part[os.write(writer, part) :]
    finally:
        os._exit(0)


def _result_of(reader: int, pid: int) -> Result:
    """Return what a child writes. It is read by its length, as others may hold the pipe open after the child."""
    out, begin = b"", time.monotonic()
    used, since = -1.0, begin
    while len(out) < _LENGTH.size or len(out) < _LENGTH.size + _LENGTH.unpack_from(out)[0]:
        if not select.select([reader], [], [], 0.5)[0]:
            now, seconds = time.monotonic(), _cpu_seconds(pid)
            if seconds != used:
                used, since = seconds, now
            if now - since > _IDLE:
                return Result(
                    None, "a copy of the process waits, perhaps for a lock that a thread of this process held"
                )
            if now - begin > _PATIENCE:
                return Result(None, f"a copy of the process did not end within {_PATIENCE:g} s")
            continue
        part = os.read(reader, 65536)
        if not part:
            return Result(None, "a copy of the process was killed or ended by itself")
        out += part
    return Result(*json.loads(out[_LENGTH.size :]))


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far, in ticks."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return float(fields[11]) + float(fields[12])
