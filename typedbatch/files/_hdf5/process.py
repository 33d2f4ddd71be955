"""Untrusted HDF5 files, read in a separate process, because HDF5 hangs or crashes on some damaged files.

The process stays alive for a while, because starting one takes longer than reading a small file. Its answers are
trusted as little as the file, and are checked in the same way.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import threading
from math import prod
from typing import Any
from weakref import WeakSet

import h5py
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from typedbatch.errors import StorageError
from typedbatch.files._hdf5 import is_from_hdf5
from typedbatch.files._hdf5.nodes import DENSEST, JSON_KINDS, Data, Group, read_group
from typedbatch.files.regular import open_regular

SECONDS = 10.0
"""Limit on the processor time for a small file; a larger file gets one second more for every two megabytes."""
_SECONDS_PER_BYTE = 0.5e-6
_WALL_TIME_FACTOR = 10
"""Limit on the wall-clock time, as a multiple of the limit on the processor time."""
_MEMORY = 2**31
_ALLOWANCE = 2**24
"""Number of bytes that any file may add to the limits that follow from its size."""
_SERVE = "from typedbatch.files._hdf5.serve import serve; serve()"


def read_file(path: str | os.PathLike[str], names: list[str] | None = None, *, trusted: bool = False) -> Group:
    """Return the root group of an HDF5 file as plain data.

    Args:
        path: The file.
        names: Names of the members to read; None means all.
        trusted: Whether to read the file in this process. That is faster, but a damaged or malicious file can make
            HDF5 hang or crash.

    Raises:
        StorageError: The file is damaged or not a regular file, or HDF5 crashed on it or did not finish in time.
        OSError: The file cannot be opened.
    """
    with open_regular(path) as file:  # HDF5 opens the file again by its path, and would block on a pipe.
        size = os.fstat(file.fileno()).st_size
    if trusted:
        return _read_here(path, names)
    request = _Request(os.path.abspath(os.fspath(path)), names, size)
    while True:
        try:
            worker, fresh = _idle.pop(), False
        except IndexError:
            worker, fresh = Worker(), True
        try:
            group = worker.ask(request)
        except _GoneError:
            worker.close()
            if fresh:
                raise StorageError(worker.exit_reason()) from None
            continue  # An idle process may have exited since its last request; a fresh one must answer.
        except StorageError as error:
            if worker.answered:
                _idle.append(worker)
            else:
                worker.close()
            raise error from None
        except BaseException:
            worker.close()
            raise
        _idle.append(worker)
        return group


def _read_here(path: str | os.PathLike[str], names: list[str] | None) -> Group:
    try:
        with h5py.File(path, "r") as file:
            return read_group(file, lambda array, _: array, names)
    except OSError as error:
        if is_from_hdf5(error):
            raise StorageError(str(error)) from error
        raise


class _GoneError(Exception):
    """The reading process ended before its answer was complete."""


class _Request:
    """A file to read, and the limits on time, memory and output for it."""

    def __init__(self, path: str, names: list[str] | None, size: int) -> None:
        self.size: int = size
        self.seconds: float = SECONDS + size * _SECONDS_PER_BYTE
        self.data: int = _ALLOWANCE + DENSEST * size
        self.text: int = _ALLOWANCE + size
        memory = _MEMORY + self.data
        document = {"path": path, "names": names, "seconds": self.seconds, "memory": memory}
        self.line: bytes = json.dumps(document).encode() + b"\n"


class Worker:
    """A process that reads HDF5 files one after another."""

    def __init__(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        _workers.add(self)
        self.answered: bool = True
        """Whether the last answer was read completely, so that the process can take another request."""
        self._timed_out: bool = False

    def ask(self, request: _Request) -> Group:
        """Return the content of a file.

        Raises:
            StorageError: The process refused the file, or its answer is invalid.
            _GoneError: The process has ended.
        """
        self.answered = False
        timer = threading.Timer(_WALL_TIME_FACTOR * request.seconds, self._time_out)
        timer.daemon = True
        try:
            timer.start()
            assert self._process.stdin is not None
            self._process.stdin.write(request.line)
            return self._answer(request)
        except BrokenPipeError:
            raise _GoneError from None
        finally:
            timer.cancel()

    def _answer(self, request: _Request) -> Group:
        arrays: list[NDArray[Any]] = []
        data = 0
        while True:
            kind = self._read(1).tobytes()
            length = int.from_bytes(self._read(8), "little")
            if length > (request.data - data if kind == b"a" else request.text):
                raise StorageError("the process that reads it sent more data than a file of this size can contain")
            data += length
            if kind == b"a":
                arrays.append(self._array(length))
                continue
            content = json.loads(self._read(length).tobytes())
            self.answered = True
            if kind == b"t":
                return _group(content, _Arrays(arrays, request.text))
            raise StorageError(*map(str, content))

    def _read(self, count: int) -> memoryview:
        buffer = memoryview(bytearray(count))
        self._read_into(buffer)
        return buffer

    def _read_into(self, buffer: memoryview) -> None:
        source: Any = self._process.stdout
        while buffer:
            if not (count := source.readinto(buffer)):
                raise _GoneError
            buffer = buffer[count:]

    def _array(self, length: int) -> NDArray[Any]:
        """Read an array in the ``.npy`` format, version 2.0, from a frame of ``length`` bytes."""
        head = self._read(12)
        is_npy = head[:8].tobytes() == b"\x93NUMPY\x02\x00"
        rest = self._read(min(int.from_bytes(head[8:12], "little"), length))
        if not is_npy or 12 + len(rest) > length:
            raise StorageError("the process that reads it sent something that is not an array")
        header: Any = npy.read_array_header_2_0(io.BytesIO(head[8:].tobytes() + rest.tobytes()))
        shape, fortran, dtype = header
        if fortran or dtype.hasobject or prod(shape) * dtype.itemsize != length - 12 - len(rest):
            raise StorageError("the process that reads it sent something that is not an array")
        array: NDArray[Any] = np.empty(shape, dtype)
        if array.nbytes:
            self._read_into(array.reshape(-1).view(np.uint8).data)
        return array

    def _time_out(self) -> None:
        self._timed_out = True
        self._process.kill()

    def exit_reason(self) -> str:
        """Return the likely reason for which the process ended."""
        if self._timed_out or self._process.returncode == -24:  # SIGXCPU
            return "HDF5 did not finish reading it: it is damaged, or was made to keep HDF5 busy"
        return (
            "HDF5 crashed while reading it: it is damaged, was made to crash HDF5, or is too large for this machine "
            f"(the process that read it ended with {self._process.returncode})"
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._close_pipes()
        self._process.wait()

    def disown(self) -> None:
        """Close the pipes to a process of the parent, without ending it."""
        self._close_pipes()
        self._process.returncode = 0  # Popen would otherwise poll a process that is not a child of this one.

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Arrays:
    """The arrays of an answer, each of which can be used once.

    Args:
        arrays: The arrays, in the order in which they were sent.
        text: Limit on the total size of all JSON, in bytes.
    """

    def __init__(self, arrays: list[NDArray[Any]], text: int) -> None:
        self._arrays: list[NDArray[Any] | None] = [*arrays]
        self._text = text

    def take(self, kind: str, position: int) -> NDArray[Any]:
        """Return the array at a position, and remove it."""
        array, self._arrays[position] = self._arrays[position], None
        if array is None:
            raise StorageError("the process that reads it used an array twice")
        if kind in JSON_KINDS:
            self._text -= array.nbytes
            if self._text < 0:
                raise StorageError("the process that reads it sent more text than a file of this size can contain")
        return array


def _group(content: Any, arrays: _Arrays) -> Group:
    _, kind, attributes, members = content
    return Group(kind, _values(attributes), {name: _node(inner, arrays) for name, inner in members.items()})


def _node(content: Any, arrays: _Arrays) -> Group | Data:
    if content[0] == "g":
        return _group(content, arrays)
    _, kind, position, details = content
    return Data(kind, arrays.take(kind, position), _values(details))


def _values(content: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(kind, value) for name, (kind, value) in content.items()}


class Other:
    """An attribute of a type that cannot be sent, such as a reference."""


def _value(kind: str, value: Any) -> Any:
    if kind == "text":
        return str(value)
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "other":
        return Other()
    return np.array(value, np.dtype(kind))[()]


_workers: WeakSet[Worker] = WeakSet()
_idle: list[Worker] = []
"""Processes that are waiting for a request."""


def end_all() -> None:
    """End all processes that are waiting for a request."""
    while _idle:
        _idle.pop().close()


atexit.register(end_all)


def _disown_all() -> None:
    """Drop the processes of the parent after a fork. They keep serving the parent."""
    for worker in list(_workers):
        worker.disown()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
