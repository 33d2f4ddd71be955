"""Main function of the process that reads HDF5 files, with limits on time and memory, so that HDF5 can crash safely.

Requests are lines of JSON on standard input. An answer is a sequence of frames on standard output. A frame is a letter,
a length in 8 bytes, and data of that length: ``a`` for an array in the ``.npy`` format, ``t`` for the tree that the
arrays belong to, as JSON, and ``e`` for an error. A tree or an error ends the answer.
"""

from __future__ import annotations

import base64
import io
import json
import os
import select
import signal
import sys
from typing import Any

import h5py
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from typedbatch.errors import TypedBatchError
from typedbatch.files._hdf5.nodes import Data, Group, read_group

resource: Any
try:
    import resource
except ModuleNotFoundError:  # pragma: no cover  # Windows, where only the parent limits the time
    resource = None

_IDLE = 20.0
"""Number of seconds without a request after which the process exits."""
_KINDS = "biufcmMSUV"
"""Kinds of the dtypes that can be sent."""


def serve() -> None:
    """Answer requests until the parent closes the pipe or sends none for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if resource is not None:  # The process writes no files and leaves no core dumps.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = os.fdopen(0, "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # Output of libraries must not get between the frames.
    while os.name != "posix" or select.select([requests], [], [], _IDLE)[0]:
        if not (line := requests.readline()):
            return
        _answer(json.loads(line), answers)


def _answer(request: dict[str, Any], answers: Any) -> None:
    _limit(request)
    count = 0

    def keep(array: NDArray[Any], _: bool) -> int:
        nonlocal count
        _send_array(answers, array)
        count += 1
        return count - 1

    try:
        with h5py.File(request["path"], "r") as file:
            tree = read_group(file, keep, request["names"])
        _send(answers, b"t", json.dumps(_plain(tree)).encode())
    except RecursionError:
        reason = "the file is damaged: its groups are nested too deeply"
        _send(answers, b"e", json.dumps([reason, ""]).encode())
    except TypedBatchError as error:
        _send(answers, b"e", json.dumps([error.reason, error.path]).encode())
    except FileNotFoundError as error:
        _send(answers, b"e", json.dumps([str(error), ""]).encode())
    except BrokenPipeError:
        sys.exit()
    except Exception as error:  # noqa: BLE001  # Invalid content can raise any error in HDF5 and above.
        _send(answers, b"e", json.dumps([f"the file is damaged: {error}", ""]).encode())


def _limit(request: dict[str, Any]) -> None:
    if resource is None:
        return
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    seconds = int(used + request["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    resource.setrlimit(resource.RLIMIT_AS, (request["memory"], resource.getrlimit(resource.RLIMIT_AS)[1]))


def _send(answers: Any, kind: bytes, data: Any) -> None:
    view = memoryview(data).cast("B")
    _write(answers, kind + len(view).to_bytes(8, "little"))
    _write(answers, view)


def _send_array(answers: Any, array: NDArray[Any]) -> None:
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"data of the dtype {array.dtype} is not read")
    dtype = array.dtype
    if dtype.names is None and dtype.subdtype is None:
        dtype = np.dtype(dtype.str)  # without the metadata of h5py, which the format cannot store
    plain = np.ascontiguousarray(array).view(dtype).reshape(array.shape)
    header = io.BytesIO()
    npy.write_array_header_2_0(header, npy.header_data_from_array_1_0(plain))
    _write(answers, b"a" + (header.tell() + plain.nbytes).to_bytes(8, "little") + header.getvalue())
    if plain.nbytes:
        _write(answers, plain.reshape(-1).view(np.uint8).data)


def _write(answers: Any, data: Any) -> None:
    view = memoryview(data)
    while view:
        view = view[answers.write(view) :]


def _plain(node: Any) -> Any:
    """Return a node as lists and dicts for JSON."""
    if isinstance(node, Group):
        members = {name: _plain(inner) for name, inner in node.members.items()}
        return ["g", node.kind, _values(node.attributes), members]
    data: Data = node
    return ["d", data.kind, data.array, _values(data.details)]


def _values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in values.items()}


def _value(value: Any) -> Any:
    """Return an attribute as a pair for JSON: its type, or the dtype of an array, and its value."""
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biufSU":
        array: Any = value
        text = np.char.decode(array, "latin1") if value.dtype.kind == "S" else array
        return [value.dtype.str, text.tolist()]
    return ["other", f"{type(value).__name__}"]


if __name__ == "__main__":
    serve()
