"""HDF5 files as plain data. A separate process reads untrusted files, because HDF5 hangs or crashes on damaged ones.

A request is a line of JSON on the standard input of the process. The answer on its standard output consists of lines of
JSON too: each line ``["array", dtype, shape]`` is followed by the data of an array, and a line ``["tree", group]`` or
``["error", reason, path]`` comes last. The answer is trusted as little as the file, and is checked in the same way.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from typedbatch._core.kinds import ARRAY, KINDS, SCALAR, Tree, describe, new_tree, object_array
from typedbatch._ops.conversion import torch_side
from typedbatch.errors import MissingDependencyError, StorageError, TypedBatchError, under
from typedbatch.files.regular import open_regular

try:
    import h5py as h5py
except ModuleNotFoundError as _error:
    raise MissingDependencyError("HDF5 files need h5py; pip install 'typedbatch[hdf5]'") from _error

resource: Any
try:
    import resource
except ModuleNotFoundError:  # pragma: no cover  # Windows, where only the parent limits the time
    resource = None

SECONDS = 10.0
"""Limit on the processor time for a small file; a larger file gets one second more for every two megabytes."""
_ALLOWANCE = 2**24
"""Number of bytes that any file may add to the limits that follow from its size."""
_DENSEST = 1100
"""Upper bound of the bytes that one compressed byte can expand to, for every compression filter of HDF5."""
_IDLE = 20.0
"""Number of seconds without a request after which the process exits."""
_COMPRESSION = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF}
_FILTERS = {*_COMPRESSION, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
_SERVE = "from typedbatch.files._hdf5 import serve; serve()"
_own: deque[tuple[int, int, int, int]] = deque(maxlen=1000)
"""Device, inode, size and time of change of the last files that this process has written."""

TYPE = "__data_type__"
JSON_KINDS = ("json", "json_ndarray")
DETAILS = ("time", "dtype", "requires_grad", "shape")
"""Attributes of a dataset that are needed to rebuild its value."""

Keep = Callable[[NDArray[Any]], Any]
"""A function of the array of a dataset, which returns its content in the :class:`Data`."""


class Data(NamedTuple):
    """A dataset. Its content is an array, or JSON as bytes if the kind is one of :data:`JSON_KINDS`."""

    kind: str
    content: Any
    details: dict[str, Any]
    """The attributes of the dataset that are in :data:`DETAILS`."""


class Group(NamedTuple):
    """A group. Its kind is ``"Batch"``, ``"dict"`` or empty."""

    kind: str
    attributes: dict[str, Any]
    members: dict[str, Any]


def text_of(attribute: object) -> str:
    """Return the text of an attribute. typedbatch writes text as bytes, and Tianshou writes it as strings."""
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def decoded(name: str) -> str:
    """Return the name of a field for an escaped name of the file."""
    if name == "%":
        return ""
    for code, character in (("%2E", "."), ("%00", "\0"), ("%2F", "/"), ("%25", "%")):
        name = name.replace(code, character)
    return name


def read_group(
    group: h5py.Group, keep: Keep | None = None, names: Sequence[str] | None = None, met: set[int] | None = None
) -> Group:
    """Return a group with everything in it, or with only the members in ``names``.

    ``keep`` is called with each array, and ``met`` has the addresses of all groups and datasets that have been read.
    """
    met = {h5py.h5o.get_info(group.id).addr} if met is None else met
    attributes = {name: _attribute(group, name) for name in group.attrs if name != TYPE}
    members: dict[str, Any] = {}
    for name in group if names is None else [name for name in names if name in group]:
        with under(decoded(name)):
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise StorageError("expected a group or dataset, got a soft or external link, which is not followed")
            member: Any = group[name]
            address = h5py.h5o.get_info(member.id).addr
            if address in met:  # A group that contains itself would be read forever.
                raise StorageError("the file is damaged: it has the same group or dataset in two places")
            met.add(address)
            nested = isinstance(member, h5py.Group)
            members[name] = read_group(member, keep, None, met) if nested else read_dataset(member, keep)
    return Group(text_of(_attribute(group, TYPE)) if TYPE in group.attrs else "", attributes, members)


def read_dataset(dataset: Any, keep: Keep | None = None) -> Data:
    """Return a dataset as plain data."""
    if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
        raise StorageError("expected a dataset with its data in this file; data in other files is not read")
    try:
        is_ours = TYPE in dataset.attrs  # or Tianshou's; attributes of other programs mean something else
        kind = text_of(_attribute(dataset, TYPE)) if is_ours else "ndarray"
        if dataset.shape is None:
            return Data("json", b"null", {})
        _require_readable(dataset, kind)
        details = {name: _attribute(dataset, name) for name in DETAILS if is_ours and name in dataset.attrs}
        text = None if is_ours else h5py.check_string_dtype(dataset.dtype)
        if text is not None and (text.length is None or text.encoding == "utf-8"):
            texts: Any = dataset.asstr("utf-8", "surrogateescape")[()]
            content = json.dumps(texts.ravel().tolist() if dataset.shape else texts, ensure_ascii=False)
            details = {"shape": np.array(dataset.shape, np.int64)}
            kind = "json_ndarray" if dataset.shape else "json"
            return Data(kind, content.encode("utf-8", "surrogatepass"), details)
        if kind in JSON_KINDS:
            return Data(kind, bytes(memoryview(dataset[()])), details)
        array = np.empty(dataset.shape, dataset.dtype)
        if array.size:
            dataset.read_direct(array)
        return Data(kind, array if keep is None else keep(array), details)
    except StorageError:
        raise
    except (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError, MemoryError) as error:
        raise StorageError(f"the file is damaged: {error}") from error


def _require_readable(dataset: h5py.Dataset, kind: str) -> None:
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    # For a filter that it does not know, HDF5 loads a plugin from disk. Two compression filters in a row could expand
    # data far beyond _DENSEST.
    if not _FILTERS.issuperset(filters) or len(filters) != len(set(filters)) or _COMPRESSION.issubset(filters):
        raise StorageError(f"unsupported filters: {filters}")
    if dataset.nbytes > _DENSEST * dataset.id.get_storage_size() + 4096:
        raise StorageError("the file is damaged: it declares more data than it can contain")
    if kind in JSON_KINDS:
        if dataset.dtype != np.uint8 and dataset.shape != ():
            raise StorageError(f"expected JSON as uint8 or as one string, got an array of {dataset.dtype}")
        if filters:  # A few compressed bytes could become gigabytes of Python objects.
            raise StorageError(f"expected JSON without compression, got the filters {filters}")
        return
    if kind == "ndarray" and dataset.dtype.hasobject:
        if TYPE not in dataset.attrs and h5py.check_string_dtype(dataset.dtype) is not None:
            return
        raise StorageError(
            "arrays of variable length, or of references, are not read; open the file with h5py, and pass from_hdf5() "
            "the members to read"
        )
    if kind not in ("ndarray", "Tensor", "scalar") or dataset.dtype.hasobject:
        raise StorageError(f"data of the type {kind!r} is not read: it may be a pickle, which could execute anything")


def _attribute(owner: Any, name: str) -> Any:
    stored = owner.attrs.get_id(name)
    if not stored.dtype.hasobject or not stored.shape:  # () for a single text, None for an empty attribute
        return owner.attrs[name]
    if h5py.check_string_dtype(stored.dtype) is None:
        raise StorageError(f"expected an attribute {name!r} of numbers or text, got an array of objects")
    texts = owner.attrs[name]
    return object_array(texts.ravel().tolist()).reshape(texts.shape)


# ---- values from plain data -----------------------------------------------------------------------------------------


def build_value(node: Group | Data, device: Any, *, batch: bool = False) -> Any:
    """Return the value that a node of an HDF5 file stands for.

    With ``batch``, the node is inside of a Batch. A group there is a Batch too, although Tianshou does not mark it.
    """
    if isinstance(node, Data):
        return _leaf(node, device)
    batch |= node.kind == "Batch"
    fields: dict[str, Any] = {}
    for name, value in node.attributes.items():  # Tianshou stores numbers as attributes.
        kind = KINDS[type(value)]
        is_text_or_float = isinstance(value, (bytes, float, str))
        is_array = kind is ARRAY and (value.dtype == object or not value.dtype.hasobject)
        if kind is not SCALAR and not is_text_or_float and not is_array:
            raise StorageError(f"expected a number, text or array in an attribute of the file, got {describe(value)}")
        if isinstance(value, bytes):
            fields[decoded(name)] = text_of(value)
        else:
            fields[decoded(name)] = value.item() if kind is SCALAR else value
    for name, inner in node.members.items():
        with under(decoded(name)):
            fields[decoded(name)] = build_value(inner, device, batch=batch)
    return new_tree(Tree.__plain__, fields) if batch else fields


def _leaf(data: Data, device: Any) -> Any:
    kind, content, details = data
    try:
        if kind in JSON_KINDS:
            value = json.loads(content)
            if kind == "json":
                return value
            if not isinstance(value, list):
                raise ValueError("the items of an object array are not a list")
            return object_array(value).reshape(tuple(details["shape"]))
        if "time" in details:
            content = content.view(np.dtype(text_of(details["time"])))
        if kind == "Tensor":
            side = torch_side()
            name = text_of(details.get("dtype", "")).removeprefix("torch.")
            dtype = side.dtype_named(name) if name else side.torch.from_numpy(content).dtype
            tensor = side.from_bits(content, dtype).to(device)
            return tensor.requires_grad_(bool(details.get("requires_grad", False)))
        return content[()] if kind == "scalar" else content
    except StorageError:
        raise
    except (ValueError, TypeError, RuntimeError, LookupError, AttributeError, MemoryError) as error:
        raise StorageError(f"the file is damaged: {error}") from error


# ---- the process that reads -----------------------------------------------------------------------------------------


def serve() -> None:
    """Answer requests until the parent closes the pipe or sends none for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(0, "rb", buffering=0), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Output of libraries must not get between the lines.

    def send(*message: Any) -> None:
        answers.write(json.dumps(message, default=_encoded).encode() + b"\n")

    def keep(array: NDArray[Any]) -> None:
        send("array", npy.dtype_to_descr(array.dtype), array.shape)
        if array.nbytes:
            answers.write(array.reshape(-1).view(np.uint8).data)

    while os.name != "posix" or select.select([requests], [], [], _IDLE)[0]:
        if not (line := requests.readline()):
            return
        path, names, seconds, memory = json.loads(line)
        if resource is not None:  # The process writes no files and leaves no core dumps.
            seconds = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) + seconds) + 1
            limits = {"FSIZE": 0, "CORE": 0, "CPU": seconds, "AS": memory}
            for kind, limit in ((getattr(resource, f"RLIMIT_{name}"), limit) for name, limit in limits.items()):
                resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
        try:
            with h5py.File(path, "r") as file:
                tree = read_group(file, keep, names)
            send("tree", tree)
        except RecursionError:
            send("error", "the file is damaged: its groups are nested too deeply", "")
        except TypedBatchError as error:
            send("error", error.reason, error.path)
        except FileNotFoundError as error:
            send("error", str(error), "")
        except Exception as error:  # noqa: BLE001  # Invalid content can raise any error in HDF5 and above.
            send("error", f"the file is damaged: {error}", "")
        answers.flush()


