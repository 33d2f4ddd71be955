"""Reading an HDF5 file that nobody vouches for: HDF5 loops or crashes over some, so another process does it.

That process lives on for a while, because starting one takes longer than reading a small file. What it says is believed
as little as the file itself.
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
"""What a small file may take of a processor; a larger one takes a second more per two megabytes."""
_PER_BYTE = 0.5e-6
_PATIENCE = 10
"""How many times as long it may take by the clock."""
_MEMORY = 2**31
_ROOM = 2**24
_SERVE = "from typedbatch.files._hdf5.serve import serve; serve()"


def read_file(path: str | os.PathLike[str], names: list[str] | None = None, *, trusted: bool = False) -> Group:
    """The root of an HDF5 file, as plain data.

    Args:
        path: the file.
        names: the members to read; None for all.
        trusted: let HDF5 read it in this process, which is faster, and may hang or crash over a file that somebody has
            made up or damaged.

    Raises:
        StorageError: the file is damaged, or not a regular file, or HDF5 came to an end over it, or to none.
        OSError: it cannot be opened.
    """
    with open_regular(path) as found:  # HDF5 opens it again, by its name, and would wait for the other end of a pipe
        size = os.fstat(found.fileno()).st_size
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
                raise StorageError(worker.epitaph()) from None
            continue
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
    """The process ended before it had answered."""


class _Request:
    """A file to read, and how much of everything that may take."""

    def __init__(self, path: str, names: list[str] | None, size: int) -> None:
        self.size: int = size
        self.seconds: float = SECONDS + size * _PER_BYTE
        self.data: int = _ROOM + DENSEST * size
        self.text: int = _ROOM + size
        memory = _MEMORY + self.data
        document = {"path": path, "names": names, "seconds": self.seconds, "memory": memory}
        self.line: bytes = json.dumps(document).encode() + b"\n"


class Worker:
    """A process that reads files, one after the other."""

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
        """Whether the last answer was read to its end."""
        self._timed_out: bool = False

    def ask(self, request: _Request) -> Group:
        """What a file holds.

        Raises:
            StorageError: it is refused.
            _GoneError: the process has ended.
        """
        self.answered = False
        watch = threading.Timer(_PATIENCE * request.seconds, self._end)
        watch.daemon = True
        try:
            watch.start()
            assert self._process.stdin is not None
            self._process.stdin.write(request.line)
            return self._answer(request)
        except BrokenPipeError:
            raise _GoneError from None
        finally:
            watch.cancel()

    def _answer(self, request: _Request) -> Group:
        arrays: list[NDArray[Any]] = []
        data = 0
        while True:
            kind = self._read(1).tobytes()
            length = int.from_bytes(self._read(8), "little")
            if length > (request.data - data if kind == b"a" else request.text):
                raise StorageError("more data than there can be in a file of this size")
            data += length
            if kind == b"a":
                arrays.append(self._array(length))
                continue
            said = json.loads(self._read(length).tobytes())
            self.answered = True
            if kind == b"t":
                return _group(said, _Arrays(arrays, request.text))
            raise StorageError(*map(str, said))

    def _read(self, count: int) -> memoryview:
        room = memoryview(bytearray(count))
        self._read_into(room)
        return room

    def _read_into(self, room: memoryview) -> None:
        source: Any = self._process.stdout
        while room:
            if not (read := source.readinto(room)):
                raise _GoneError
            room = room[read:]

    def _array(self, length: int) -> NDArray[Any]:
        head = self._read(12)
        known = head[:8].tobytes() == b"\x93NUMPY\x02\x00"
        rest = self._read(min(int.from_bytes(head[8:12], "little"), length))
        if not known or 12 + len(rest) > length:
            raise StorageError("what was read of it is not an array")
        header: Any = npy.read_array_header_2_0(io.BytesIO(head[8:].tobytes() + rest.tobytes()))
        shape, fortran, dtype = header
        if fortran or dtype.hasobject or prod(shape) * dtype.itemsize != length - 12 - len(rest):
            raise StorageError("what was read of it is not an array")
        array: NDArray[Any] = np.empty(shape, dtype)
        if array.nbytes:
            self._read_into(array.reshape(-1).view(np.uint8).data)
        return array

    def _end(self) -> None:
        self._timed_out = True
        self._process.kill()

    def epitaph(self) -> str:
        """Why the process ended, as far as can be known."""
        if self._timed_out or self._process.returncode == -24:  # SIGXCPU
            return "HDF5 does not come to an end over it: it is damaged, or made to do so"
        return (
            "HDF5 did not survive it: it is damaged, made to do so, or too large for this machine "
            f"(the process that read it ended with {self._process.returncode})"
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._hang_up()
        self._process.wait()

    def disown(self) -> None:
        """Have nothing to do with the process any more."""
        self._hang_up()
        self._process.returncode = 0  # whatever becomes of it

    def _hang_up(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Arrays:
    """The arrays of an answer, each of which is in one place."""

    def __init__(self, arrays: list[NDArray[Any]], text: int) -> None:
        self._arrays: list[NDArray[Any] | None] = [*arrays]
        self._text = text

    def take(self, kind: str, place: int) -> NDArray[Any]:
        """An array by its number; of what is JSON there is no more than the file could hold."""
        array, self._arrays[place] = self._arrays[place], None
        if array is None:
            raise StorageError("an array in two places")
        if kind in JSON_KINDS:
            self._text -= array.nbytes
            if self._text < 0:
                raise StorageError("more text than there can be in a file of this size")
        return array


def _group(said: Any, arrays: _Arrays) -> Group:
    _, kind, attributes, members = said
    return Group(kind, _values(attributes), {name: _node(inner, arrays) for name, inner in members.items()})


def _node(said: Any, arrays: _Arrays) -> Group | Data:
    if said[0] == "g":
        return _group(said, arrays)
    _, kind, place, details = said
    return Data(kind, arrays.take(kind, place), _values(details))


def _values(said: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(kind, value) for name, (kind, value) in said.items()}


class Other:
    """An attribute of a kind that is not read."""


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
"""Processes that wait for a request."""


def end_all() -> None:
    """End the processes that wait for a request."""
    while _idle:
        _idle.pop().close()


atexit.register(end_all)


def _forget_all() -> None:
    """In a forked process: those of the parent are not this one's to ask, nor to end."""
    for worker in list(_workers):
        worker.disown()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
