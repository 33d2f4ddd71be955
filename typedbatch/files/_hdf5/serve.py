"""The process that reads HDF5 files for another one, which HDF5 must not take along: with limits on time and memory.

Requests are lines of JSON on standard input. What a file holds goes to standard output in frames: a letter, a length of
8 bytes, and so many bytes: ``a`` for an array as ``.npy``, ``t`` for the tree that the arrays are in, as JSON, and
``e`` for an error. A tree, or an error, ends the answer.
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
except ModuleNotFoundError:  # pragma: no cover  # Windows, where time is limited from outside alone
    resource = None

_IDLE = 20.0
"""Seconds without a request after which the process ends."""
_KINDS = "biufcmMSUV"


def serve() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = os.fdopen(0, "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # nothing else is to say anything there
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
        reason = "the file is damaged: groups inside each other, deeper than anybody writes them"
        _send(answers, b"e", json.dumps([reason, ""]).encode())
    except TypedBatchError as error:
        _send(answers, b"e", json.dumps([error.reason, error.path]).encode())
    except FileNotFoundError as error:
        _send(answers, b"e", json.dumps([str(error), ""]).encode())
    except BrokenPipeError:
        sys.exit()
    except Exception as error:  # noqa: BLE001  # whatever it is, what was read is the reason for it
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
        raise TypeError(f"data of {array.dtype}")
    plain = np.ascontiguousarray(array).view(_without_metadata(array.dtype)).reshape(array.shape)
    header = io.BytesIO()
    npy.write_array_header_2_0(header, npy.header_data_from_array_1_0(plain))
    _write(answers, b"a" + (header.tell() + plain.nbytes).to_bytes(8, "little") + header.getvalue())
    if plain.nbytes:
        _write(answers, plain.reshape(-1).view(np.uint8).data)


def _without_metadata(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What h5py notes of a dtype cannot be sent."""
    return dtype if dtype.names is not None or dtype.subdtype is not None else np.dtype(dtype.str)


def _write(answers: Any, data: Any) -> None:
    view = memoryview(data)
    while view:
        view = view[answers.write(view) :]


def _plain(node: Any) -> Any:
    """A node as JSON takes it."""
    if isinstance(node, Group):
        members = {name: _plain(inner) for name, inner in node.members.items()}
        return ["g", node.kind, _values(node.attributes), members]
    data: Data = node
    return ["d", data.kind, data.array, _values(data.details)]


def _values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in values.items()}


def _value(value: Any) -> Any:
    """An attribute as JSON takes it."""
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