def _encoded(value: Any) -> Any:
    """Return the bytes, number, text or array of an attribute or JSON dataset as JSON; None for other values."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"texts": value.ravel().tolist(), "shape": value.shape}
    if isinstance(value, bytes):
        return [base64.b64encode(value).decode()]
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biufS":
        return [base64.b64encode(value.tobytes()).decode(), value.dtype.str, value.shape]
    return None  # for example a reference


# ---- the process that asks ------------------------------------------------------------------------------------------

_idle: list[subprocess.Popen[bytes]] = []
"""Processes that are waiting for a request. They are used again, because it takes long to start one."""


class _GoneError(Exception):
    """The process ended before its answer was complete."""


def read_file(path: str | os.PathLike[str], names: list[str] | None = None, *, trusted: bool = False) -> Group:
    """Return the root group of an HDF5 file as plain data, or only the members in ``names``.

    A ``trusted`` file is read in this process, as files are that it has written.
    """
    with open_regular(path) as file:  # HDF5 opens the file again by its path, and would block on a pipe.
        found = os.fstat(file.fileno())
    if not trusted and not is_own(found):
        return _read_elsewhere(os.path.abspath(os.fspath(path)), names, found.st_size)
    try:
        with h5py.File(path, "r") as file:
            return read_group(file, None, names)
    except OSError as error:
        raise StorageError(str(error)) from error


def _read_elsewhere(path: str, names: list[str] | None, size: int) -> Group:
    seconds = SECONDS + size / 2_000_000
    limit = 10 * seconds  # of wall-clock time, for a process that waits forever
    request = json.dumps([path, names, seconds, 2**31 + _ALLOWANCE + _DENSEST * size]).encode() + b"\n"
    while True:
        try:
            process, fresh = _idle.pop(), False
        except IndexError:
            process, fresh = _start(), True
        begin = time.monotonic()
        timer = threading.Timer(limit, process.kill)
        timer.daemon = True
        try:
            timer.start()
            answer = _ask(process, request, size)
        except BaseException as error:
            with process:  # closes the pipes and waits
                process.kill()
            if not isinstance(error, _GoneError):
                raise
            if not fresh:
                continue  # An idle process may have exited since its last request; a fresh one must answer.
            reason = (
                "HDF5 crashed while reading it: it is damaged, was made to crash HDF5, or is too large for this "
                f"machine (the process that read it ended with {process.returncode})"
            )
            if process.returncode == -24 or time.monotonic() > begin + limit:  # SIGXCPU
                reason = "HDF5 did not finish reading it: it is damaged, or was made to keep HDF5 busy"
            raise StorageError(reason) from None
        finally:
            timer.cancel()
        _idle.append(process)
        if isinstance(answer, StorageError):
            raise answer
        return answer


def _start() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def _ask(process: subprocess.Popen[bytes], request: bytes, size: int) -> Group | StorageError:
    """Return the answer of a process: the content of a file, or the reason for which the process refuses it."""
    target: Any = process.stdin
    source: Any = process.stdout
    text, data = _ALLOWANCE + 2 * size, _ALLOWANCE + _DENSEST * size
    arrays: list[NDArray[Any]] = []
    try:
        os.write(target.fileno(), request)
    except BrokenPipeError:
        raise _GoneError from None
    while (line := source.readline(text + 1)).endswith(b"\n"):
        kind, *content = json.loads(line)
        if kind == "tree":
            return _group(content[0], iter(arrays))
        if kind == "error":
            return StorageError(*map(str, content))
        dtype, shape = npy.descr_to_dtype(content[0]), content[1]
        if dtype.hasobject:
            raise StorageError("the process that reads it sent something that is not an array")
        length = prod(shape) * dtype.itemsize
        data -= length + len(line)
        if data < 0:
            break
        arrays.append(np.empty(shape, dtype))
        if length and source.readinto(arrays[-1].reshape(-1).view(np.uint8).data) < length:
            raise _GoneError
    if data < 0 or len(line) > text:
        raise StorageError("the process that reads it sent more data than a file of this size can contain")
    raise _GoneError


def _group(content: Any, arrays: Iterator[NDArray[Any]]) -> Group:
    """Return the group that a tree describes. The arrays come in the order of its datasets."""
    kind, attributes, members = content
    nodes: dict[str, Any] = {}
    for name, (inner_kind, inner, rest) in members.items():
        if isinstance(inner, dict):
            nodes[name] = _group((inner_kind, inner, rest), arrays)
        else:
            data = next(arrays) if inner is None else _value(inner)
            nodes[name] = Data(inner_kind, data, {name: _value(value) for name, value in rest.items()})
    return Group(kind, {name: _value(value) for name, value in attributes.items()}, nodes)


def _value(encoded: Any) -> Any:
    """Return the value that :func:`_encoded` has encoded."""
    if isinstance(encoded, dict):
        return object_array(encoded["texts"]).reshape(encoded["shape"])
    if not isinstance(encoded, list):
        return encoded
    data = bytearray(base64.b64decode(encoded[0]))
    return bytes(data) if len(encoded) == 1 else np.frombuffer(data, encoded[1]).reshape(encoded[2])[()]


def end_idle() -> None:
    """End all processes that are waiting for a request."""
    while _idle:
        with _idle.pop() as process:
            process.kill()


def _forget_idle() -> None:
    """Drop the processes of the parent after a fork. They keep serving the parent."""
    while _idle:
        with _idle.pop() as process:  # closes the pipes
            process.returncode = 0  # Popen would otherwise wait for a process that is not a child of this one.


atexit.register(end_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_idle)


# ---- the file that HDF5 writes to -----------------------------------------------------------------------------------


class Target(io.RawIOBase):
    """A file object for h5py on a raw file. Its methods do not fail when the disk is full, but set :attr:`failure`."""

    def __init__(self, file: IO[bytes]) -> None:
        self.failure: OSError | None = None
        self._file: Any = file
        self._at = self._end = 0

    def seek(self, at: int, whence: int = 0, /) -> int:
        self._at = at + (0, self._at, self._end)[whence]
        return self._at

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        count = len(view)
        try:
            self._file.seek(self._at)
            while view and self.failure is None:
                view = view[self._file.write(view) :]
        except OSError as error:
            self.failure = error
        self._at += count
        self._end = max(self._end, self._at)
        return count

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        self._file.seek(self._at)
        read = self._file.readinto(view)
        view[read:] = bytes(len(view) - read)
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        size = self._at if size is None else size
        try:
            if self.failure is None:
                self._file.truncate(size)
        except OSError as error:
            self.failure = error
        self._end = size
        return size


@contextlib.contextmanager
def written(file: IO[bytes]) -> Generator[h5py.File]:
    """Open an HDF5 file for writing, in an empty raw file; errors of the operating system are raised as they are."""
    target = Target(file)
    try:
        # Only the latest version of the format has checksums.
        with h5py.File(target, "w", track_order=True, libver="latest") as hdf5_file:
            yield hdf5_file
    except (OSError, RuntimeError) as error:
        if target.failure is not None:
            raise target.failure from error
        raise StorageError(f"HDF5 could not write the file: {error}") from error
    if target.failure is not None:
        raise target.failure
    if os.utime in os.supports_fd:
        # The time comes from a fine clock, because two changes within a tick of the file system's clock look like one.
        now = time.time_ns() // 1000 * 1000
        with contextlib.suppress(OSError):  # of file systems that cannot do this; the file is then read like others
            os.utime(file.fileno(), ns=(now, now))
        found = os.fstat(file.fileno())
        if found.st_mtime_ns == now:
            _own.append((found.st_dev, found.st_ino, found.st_size, now))


def is_own(found: os.stat_result) -> bool:
    """Return whether this process has written a file, and nobody has changed it since."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) in _own
